/* The widgets of the story of k-fold composition. */
(function (S) {
  "use strict";
  var el = S.el, svg = S.svg, LETTERS = "abcd";
  /* Hops as the task defines them; the test compares them with the Python oracle. */
  var math = S.composition = {
    hop: function (hidden, shown, i, j, r) {
      var k = hidden.length, path = [j];
      for (var step = 0; step < r; step += 1) {
        j = hidden[(i + step) % k][j];
        path.push(j);
        j = shown[(i + step) % k][j];
        path.push(j);
      }
      return { answer: j, path: path };
    },
  };
  function add(stage, nodes) { nodes.forEach(function (node) { stage.appendChild(node); }); }
  function shuffled(N) {
    var list = [], i, j, kept;
    for (i = 0; i < N; i += 1) list.push(i);
    for (i = N - 1; i > 0; i -= 1) { j = Math.floor(Math.random() * (i + 1)); kept = list[i]; list[i] = list[j]; list[j] = kept; }
    return list;
  }

  S.widgets["composition-task"] = function (stage) {
    var hidden = [[1, 2, 0, 3], [3, 1, 0, 2], [2, 3, 1, 0], [0, 3, 2, 1]], shown = [[2, 0, 3, 1], [1, 0, 2, 3], [3, 2, 1, 0], [0, 2, 1, 3]];
    var i = 0, j = 0, r = 2, k = 4, area = el("div", { class: "area" }), told = S.readout();
    function draw() {
      S.clear(area);
      var width = Math.max(260, area.clientWidth || 480), height = 210, columns = 2 * k, found = math.hop(hidden, shown, i, j, r);
      var X = function (c) { return 22 + c * (width - 44) / columns; }, Y = function (letter) { return 44 + letter * 42; };
      var drawing = svg("svg", { width: width, height: height, role: "img", "aria-label": "path through the permutations" }), c, step, letter;
      for (step = 0; step < k; step += 1) {
        drawing.appendChild(svg("text", { x: X(2 * step + 1), y: 16, "text-anchor": "middle", class: step < r ? "strong" : "" }, "block " + ((i + step) % k + 1)));
        for (letter = 0; letter < 4; letter += 1) {
          var mid = hidden[(i + step) % k][letter], on = step < r;
          drawing.appendChild(svg("line", { x1: X(2 * step), y1: Y(letter), x2: X(2 * step + 1), y2: Y(mid), class: "grid", "stroke-width": 1.5 }));
          drawing.appendChild(svg("line", { x1: X(2 * step + 1), y1: Y(letter), x2: X(2 * step + 2), y2: Y(shown[(i + step) % k][letter]), stroke: "currentColor", class: "s0", opacity: on ? 0.3 : 0.12, "stroke-width": 1.5 }));
        }
      }
      for (c = 1; c < found.path.length; c += 1) drawing.appendChild(svg("line", { x1: X(c - 1), y1: Y(found.path[c - 1]), x2: X(c), y2: Y(found.path[c]), stroke: "currentColor", class: "s1", "stroke-width": 4, "stroke-linecap": "round", "stroke-dasharray": c % 2 ? "2 7" : "none" }));
      for (c = 0; c <= columns; c += 1) for (letter = 0; letter < 4; letter += 1) {
        var here = found.path[c] === letter;
        drawing.appendChild(svg("circle", { cx: X(c), cy: Y(letter), r: here ? 10 : 7, fill: here ? "var(--named)" : "var(--soft)", stroke: "var(--line)" }));
        drawing.appendChild(svg("text", { x: X(c), y: Y(letter) + 4, "text-anchor": "middle", style: here ? "fill: var(--page); font-weight: 700" : "" }, LETTERS[letter]));
      }
      area.appendChild(drawing);
      S.say(told, ["From block " + (i + 1) + ", letter " + LETTERS[j] + ", " + r + (r > 1 ? " hops lead" : " hop leads") + " to ", S.bold(LETTERS[found.answer]), "."]);
    }
    var knobs = [
      S.slider({ label: "start block i", min: 1, max: k, value: 1 }, function (value) { i = value - 1; draw(); }),
      S.slider({ label: "hops r", min: 1, max: k, value: r }, function (value) { r = value; draw(); }),
    ];
    add(stage, [area, el("div", { class: "controls" }, [
      S.choice("letter j", LETTERS.split(""), "a", function (name) { j = LETTERS.indexOf(name); draw(); }), knobs[0].node, knobs[1].node,
      el("div", { class: "acts" }, S.button("draw new shown permutations", function () {
        var before = JSON.stringify(shown);
        do shown = shown.map(function () { return shuffled(4); }); while (JSON.stringify(shown) === before);
        draw();
      })),
    ]), told]);
    draw();
    return draw;
  };

  S.widgets["composition-doubling"] = function (stage) {
    var k = 16, layer = 3, start = 0, area = el("div", { class: "area" }), told = S.readout(), controls = el("div", { class: "controls" });
    function layers() { return 1 + Math.log2(k); }
    function draw() {
      S.clear(area);
      var size = Math.min(340, Math.max(260, area.clientWidth || 340)), c = size / 2, R = c - 34;
      var at = function (block, radius) { var angle = -Math.PI / 2 + 2 * Math.PI * block / k; return [c + radius * Math.cos(angle), c + radius * Math.sin(angle)]; };
      var drawing = svg("svg", { width: size, height: size, role: "img", "aria-label": "blocks in a circle", style: "margin: 0 auto" }), knows = layer ? Math.pow(2, layer - 1) : 0, block;
      for (block = 0; block < k; block += 1) {
        var p = at(block, R), inside = (block - start + k) % k < knows;
        drawing.appendChild(svg("circle", { cx: p[0], cy: p[1], r: block === start ? 12 : 9, fill: inside ? "var(--named)" : "var(--plain)" }));
        var t = at(block, R + 22);
        drawing.appendChild(svg("text", { x: t[0], y: t[1] + 4, "text-anchor": "middle" }, block + 1));
      }
      var look = layer < 2 ? 0 : Math.pow(2, layer - 2), from = at(start, R - 16), to = at((start + look) % k, R - 16);
      if (look) {
        drawing.appendChild(svg("path", { d: "M" + from.join(" ") + " Q" + c + " " + c + " " + to.join(" "), fill: "none", stroke: "currentColor", class: "s0", "stroke-width": 3 }));
        drawing.appendChild(svg("circle", { cx: to[0], cy: to[1], r: 5, fill: "currentColor", class: "s0" }));
      }
      area.appendChild(drawing);
      var hops = knows + (knows === 1 ? " hop" : " hops");
      S.say(told, layer === 0 ? "Before the first layer a token knows its own place and its shown value only." : layer === 1 ? ["Layer 1 looks at the letter that the hidden permutation names. The token now knows ", S.bold(hops), "."] : ["Layer " + layer + " looks at block " + ((start + look) % k + 1) + ", whose token knows " + look + (look === 1 ? " hop" : " hops") + ". Together that is ", S.bold(hops), "."]);
    }
    function restart() {
      layer = Math.min(layer, layers());
      S.clear(controls);
      add(controls, [
        S.choice("blocks k", ["4", "8", "16"], String(k), function (name) { k = +name; start %= k; restart(); }),
        S.slider({ label: "layer", min: 0, max: layers(), value: layer }, function (value) { layer = value; draw(); }).node,
        S.slider({ label: "start block", min: 1, max: k, value: start + 1 }, function (value) { start = value - 1; draw(); }).node,
      ]);
      draw();
    }
    add(stage, [area, controls, told]);
    restart();
    return draw;
  };

  S.widgets["composition-scores"] = function (stage, root, scores) {
    var fixed = "0", area = el("div", { class: "area" }), told = S.readout();
    function draw() {
      S.clear(area);
      var names = Object.keys(scores[fixed]), width = Math.max(260, area.clientWidth || 480), left = 168, row = 34;
      var low = -2.2, high = 4.6, X = function (value) { return left + (value - low) / (high - low) * (width - left - 40); };
      var drawing = svg("svg", { width: width, height: names.length * row + 8, role: "img", "aria-label": "scores of the keys" });
      drawing.appendChild(svg("line", { class: "cursor", x1: X(0), x2: X(0), y1: 0, y2: names.length * row }));
      names.forEach(function (name, i) {
        var value = scores[fixed][name], y = i * row + 6;
        drawing.appendChild(svg("text", { x: 0, y: y + 15, class: i ? "" : "strong" }, name));
        drawing.appendChild(svg("rect", { class: i ? "bar" : "bar named", x: Math.min(X(0), X(value)), width: Math.max(1.5, Math.abs(X(value) - X(0))), y: y, height: row - 12, rx: 2 }));
        drawing.appendChild(svg("text", { x: value < 0 ? X(0) + 6 : X(value) + 6, y: y + 15 }, String(+value.toFixed(2)).replace("-", "−")));
      });
      area.appendChild(drawing);
      var values = names.map(function (name) { return scores[fixed][name]; }), best = Math.max.apply(null, values.slice(1));
      S.say(told, ["With " + fixed + " letters in place the right key stands ", S.bold(S.show(values[0] - best)), " above the best wrong one."]);
    }
    var knob = S.slider({ label: "letters left in place", min: 0, max: 3, value: 0, show: String }, function (value) { fixed = String(value); draw(); });
    add(stage, [area, el("div", { class: "controls" }, [knob.node]), told]);
    draw();
    return draw;
  };

  S.widgets["composition-mixture"] = function (stage, root, about) {
    var L = about.heads, algorithm = "Algorithm 1", step = 0, area = el("div", { class: "area" }), told = S.readout(), next;
    function steps() { return algorithm === "Algorithm 1" ? 2 * L : L + 1; }
    function loss(head) {
      if (algorithm === "Algorithm 1") return step >= 2 * head + 2 ? 0 : step >= 2 * head + 1 ? about.plateau : about.start;
      return step > L ? 0 : step >= head + 1 ? about.plateau : about.start;
    }
    function words() {
      if (!step) return "Before training every head guesses: its loss is the logarithm of the number of letters.";
      if (algorithm === "Algorithm 1") return "Step " + step + " trains " + (step % 2 ? "attention of layer " : "the readout of head ") + Math.ceil(step / 2) + ", on examples with " + Math.pow(2, Math.ceil(step / 2) - 1) + (step < 3 ? " hop." : " hops.");
      return step <= L ? "Step " + step + " sees all examples, but only layer " + step + " has a gradient." : "The last step trains all readouts at once.";
    }
    function draw() {
      S.clear(area);
      var width = Math.max(260, area.clientWidth || 480), height = 200, gap = width / L, Y = function (value) { return height - 30 - value / 1.75 * (height - 50); };
      var drawing = svg("svg", { width: width, height: height, role: "img", "aria-label": "loss per head" });
      for (var head = 0; head < L; head += 1) {
        var value = loss(head), hops = Math.pow(2, head);
        drawing.appendChild(svg("rect", { class: "bar" + (value < about.start ? " named" : ""), x: head * gap + gap * 0.2, width: gap * 0.6, y: Y(value), height: Math.max(2, Y(0) - Y(value)), rx: 3 }));
        drawing.appendChild(svg("text", { x: head * gap + gap / 2, y: Y(value) - 6, "text-anchor": "middle", class: "strong" }, S.show(value)));
        drawing.appendChild(svg("text", { x: head * gap + gap / 2, y: height - 10, "text-anchor": "middle" }, hops + (hops > 1 ? " hops" : " hop")));
      }
      area.appendChild(drawing);
      S.say(told, words());
      next.disabled = step >= steps();
    }
    next = S.button("next step", function () { step += 1; draw(); });
    add(stage, [area, el("div", { class: "controls" }, [
      S.choice("training", ["Algorithm 1", "Algorithm 2"], algorithm, function (name) { algorithm = name; step = 0; draw(); }),
      el("div", { class: "acts" }, [next, S.button("start again", function () { step = 0; draw(); })]),
    ]), told]);
    draw();
    return draw;
  };
})(Story);
