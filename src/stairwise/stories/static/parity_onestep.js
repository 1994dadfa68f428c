/* The widgets of the story of parity in one gradient step. */
(function (S) {
  "use strict";
  var el = S.el, svg = S.svg;
  /* Eight bits, four of them secret; tokens 8 and 9 are the nodes of the first level, 10 is the root. */
  var SECRET = [1, 2, 4, 7], CHILDREN = { 8: [1, 2], 9: [4, 7], 10: [8, 9] }, NODES = [8, 9, 10], NAMES = { 8: "left node", 9: "right node", 10: "root" };
  var math = S.onestep = {
    /* the values of all tokens */
    complete: function (bits) {
      var x = bits.slice();
      NODES.forEach(function (m) { x[m] = x[CHILDREN[m][0]] * x[CHILDREN[m][1]]; });
      return x;
    },
    /* the mean of a function of the values over all inputs */
    mean: function (d, f) {
      var total = 0;
      for (var code = 0; code < 1 << d; code += 1) {
        var bits = [];
        for (var j = 0; j < d; j += 1) bits.push(code >> j & 1 ? -1 : 1);
        total += f(bits);
      }
      return total / (1 << d);
    },
    /* which levels the filter leaves open: level l + 1 if level l gets as far as the threshold from -1 */
    gates: function (levels, trained, threshold) {
      var open = [true];
      for (var level = 1; level < levels; level += 1) {
        var distance = !open[level - 1] ? 1 : level <= trained ? 2 : 0.3;
        open.push(distance >= threshold);
      }
      return open;
    },
  };
  function add(stage, nodes) { nodes.forEach(function (node) { stage.appendChild(node); }); }
  function sign(x) { return x > 0 ? "+1" : "−1"; }

  S.widgets["onestep-task"] = function (stage) {
    var bits = [1, -1, 1, 1, -1, 1, -1, 1], area = el("div", { class: "area" }), told = S.readout(), last = null;
    function draw() {
      S.clear(area);
      var x = math.complete(bits), width = Math.max(260, area.clientWidth || 480), gap = width / 8, height = 224;
      var X = { 8: gap * 2, 9: gap * 6, 10: gap * 4 }, Y = { 8: 112, 9: 112, 10: 36 };
      bits.forEach(function (_, j) { X[j] = gap * (j + 0.5); Y[j] = 190; });
      var drawing = svg("svg", { width: width, height: height });
      NODES.forEach(function (m) { CHILDREN[m].forEach(function (c) { drawing.appendChild(svg("line", { x1: X[m], y1: Y[m], x2: X[c], y2: Y[c], stroke: "var(--plain)", "stroke-width": 2 })); }); });
      Object.keys(X).map(Number).forEach(function (j) {
        var named = j >= 8 || SECRET.indexOf(j) >= 0, r = Math.min(19, gap * 0.42);
        var group = svg("g", j < 8 ? { role: "button", tabindex: 0, "aria-label": "bit " + (j + 1) + " is " + sign(bits[j]), style: "cursor: pointer" } : {});
        group.appendChild(svg("circle", { cx: X[j], cy: Y[j], r: r, fill: x[j] > 0 ? "var(--card)" : named ? "var(--named)" : "var(--plain)", stroke: named ? "var(--named)" : "var(--plain)", "stroke-width": 2 }));
        group.appendChild(svg("text", { x: X[j], y: Y[j] + 4, "text-anchor": "middle", style: x[j] < 0 ? "fill: var(--page); font-weight: 700" : "" }, sign(x[j])));
        if (j < 8) {
          var flip = function () { bits[j] = -bits[j]; last = j; draw(); area.querySelectorAll("g[role=button]")[j].focus(); };
          group.addEventListener("click", flip);
          group.addEventListener("keydown", function (event) { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); flip(); } });
        }
        drawing.appendChild(group);
      });
      area.appendChild(drawing);
      var why = last === null ? "" : SECRET.indexOf(last) >= 0 ? " The bit that you flipped is secret, so the root flipped too." : " The bit that you flipped does not count.";
      S.say(told, ["The product of the secret bits is ", S.bold(sign(x[10])), "." + why]);
    }
    var flipAll = el("div", { class: "acts" }, [S.button("flip a secret bit", function () { last = SECRET[0]; bits[last] = -bits[last]; draw(); }), S.button("flip another bit", function () { last = 0; bits[0] = -bits[0]; draw(); })]);
    add(stage, [area, el("div", { class: "controls" }, flipAll), told]);
    draw();
    return draw;
  };

  S.widgets["onestep-blind"] = function (stage) {
    var sets = [[0, 2, 3], [0, 2, 4]], told = S.readout();
    function draw() {
      var product = math.mean(6, function (x) { return sets[0].concat(sets[1]).reduce(function (p, j) { return p * x[j]; }, 1); });
      var same = sets[0].slice().sort().join() === sets[1].slice().sort().join();
      S.say(told, ["Average of the product: ", S.bold(S.show(product)), same ? ". The two secrets are the same." : ". The answers agree on half of the inputs, although the secrets share " + sets[0].filter(function (j) { return sets[1].indexOf(j) >= 0; }).length + " bits."]);
    }
    function row(which) {
      return el("div", { class: "tokens", role: "group", "aria-label": "secret " + (which + 1) }, [0, 1, 2, 3, 4, 5].map(function (j) {
        return el("button", { type: "button", class: "token", "aria-pressed": String(sets[which].indexOf(j) >= 0), onclick: function (event) {
          var at = sets[which].indexOf(j);
          if (at >= 0) sets[which].splice(at, 1); else sets[which].push(j);
          event.currentTarget.setAttribute("aria-pressed", String(at < 0));
          draw();
        } }, j + 1);
      }));
    }
    add(stage, [el("p", { class: "label" }, "First secret"), row(0), el("p", { class: "label" }, "Second secret"), row(1), told]);
    draw();
  };

  S.widgets["onestep-triples"] = function (stage) {
    var node = 8, chosen = [1, 4], tokens = el("div"), told = S.readout();
    function name(j) { return j < 8 ? "bit " + (j + 1) : NAMES[j]; }
    function draw() {
      S.clear(tokens);
      var list = [];
      for (var j = 0; j < node; j += 1) list.push(j);
      chosen = chosen.filter(function (j) { return j < node; });
      tokens.appendChild(el("div", { class: "tokens", role: "group", "aria-label": "tokens" }, list.map(function (j) {
        return el("button", { type: "button", class: "token", "data-token": j, "aria-pressed": String(chosen.indexOf(j) >= 0), onclick: function () {
          if (chosen.indexOf(j) >= 0) chosen = chosen.filter(function (i) { return i !== j; }); else chosen = chosen.concat([j]).slice(-2);
          draw();
          tokens.querySelector('[data-token="' + j + '"]').focus();
        } }, name(j));
      })));
      if (chosen.length < 2) { S.say(told, "Choose two tokens."); return; }
      var mean = math.mean(8, function (bits) { var x = math.complete(bits); return x[node] * x[chosen[0]] * x[chosen[1]]; });
      S.say(told, ["Average of " + NAMES[node] + " × " + name(chosen[0]) + " × " + name(chosen[1]) + " over 256 inputs: ", S.bold(S.show(mean)), mean === 1 ? ". These are its children." : "."]);
    }
    add(stage, [S.choice("node", NODES.map(function (m) { return NAMES[m]; }), "left node", function (label) {
      node = NODES.filter(function (m) { return NAMES[m] === label; })[0];
      draw();
    }), el("p", { class: "label" }, "Tokens that the node can see"), tokens, told]);
    draw();
  };

  S.widgets["onestep-step"] = function (stage, root, nodes) {
    var name = "first node", power = 7, area = el("div", { class: "area" }), told = S.readout();
    function draw() {
      S.clear(area);
      var node = nodes[name], n = Math.pow(2, power), s = node.noise / Math.sqrt(n);
      var values = node.signal.map(function (value, j) { return value + s * node.draws[j]; });
      var width = Math.max(260, area.clientWidth || 480), height = 220, gap = width / values.length, high = Math.max(1.3, Math.max.apply(null, values)), low = Math.min(-0.4, Math.min.apply(null, values));
      var Y = function (value) { return 10 + (high - value) / (high - low) * (height - 40); };
      var drawing = svg("svg", { width: width, height: height, role: "img", "aria-label": "push on every weight" });
      drawing.appendChild(svg("line", { class: "cursor", x1: 0, x2: width, y1: Y(0), y2: Y(0) }));
      values.forEach(function (value, j) {
        var child = node.children.indexOf(j) >= 0;
        drawing.appendChild(svg("rect", { class: child ? "bar named" : "bar", x: j * gap + gap * 0.15, width: gap * 0.7, y: Math.min(Y(0), Y(value)), height: Math.max(1.5, Math.abs(Y(value) - Y(0))), rx: 2 }));
        if (width > 420 || j % 2 === 0) drawing.appendChild(svg("text", { x: (j + 0.5) * gap, y: height - 8, "text-anchor": "middle", class: child ? "strong" : "" }, j + 1));
      });
      area.appendChild(drawing);
      var children = node.children.map(function (j) { return values[j]; }), others = values.filter(function (_, j) { return node.children.indexOf(j) < 0; });
      var found = Math.min.apply(null, children) > Math.max.apply(null, others);
      S.say(told, ["With " + n.toLocaleString("en") + " samples the noise is ", S.bold(S.show(s)), " of the signal. ", el("b", { class: found ? "good" : "bad" }, found ? "The two largest entries are the children." : "Another token beats a child.")]);
    }
    add(stage, [area, el("div", { class: "controls" }, [
      S.choice("node", Object.keys(nodes), name, function (label) { name = label; draw(); }),
      S.slider({ label: "samples n", min: 4, max: 14, value: power, show: function (p) { return Math.pow(2, p).toLocaleString("en"); } }, function (value) { power = value; draw(); }).node,
    ]), told]);
    draw();
    return draw;
  };

  S.widgets["onestep-filter"] = function (stage) {
    var levels = 4, trained = 1, threshold = 1.5, area = el("div"), told = S.readout();
    function draw() {
      S.clear(area);
      var open = math.gates(levels, trained, threshold), right = true;
      for (var level = levels; level >= 1; level -= 1) {
        var on = open[level - 1], output = !on ? "0" : level <= trained ? "±1" : "about −1";
        right = right && on === (level <= trained + 1);
        area.appendChild(el("div", { class: "tokens" }, [
          el("span", { class: "token still " + (on ? "good" : "bad") }, "level " + level + ": " + (on ? "open" : "closed")),
          el("span", { class: "token still" }, level <= trained ? "trained" : "not trained"),
          el("span", { class: "token still" }, "output " + output),
        ]));
      }
      S.say(told, right ? [el("b", { class: "good" }, "The right pattern."), trained < levels ? " The next step trains level " + (trained + 1) + "." : " Everything is trained."] : [el("b", { class: "bad" }, "The wrong pattern."), threshold > 2 ? " No level gets so far, so the filter never opens." : " A closed level outputs 0, which counts as far from −1, so the level above it opens too early."]);
    }
    add(stage, [area, el("div", { class: "controls" }, [
      S.slider({ label: "levels trained t", min: 0, max: levels, value: trained, show: String }, function (value) { trained = value; draw(); }).node,
      S.slider({ label: "threshold ε₀", min: 0.5, max: 2.5, step: 0.1, value: threshold }, function (value) { threshold = value; draw(); }).node,
    ]), told]);
    draw();
  };
})(Story);
