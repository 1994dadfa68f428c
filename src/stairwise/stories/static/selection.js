/* The widgets of the story of sparse token selection. */
(function (S) {
  "use strict";
  var el = S.el, svg = S.svg;

  /* Attention and loss in closed form; the test compares both with the Python formulas. */
  var math = S.selection = {
    weight: function (T, q, C) { return 1 / (q + (T - q) * Math.exp(-C)); },
    loss: function (T, q, d, alpha, C) {
      var u = T > q ? (T - q) * Math.exp(-C) * math.weight(T, q, C) : 0, missing = 1 - alpha + alpha * u;
      return d / 2 * (missing * missing / q + Math.pow(alpha * u, 2) / Math.max(1, T - q));
    },
  };

  /* Bars on a line: {values, named, low, high, labels, change}. A bar that can be changed is a slider of its own. */
  function bars(node, options) {
    S.clear(node);
    var width = Math.max(260, node.clientWidth || 480), height = options.height || 190, n = options.values.length;
    var gap = width / n, top = 12, bottom = height - 26, span = options.high - options.low;
    var Y = function (value) { return bottom - (value - options.low) / span * (bottom - top); };
    var drawing = svg("svg", { width: width, height: height, viewBox: "0 0 " + width + " " + height });
    drawing.appendChild(svg("line", { class: "cursor", x1: 0, x2: width, y1: Y(0), y2: Y(0) }));
    options.values.forEach(function (value, i) {
      var x = i * gap + gap * 0.18, kind = "bar" + (options.named[i] ? " named" : "");
      drawing.appendChild(svg("rect", { class: kind, x: x, width: gap * 0.64, y: Math.min(Y(0), Y(value)), height: Math.max(1.5, Math.abs(Y(0) - Y(value))), rx: 2 }));
      drawing.appendChild(svg("text", { x: i * gap + gap / 2, y: height - 8, "text-anchor": "middle", class: options.named[i] ? "strong" : "" }, options.labels ? options.labels[i] : i + 1));
      if (options.change) {
        var set = function (to) { options.change(i, Math.round(Math.max(options.low, Math.min(options.high, to)) * 10) / 10); };
        var hand = svg("rect", {
          class: "hand", x: i * gap, width: gap, y: top, height: bottom - top, fill: "transparent", tabindex: 0, role: "slider",
          "aria-label": "token " + (i + 1), "aria-valuemin": options.low, "aria-valuemax": options.high, "aria-valuenow": value, "data-bar": i,
          style: "touch-action: none",
        });
        var drag = function (event) { set(options.low + (bottom - (event.clientY - drawing.getBoundingClientRect().top)) / (bottom - top) * span); };
        hand.addEventListener("pointerdown", function (event) {
          event.preventDefault();
          var stop = function () { removeEventListener("pointermove", drag); removeEventListener("pointerup", stop); };
          addEventListener("pointermove", drag);
          addEventListener("pointerup", stop);
          drag(event);
        });
        hand.addEventListener("keydown", function (event) {
          var step = { ArrowUp: 0.1, ArrowRight: 0.1, ArrowDown: -0.1, ArrowLeft: -0.1 }[event.key];
          if (!step) return;
          event.preventDefault();
          set(value + step);
          node.querySelector('[data-bar="' + i + '"]').focus();
        });
        drawing.appendChild(hand);
      }
    });
    node.appendChild(drawing);
    return { svg: drawing, Y: Y, width: width };
  }
  function picker(named, label, change) {
    return el("div", { class: "tokens", role: "group", "aria-label": label }, named.map(function (on, i) {
      return el("button", { type: "button", class: "token", "aria-pressed": String(on), onclick: function (event) {
        named[i] = !named[i];
        event.currentTarget.setAttribute("aria-pressed", String(named[i]));
        change();
      } }, i + 1);
    }));
  }
  function count(named) { return named.filter(Boolean).length; }

  S.widgets["selection-task"] = function (stage) {
    var values = [0.8, -1.2, 0.3, 1.6, -0.4, -1.7, 1.1, 0.5], named = values.map(function (_, i) { return i === 1 || i === 3 || i === 6; });
    var area = el("div", { class: "area" }), told = S.readout();
    function draw() {
      var place = bars(area, { values: values, named: named, low: -2, high: 2, change: function (i, value) { values[i] = value; draw(); } });
      var q = count(named), chosen = values.filter(function (_, i) { return named[i]; });
      if (!q) { S.say(told, "The query names nothing, so there is nothing to average. Name a position."); return; }
      var answer = chosen.reduce(function (a, b) { return a + b; }, 0) / q;
      place.svg.appendChild(svg("line", { class: "outline", x1: 0, x2: place.width, y1: place.Y(answer), y2: place.Y(answer), stroke: "currentColor" }));
      S.say(told, ["Answer: (" + chosen.map(function (v) { return v < 0 ? "−" + S.show(-v) : S.show(v); }).join(" + ") + ") / " + q + " = ", S.bold(answer.toFixed(2).replace("-", "−"))]);
    }
    [area, el("p", { class: "label" }, "The query names these positions:"), picker(named, "query", draw), told].forEach(function (node) { stage.appendChild(node); });
    draw();
    return draw;
  };

  S.widgets["selection-attention"] = function (stage) {
    var T = 12, named = [], C = 0.5, alpha = 1, area = el("div", { class: "area" }), told = S.readout();
    for (var i = 0; i < T; i += 1) named.push(i === 2 || i === 6 || i === 7);
    function draw() {
      var q = count(named);
      if (!q) { S.clear(area); S.say(told, "Name a position."); return; }
      var s = math.weight(T, q, C), other = (1 - q * s) / Math.max(1, T - q);
      bars(area, { values: named.map(function (on) { return on ? s : other; }), named: named, low: 0, high: Math.max(0.4, 1 / q) });
      S.say(told, ["Each named position holds ", S.bold((100 * s).toFixed(1) + " %"), " of the weight, all others together ", S.bold((100 * (1 - q * s)).toFixed(1) + " %"), ". Loss per coordinate: ", S.bold(S.show(math.loss(T, q, 1, alpha, C)))]);
    }
    var knobs = [
      S.slider({ label: "sharpness C", min: 0, max: 10, step: 0.1, value: C }, function (value) { C = value; draw(); }),
      S.slider({ label: "scale α", min: 0, max: 3, step: 0.05, value: alpha }, function (value) { alpha = value; draw(); }),
    ];
    [area, picker(named, "query", draw), el("div", { class: "controls" }, knobs.map(function (knob) { return knob.node; })), told].forEach(function (node) { stage.appendChild(node); });
    draw();
    return draw;
  };

  S.widgets["selection-flow"] = function (stage, root, path) {
    var area = el("div", { class: "area" }), told = S.readout(), at = 60, last = path.time.length - 1;
    function draw() {
      var place = S.frame(area, { x: "value scale α", y: "sharpness C", xs: [0, 1.08 * Math.max.apply(null, path.alpha)], ys: [0, 1.06 * path.C[last]] });
      S.curve(place, { x: path.alpha, y: path.C, style: "dash" }, 0);
      S.curve(place, { x: path.alpha.slice(0, at + 1), y: path.C.slice(0, at + 1), style: "line" }, 1);
      place.svg.appendChild(svg("circle", { cx: place.X(path.alpha[at]), cy: place.Y(path.C[at]), r: 6, fill: "currentColor", class: "s1" }));
      S.say(told, ["Time " + S.show(path.time[at]) + ": α = ", S.bold(S.show(path.alpha[at])), ", C = ", S.bold(S.show(path.C[at])), ", loss ", S.bold(S.show(path.loss[at]))]);
    }
    var knob = S.slider({ label: "training time", min: 0, max: last, value: at, show: function (i) { return S.show(path.time[i]); } }, function (value) { at = value; draw(); });
    [area, el("div", { class: "controls" }, [knob.node]), told].forEach(function (node) { stage.appendChild(node); });
    draw();
    return draw;
  };

  S.widgets["selection-lengths"] = function (stage) {
    var seen = 8, T = 12, C = 6, fixed = true, named = [], area = el("div", { class: "area" }), told = S.readout();
    for (var i = 0; i < T; i += 1) named.push(i === 1 || i === 9);
    function draw() {
      var scores = named.map(function (on, i) { return on && (!fixed || i < seen) ? C : 0; });
      var total = scores.reduce(function (sum, score) { return sum + Math.exp(score); }, 0), weights = scores.map(function (score) { return Math.exp(score) / total; });
      var place = bars(area, { values: weights, named: named, low: 0, high: 1 }), edge = place.width * seen / T;
      place.svg.appendChild(svg("line", { class: "cursor", x1: edge, x2: edge, y1: 6, y2: 164 }));
      place.svg.appendChild(svg("text", { x: edge - 6, y: 16, "text-anchor": "end" }, "trained"));
      place.svg.appendChild(svg("text", { x: edge + 6, y: 16 }, "new"));
      var q = count(named), right = weights.reduce(function (sum, w, i) { return sum + (named[i] ? Math.min(w, 1 / q) : 0); }, 0);
      var missed = named.filter(function (on, i) { return on && fixed && i >= seen; }).length;
      S.say(told, !q ? "Name a position." : ["The answer is read with ", S.bold((100 * right).toFixed(0) + " %"), " of the right weights. ", missed ? missed + " of " + q + " named positions " + (missed > 1 ? "are" : "is") + " invisible to attention." : "Every named position is found."]);
    }
    [area, picker(named, "query", draw), el("div", { class: "controls" }, [S.choice("position vectors", ["fixed", "stochastic"], "fixed", function (name) { fixed = name === "fixed"; draw(); })]), told].forEach(function (node) { stage.appendChild(node); });
    draw();
    return draw;
  };
})(Story);
