/* A line chart in SVG: every seed thin, the median of each group thick; logarithmic axes, a cursor that reads values. */
(function () {
  const { make, draw, number } = stairwise;
  const LEFT = 66, RIGHT = 14, TOP = 10, LOWER = 44, LETTERS = 22;

  /* Round places between low and high; powers of ten on a logarithmic axis. */
  function ticks(low, high, log) {
    if (log) {
      const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
      const stride = Math.max(1, Math.ceil((last - first) / 6));
      const found = [];
      for (let power = first; power <= last; power += stride) found.push(10 ** power);
      if (found.length >= 2) return found;
      return ticks(low, high, false).filter((value) => value > 0);
    }
    const rough = (high - low) / 5 || 1, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((k) => k * size).find((each) => each >= rough);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step) found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
    return found;
  }

  function count(value) {
    const size = Math.abs(value);
    if (size >= 1e6 && value % 1e5 === 0) return value / 1e6 + "M";
    if (size >= 1e4 && value % 100 === 0) return value / 1e3 + "k";
    return number(value);
  }

  const shortened = (name) => (name.length > LETTERS ? name.slice(0, LETTERS - 1) + "…" : name);

  function scale(low, high, log, from, to) {
    const at = log ? Math.log10 : (value) => value;
    const span = at(high) - at(low) || 1;
    return (value) => from + (to - from) * (at(value) - at(low)) / span;
  }

  /* Lowest and highest of the values that the axis can show. */
  function range(values, log) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value === null || (log && value <= 0)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (low > high) return log ? [0.1, 1] : [0, 1];
    if (low === high) return log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    return [low, high];
  }

  /* The median over lines at the places that most of them share. */
  stairwise.median = function (lines) {
    const columns = new Map();
    for (const line of lines) line.x.forEach((x, k) => {
      if (line.y[k] === null) return;
      if (!columns.has(x)) columns.set(x, []);
      columns.get(x).push(line.y[k]);
    });
    const shared = [...columns].filter(([, values]) => 2 * values.length > lines.length).sort((a, b) => a[0] - b[0]);
    return { x: shared.map(([x]) => x), y: shared.map(([, values]) => middle(values)) };
  };
  function middle(values) {
    const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }

  function path(line, x, y, x0, logY) {
    let text = "", pen = "M";
    line.x.forEach((place, k) => {
      const value = line.y[k];
      if (value === null || place < x0 || (logY && value <= 0)) { pen = "M"; return; }
      text += pen + x(place).toFixed(1) + " " + y(value).toFixed(1);
      pen = "L";
    });
    return text;
  }

  /* groups: [{label, style, lines: [{x, y, label}]}]; options: {height, reach, logX, logY, xTitle, yTitle, about, dots, level} */
  stairwise.chart = function (place, groups, options) {
    // as wide as its place, so that letters keep their size on every screen
    const WIDTH = Math.max(300, Math.min(900, place.clientWidth || 760)), height = (options.height || 360) + (options.dots ? 60 : 0);
    const { logX, logY } = options;
    const names = options.dots ? groups.map((group) => shortened(group.label)) : [];
    const BOTTOM = LOWER + Math.round(4.4 * Math.max(0, ...names.map((name) => name.length)));  // names are slanted
    const all = groups.flatMap((group) => group.lines);
    const [x0, x1] = options.dots ? [-0.5, groups.length - 0.5] : options.reach || range(all.flatMap((line) => line.x), logX);
    const values = all.flatMap((line) => line.y.filter((_, k) => line.x[k] >= x0));
    let [y0, y1] = range(options.level === undefined ? values : [...values, options.level], logY);
    if (logY && options.level !== undefined) { y0 /= 1.6; y1 *= 1.6; }
    if (!logY) { const pad = 0.04 * (y1 - y0); y0 -= y0 === 0 ? 0 : pad; y1 += pad; }
    const x = scale(x0, x1, logX, LEFT, WIDTH - RIGHT), y = scale(y0, y1, logY, height - BOTTOM, TOP);
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", tabindex: 0, "aria-label": options.about });
    for (const value of ticks(y0, y1, logY)) {
      svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(draw("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, number(value)));
    }
    if (!options.dots) for (const value of ticks(x0, x1, logX)) {
      svg.append(draw("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: height - BOTTOM }));
      svg.append(draw("text", { x: x(value), y: height - BOTTOM + 18, "text-anchor": "middle" }, count(value)));
    }
    names.forEach((name, k) => svg.append(draw("text", { transform: `translate(${x(k)} ${height - BOTTOM + 14}) rotate(-40)`, "text-anchor": "end" }, name)));
    svg.append(draw("line", { class: "frame", x1: LEFT, x2: WIDTH - RIGHT, y1: height - BOTTOM, y2: height - BOTTOM }));
    svg.append(draw("text", { class: "axis-title", x: (LEFT + WIDTH - RIGHT) / 2, y: height - 6, "text-anchor": "middle" }, options.xTitle || ""));
    svg.append(draw("text", { class: "axis-title", transform: `translate(14 ${(TOP + height - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, options.yTitle || ""));
    if (options.level !== undefined) svg.append(draw("line", { class: "level", x1: LEFT, x2: WIDTH - RIGHT, y1: y(options.level), y2: y(options.level) }));
    const medians = groups.map((group) => stairwise.median(group.lines));
    groups.forEach((group, k) => {
      const [colour, dash] = group.style;
      for (const line of group.lines) {
        const single = line.x.length === 1;
        if (single || options.dots) line.x.forEach((at, j) => {
          if (line.y[j] === null || (logY && line.y[j] <= 0) || (logX && at <= 0)) return;
          svg.append(draw("circle", { class: `dot f${colour}`, cx: x(at), cy: y(line.y[j]), r: 4 }));
        });
        if (!single && !options.dots) svg.append(draw("path", { class: `seed c${colour}`, d: path(line, x, y, x0, logY) }));
      }
      if (!options.dots && options.level === undefined) svg.append(draw("path", { class: `median c${colour} d${dash}`, d: path(medians[k], x, y, x0, logY) }));
    });
    const cursor = draw("line", { class: "cursor", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
    svg.append(cursor);
    const tip = make("div", { class: "tip", hidden: true, role: "status" });
    place.replaceChildren(svg, tip);
    again(place, () => stairwise.chart(place, groups, options));
    const reader = { least: x0, svg, tip, cursor, x, width: WIDTH, medians, groups, options, place, at: -1 };
    reader.places = [...new Set((options.level === undefined ? medians : all).flatMap((line) => line.x))].filter((value) => value >= x0).sort((a, b) => a - b);
    if (reader.places.length && !options.quiet) listen(reader);
    place.mark = (value) => { place.marked = value; mark(reader, value); };
    if (place.marked !== undefined) mark(reader, place.marked);
  };

  /* Draws anew when the place has become wider or narrower. */
  function again(place, redraw) {
    const width = place.clientWidth;
    place.observer?.disconnect();
    place.observer = new ResizeObserver(() => { if (Math.abs(place.clientWidth - width) > 8) redraw(); });
    place.observer.observe(place);
  }

  /* The vertical line alone, at a place on the axis. */
  function mark(reader, value) {
    const shown = value !== null && value >= reader.least;
    reader.cursor.setAttribute("visibility", shown ? "visible" : "hidden");
    if (shown) { reader.cursor.setAttribute("x1", reader.x(value)); reader.cursor.setAttribute("x2", reader.x(value)); }
  }

  function listen(reader) {
    const { svg, places } = reader;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), target = (event.clientX - box.left) * reader.width / box.width;
      let best = 0;
      places.forEach((value, k) => { if (Math.abs(reader.x(value) - target) < Math.abs(reader.x(places[best]) - target)) best = k; });
      read(reader, best);
    });
    svg.addEventListener("pointerleave", () => hide(reader));
    svg.addEventListener("blur", () => hide(reader));
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") hide(reader);
      if (!move) return;
      event.preventDefault();
      read(reader, Math.min(places.length - 1, Math.max(0, reader.at + move)));
    });
  }

  function hide(reader) { reader.tip.hidden = true; mark(reader, reader.place.marked ?? null); }

  function read(reader, k) {
    const { tip, groups, medians, places, options, svg, place } = reader;
    reader.at = k;
    const at = places[k];
    mark(reader, at);
    const rows = [];
    groups.forEach((group, g) => {
      const values = group.lines.map((line) => line.y[line.x.indexOf(at)]).filter((value) => value !== undefined && value !== null);
      if (!values.length) return;
      const many = values.length > 1 ? ` (${number(Math.min(...values))} to ${number(Math.max(...values))})` : "";
      const j = medians[g].x.indexOf(at);
      rows.push([group, number(j < 0 ? middle(values) : medians[g].y[j]) + many]);
    });
    const body = rows.slice(0, 14).map(([group, text]) => make("tr", {}, make("td", {}, key(group.style)), make("td", {}, group.label), make("td", {}, text)));
    if (rows.length > 14) body.push(make("tr", {}, make("td", { colspan: 3 }, `and ${rows.length - 14} more`)));
    const heading = options.dots ? "" : `${options.xTitle} ${at.toLocaleString("en")}`;
    tip.replaceChildren(heading, make("table", {}, make("tbody", {}, ...body)));
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), left = reader.x(at) * box.width / reader.width;
    const room = place.clientWidth - tip.offsetWidth;
    tip.style.left = Math.max(0, left + 12 > room ? Math.min(left - tip.offsetWidth - 12, room) : left + 12) + "px";
    tip.style.top = "12px";
  }

  function key(style) {
    return draw("svg", { width: 22, height: 10, "aria-hidden": "true" }, draw("line", { class: `c${style[0]} d${style[1]}`, x1: 0, x2: 22, y1: 5, y2: 5, "stroke-width": 2.5 }));
  }
  stairwise.key = key;
  stairwise.dot = (style) => draw("svg", { width: 10, height: 10, "aria-hidden": "true" }, draw("circle", { class: `f${style[0]}`, cx: 5, cy: 5, r: 4.5 }));
  stairwise.style = (k) => [k % 7, Math.floor(k / 7) % 4];
})();
