/* The microscope: maps as pixels, a slider over frames, predicted structure on top, curves in step. */
(function () {
  const { make, draw, load, number, box } = stairwise;
  const ABSENT = 65535;
  const DIVERGING = [[5, 48, 97], [33, 102, 172], [67, 147, 195], [146, 197, 222], [209, 229, 240], [247, 247, 247], [253, 219, 199], [244, 165, 130], [214, 96, 77], [178, 24, 43], [103, 0, 31]];
  const RISING = [[0, 32, 77], [0, 52, 110], [57, 72, 107], [87, 93, 109], [112, 113, 115], [138, 134, 120], [166, 157, 117], [196, 181, 108], [228, 207, 91], [255, 234, 70]];

  function palette(anchors) {
    return Array.from({ length: 256 }, (_, k) => {
      const place = k / 255 * (anchors.length - 1), left = Math.min(anchors.length - 2, Math.floor(place)), part = place - left;
      return anchors[left].map((from, c) => Math.round(from + (anchors[left + 1][c] - from) * part));
    });
  }
  const PALETTES = { diverging: palette(DIVERGING), rising: palette(RISING) };

  const GREYS = Array.from({ length: 32 }, (_, k) => [k, k, k].map((each) => Math.round(each * 255 / 31)));
  const COLOURS = [...GREYS, ...Object.values(PALETTES).flatMap((palette) => palette.filter((_, k) => k % 2 === 0).slice(0, 112))];

  /* The maps of a frame side by side on white, with their names. */
  function montage(plates, label) {
    const WIDTH = 300, GAP = 16, HEAD = 22, sizes = plates.map((each) => Math.round(WIDTH / each.shape()));
    const across = Math.min(3, plates.length), rows = Math.ceil(plates.length / across);
    const tall = Array.from({ length: rows }, (_, row) => HEAD + Math.max(...sizes.slice(row * across, (row + 1) * across)) + GAP);
    const canvas = make("canvas", { width: across * (WIDTH + GAP) + GAP, height: tall.reduce((a, b) => a + b, 2 * HEAD) });
    const pen = canvas.getContext("2d");
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.fillStyle = "#000";
    pen.font = "bold 16px sans-serif";
    pen.fillText(label, GAP, HEAD);
    pen.font = "13px sans-serif";
    pen.imageSmoothingEnabled = false;
    plates.forEach((each, k) => {
      const left = GAP + (k % across) * (WIDTH + GAP), top = 2 * HEAD + tall.slice(0, Math.floor(k / across)).reduce((a, b) => a + b, 0);
      pen.fillText(each.name, left, top, WIDTH);
      each.onto(pen, left, top + 8, WIDTH, sizes[k]);
    });
    return pen.getImageData(0, 0, canvas.width, canvas.height);
  }

  function decode(map, frame) {
    if (frame.values) return frame.values;
    const bytes = Uint8Array.from(atob(frame.data), (letter) => letter.charCodeAt(0));
    const codes = new DataView(bytes.buffer), values = new Float64Array(bytes.length / 2);
    for (let k = 0; k < values.length; k++) {
      const code = codes.getUint16(2 * k, true);
      values[k] = code === ABSENT ? NaN : map.low + (map.high - map.low) * code / (ABSENT - 1);
    }
    return (frame.values = values);
  }

  function start() {
    const place = document.getElementById("scope");
    if (!place) return;
    const trial = document.getElementById("trial"), stage = make("div", {});
    place.append(stage);
    let stop = () => {};
    /* The address holds the trial, by its digest, and the frame; without a frame the last one is shown. */
    const digest = () => trial.value.split("/").pop();
    const told = (frame) => stairwise.remember({ trial: digest(), frame: String(frame) });
    const open = (frame) => {
      stop();
      load(trial.value).then((scope) => { stop = show(stage, scope, { place: scope.places[frame] }, told); }).catch((error) => stairwise.failed(stage, error));
    };
    const follow = () => {
      const wanted = stairwise.wanted(), asked = [...trial.options].find((each) => each.value.split("/").pop() === wanted.trial);
      if (asked) trial.value = asked.value;
      open(/^\d+$/.test(wanted.frame ?? "") ? Number(wanted.frame) : undefined);
    };
    trial.addEventListener("change", () => { stairwise.remember({ trial: digest() }); open(); });
    window.addEventListener("hashchange", follow);
    follow();
  }

  /* `kept` is how an earlier picture of the same trial was set; it stays at its frame, or at the last one.
     `told` hears of the frame that the reader has chosen. */
  function show(place, scope, kept, told) {
    const frames = scope.places.length, last = frames - 1;
    const state = { frame: 0, overlay: true, own: false, timer: null, ...kept?.switches };
    const alone = scope.maps.length === 1;
    const plates = scope.maps.map((map) => plate(map, state, alone));
    const label = make("output", { for: "frame" });
    const slider = make("input", { type: "range", id: "frame", min: 0, max: last, value: 0, step: 1, "aria-label": "Frame", input: () => { go(Number(slider.value)); told?.(state.frame); } });
    const play = make("button", { type: "button", class: "play", click: () => { state.timer ? pause() : begin(); told?.(state.frame); } }, "▶ Play");
    const beside = kinds(scope.curves).map((curves) => ({ curves, chart: make("div", { class: "chart" }), legend: make("div", { class: "legend-keys" }) }));
    place.replaceChildren(
      make("p", {}, scope.says),
      make("div", { class: "player" }, play, slider, label),
      make("div", { class: "controls" },
        scope.maps.some((map) => map.overlays.length) ? box("predicted structure", state.overlay, (on) => { state.overlay = on; redraw(); }) : "",
        box("colours for this frame alone", state.own, (on) => { state.own = on; redraw(); }),
        frames > 1 ? make("button", { type: "button", class: "gif", click: record }, "Save as GIF") : ""),
      make("div", { class: "stage" }, make("div", { class: "maps" }, ...plates.map((each) => each.element)),
        make("div", {}, ...beside.flatMap((each) => [each.chart, each.legend]))));

    function drawCurves(each) {
      const groups = each.curves.map((curve, k) => ({ label: curve.name, style: stairwise.style(k), lines: [{ x: curve.places, y: curve.values }] }));
      const values = each.curves.flatMap((curve) => curve.values).filter((value) => value !== null);
      const first = scope.places.find((value) => value > 0) || 1, wide = scope.places[last] > 200 * first;
      const reach = [wide ? first : scope.places[0], Math.max(scope.places[last], ...each.curves.flatMap((curve) => curve.places))];
      const steep = values.every((value) => value > 0) && Math.max(...values) > 300 * Math.min(...values);
      stairwise.chart(each.chart, groups, {
        height: beside.length > 1 ? 230 : 320, reach, logX: wide, logY: steep, xTitle: scope.axis, yTitle: "",
        about: groups.map((group) => group.label).join(", ") + ". Arrow keys read values.",
      });
      each.legend.replaceChildren(...groups.map((group) => make("span", { class: "small" }, stairwise.key(group.style), " " + group.label)));
    }
    function redraw() { plates.forEach((each) => each.paint()); }
    function go(frame) {
      state.frame = frame;
      slider.value = frame;
      label.textContent = scope.labels[frame];
      slider.setAttribute("aria-valuetext", scope.labels[frame]);
      redraw();
      beside.forEach((each) => each.chart.mark(scope.places[frame]));
    }
    /* Every frame of every map, as they are set now, in one picture. */
    function record() {
      const before = state.frame;
      pause();
      const pictures = scope.places.map((_, frame) => { go(frame); return montage(plates, scope.labels[frame]); });
      go(before);
      stairwise.save(stairwise.gif(pictures, COLOURS, pace()), `${document.title.split(" ")[0].replace("/", "-")}.gif`, "image/gif");
    }
    const pace = () => Math.max(120, Math.min(900, 6000 / frames));
    function begin() {
      if (state.frame === last) go(0);
      play.textContent = "❚❚ Pause";
      state.timer = setInterval(() => { if (state.frame < last) go(state.frame + 1); else { pause(); told?.(last); } }, pace());
    }
    function pause() {
      clearInterval(state.timer);
      state.timer = null;
      play.textContent = "▶ Play";
    }
    beside.forEach(drawCurves);
    const before = scope.places.indexOf(kept?.place);
    go(before < 0 ? last : before);
    pause.kept = () => ({ place: state.frame === last ? null : scope.places[state.frame], switches: { overlay: state.overlay, own: state.own } });
    return pause;
  }
  stairwise.scope = show;

  /* Losses, entropies and the rest have axes of their own. */
  function kinds(curves) {
    const of = (curve) => (/loss/i.test(curve.name) ? 0 : /entropy/i.test(curve.name) ? 1 : 2);
    return [0, 1, 2].map((kind) => curves.filter((curve) => of(curve) === kind)).filter((some) => some.length);
  }

  /* One map: pixels, rings on predicted cells, a cell under the pointer or the arrow keys. */
  function plate(map, state, alone) {
    const canvas = make("canvas", { tabindex: 0, role: "img" }), rings = draw("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
    const reading = make("p", { class: "reading", "aria-live": "polite" });
    const rowTitle = make("span", {}), columnTitle = make("span", {});
    const bar = make("canvas", { width: 256, height: 1, "aria-hidden": "true" }), low = make("span", {}), high = make("span", {});
    const element = make("section", { class: "map", "aria-label": map.name }, make("h3", {}, map.name), make("p", {}, map.says),
      make("div", { class: "plate" }, canvas, rings), make("div", { class: "titles" }, rowTitle, columnTitle),
      make("div", { class: "scale" }, low, bar, high), reading);
    const colours = map.low < 0 ? PALETTES.diverging : PALETTES.rising;
    let cell = null;

    function current() {
      const frame = map.frames[Math.min(state.frame, map.frames.length - 1)];
      return { frame, rows: map.axes[frame.rows], columns: map.axes[frame.columns], values: decode(map, frame) };
    }
    function limits(values) {
      let from = map.low, to = map.high;
      if (state.own) {
        const there = values.filter((value) => !Number.isNaN(value));
        from = there.reduce((a, b) => Math.min(a, b), Infinity);
        to = there.reduce((a, b) => Math.max(a, b), -Infinity);
        if (!(from < to)) [from, to] = [map.low, map.high];
      }
      if (map.low < 0) { const size = Math.max(-from, to, 1e-300); return [-size, size]; }
      return [Math.min(0, from), to || 1];
    }
    function paint() {
      const { frame, rows, columns, values } = current(), height = rows.labels.length, width = columns.labels.length;
      const [from, to] = limits(values);
      canvas.width = width;
      canvas.height = height;
      const context = canvas.getContext("2d"), image = context.createImageData(width, height);
      values.forEach((value, k) => {
        if (Number.isNaN(value)) return;
        const [red, green, blue] = colours[Math.round(255 * Math.min(1, Math.max(0, (value - from) / (to - from))))];
        image.data.set([red, green, blue, 255], 4 * k);
      });
      context.putImageData(image, 0, 0);
      // square cells, unless the map would become a thread
      const shape = Math.min(2.2, Math.max(0.45, width / height));
      canvas.style.aspectRatio = String(shape);
      element.classList.toggle("broad", alone || (width >= 48 && shape > 1.6));
      rings.setAttribute("viewBox", `0 0 ${width} ${height}`);
      rings.replaceChildren();
      for (const at of columns.blocks) rings.append(draw("line", { class: "block", x1: at, x2: at, y1: 0, y2: height }));
      for (const at of rows.blocks) rings.append(draw("line", { class: "block", x1: 0, x2: width, y1: at, y2: at }));
      // around a small cell rather than on it
      const box = canvas.getBoundingClientRect(), across = Math.max(0.42, 4.5 * width / box.width), down = Math.max(0.42, 4.5 * height / box.height);
      const kinds = box.width > 8 * width ? ["halo", "ring"] : ["ring"];
      if (state.overlay) frame.cells.forEach((cells) => cells.forEach(([row, column]) => {
        for (const kind of kinds) rings.append(draw("ellipse", { class: kind, cx: column + 0.5, cy: row + 0.5, rx: across, ry: down }));
      }));
      if (cell) rings.append(draw("rect", { class: "at", x: cell[1], y: cell[0], width: 1, height: 1 }));
      rowTitle.textContent = "↓ " + rows.title;
      columnTitle.textContent = columns.title + " →";
      paintBar(from, to);
      const overlays = map.overlays.length && state.overlay ? `; circled: ${map.overlays.join(", ")}` : "";
      canvas.setAttribute("aria-label", `${map.name}: ${height} by ${width}, from ${number(map.low)} to ${number(map.high)}${overlays}. Arrow keys read cells.`);
      say();
    }
    function paintBar(from, to) {
      const context = bar.getContext("2d"), image = context.createImageData(256, 1);
      colours.forEach((colour, k) => image.data.set([...colour, 255], 4 * k));
      context.putImageData(image, 0, 0);
      low.textContent = number(from);
      high.textContent = number(to);
    }
    function say() {
      if (!cell) {
        reading.textContent = map.overlays.length ? `Circled: ${map.overlays.join(", ")}. Point at a cell to read it.` : "Point at a cell to read it.";
        return;
      }
      const { frame, rows, columns, values } = current();
      const [row, column] = [Math.min(cell[0], rows.labels.length - 1), Math.min(cell[1], columns.labels.length - 1)];
      const value = values[row * columns.labels.length + column];
      const predicted = map.overlays.filter((_, k) => frame.cells[k].some(([r, c]) => r === row && c === column));
      reading.replaceChildren(
        make("b", {}, Number.isNaN(value) ? "not there" : number(value)), ` · ${rows.title}: `, make("b", {}, rows.labels[row]), ` · ${columns.title}: `, make("b", {}, columns.labels[column]),
        predicted.length ? ` · predicted: ${predicted.join(", ")}` : "");
    }
    function move(row, column) {
      const { rows, columns } = current();
      cell = [Math.max(0, Math.min(rows.labels.length - 1, row)), Math.max(0, Math.min(columns.labels.length - 1, column))];
      rings.querySelector(".at")?.remove();
      rings.append(draw("rect", { class: "at", x: cell[1], y: cell[0], width: 1, height: 1 }));
      say();
    }
    canvas.addEventListener("pointermove", (event) => {
      const bounds = canvas.getBoundingClientRect();
      move(Math.floor((event.clientY - bounds.top) / bounds.height * canvas.height), Math.floor((event.clientX - bounds.left) / bounds.width * canvas.width));
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      move(...(cell ? [cell[0] + step[0], cell[1] + step[1]] : [0, 0]));
    });
    const shape = () => Number(canvas.style.aspectRatio);
    function onto(pen, left, top, wide, high) {
      pen.drawImage(canvas, left, top, wide, high);
      if (!state.overlay) return;
      const across = wide / canvas.width, down = high / canvas.height;
      for (const cells of current().frame.cells) for (const [row, column] of cells) {
        pen.beginPath();
        pen.ellipse(left + (column + 0.5) * across, top + (row + 0.5) * down, Math.max(3, 0.42 * across), Math.max(3, 0.42 * down), 0, 0, 2 * Math.PI);
        pen.stroke();
      }
    }
    return { element, paint, shape, onto, name: map.name };
  }

  stairwise.start.push(start);
})();
