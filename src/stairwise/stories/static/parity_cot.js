/* The widgets of the story of parity with and without chain of thought. */
(function (S) {
  "use strict";
  var el = S.el, svg = S.svg;
  var math = S.cot = {
    /* the running sums: a zero, then one secret bit added per step */
    chain: function (bits, secret) {
      var sums = [0];
      secret.forEach(function (j) { sums.push(sums[sums.length - 1] ^ bits[j]); });
      return sums;
    },
    /* the mean of a function of the bits over all inputs */
    mean: function (n, f) {
      var total = 0;
      for (var code = 0; code < 1 << n; code += 1) {
        var bits = [];
        for (var j = 0; j < n; j += 1) bits.push(code >> j & 1);
        total += f(bits);
      }
      return total / (1 << n);
    },
    entropy: function (scores) {
      var top = Math.max.apply(null, scores), weights = scores.map(function (s) { return Math.exp(s - top); });
      var total = weights.reduce(function (a, b) { return a + b; }, 0);
      return -weights.reduce(function (sum, w) { return sum + w / total * Math.log(w / total); }, 0) / Math.log(scores.length);
    },
  };
  function add(stage, nodes) { nodes.forEach(function (node) { stage.appendChild(node); }); }
  /* Bars from -1 to 1 or from 0 to `high`. */
  function bars(area, values, named, low, high, labels) {
    S.clear(area);
    var width = Math.max(260, area.clientWidth || 480), height = 180, gap = width / values.length;
    var Y = function (value) { return 10 + (high - value) / (high - low) * (height - 40); };
    var drawing = svg("svg", { width: width, height: height, role: "img", "aria-label": "bars" });
    drawing.appendChild(svg("line", { class: "cursor", x1: 0, x2: width, y1: Y(0), y2: Y(0) }));
    values.forEach(function (value, j) {
      drawing.appendChild(svg("rect", { class: named[j] ? "bar named" : "bar", x: (j + 0.18) * gap, width: gap * 0.64, y: Math.min(Y(0), Y(value)), height: Math.max(2, Math.abs(Y(value) - Y(0))), rx: 2 }));
      drawing.appendChild(svg("text", { x: (j + 0.5) * gap, y: height - 8, "text-anchor": "middle", class: named[j] ? "strong" : "" }, labels ? labels[j] : j + 1));
    });
    area.appendChild(drawing);
  }
  function signed(bit) { return bit ? -1 : 1; }

  S.widgets["cot-task"] = function (stage) {
    var bits = [0, 1, 1, 0, 1, 0, 0, 1], secret = [1, 4, 6], chained = true, area = el("div"), told = S.readout();
    function draw() {
      S.clear(area);
      var sums = math.chain(bits, secret);
      area.appendChild(el("p", { class: "label" }, "Random bits"));
      area.appendChild(el("div", { class: "tokens", role: "group", "aria-label": "bits" }, bits.map(function (bit, j) {
        return el("button", { type: "button", class: "token" + (secret.indexOf(j) >= 0 ? " on" : ""), "aria-label": "bit " + (j + 1) + " is " + bit, onclick: function () { bits[j] = 1 - bits[j]; draw(); area.querySelectorAll("button")[j].focus(); } }, bit);
      })));
      area.appendChild(el("p", { class: "label" }, chained ? "A zero, then one running sum per secret bit" : "A zero, then the answer"));
      area.appendChild(el("div", { class: "tokens" }, (chained ? sums : [0, sums[sums.length - 1]]).map(function (bit, i, all) {
        return el("span", { class: "token still" + (i === all.length - 1 ? " good" : "") }, bit);
      })));
      var words = secret.map(function (j) { return bits[j]; }).join(" + ");
      S.say(told, ["Sum of the secret bits: " + words + ", which is ", S.bold(sums[sums.length - 1]), " modulo 2."]);
    }
    add(stage, [S.choice("sequence", ["with a chain", "without"], "with a chain", function (name) { chained = name === "with a chain"; draw(); }), area, told]);
    draw();
  };

  S.widgets["cot-blind"] = function (stage) {
    var secret = [true, false, false, true, false, false], area = el("div", { class: "area" }), told = S.readout();
    function draw() {
      var values = secret.map(function (_, j) {
        return math.mean(6, function (bits) { return signed(bits.reduce(function (sum, bit, i) { return sum ^ (secret[i] ? bit : 0); }, 0)) * signed(bits[j]); });
      });
      bars(area, values, secret, -0.2, 1.05);
      var k = secret.filter(Boolean).length, best = Math.max.apply(null, values);
      S.say(told, !k ? "Without secret bits the answer is always zero." : k === 1 ? ["One secret bit: it has correlation ", S.bold(S.show(best)), ", and a gradient finds it."] : [k + " secret bits: the largest correlation is ", S.bold(S.show(best)), ". A gradient sees nothing."]);
    }
    var row = el("div", { class: "tokens", role: "group", "aria-label": "secret bits" }, secret.map(function (on, j) {
      return el("button", { type: "button", class: "token", "aria-pressed": String(on), onclick: function (event) { secret[j] = !secret[j]; event.currentTarget.setAttribute("aria-pressed", String(secret[j])); draw(); } }, j + 1);
    }));
    add(stage, [area, el("p", { class: "label" }, "Secret bits"), row, told]);
    draw();
    return draw;
  };

  S.widgets["cot-sparse"] = function (stage) {
    var secret = [2, 5, 0, 4], n = 7, step = 1, chained = true, area = el("div", { class: "area" }), told = S.readout();
    function draw() {
      var values = [], named = [];
      for (var j = 0; j < n; j += 1) {
        named.push(chained ? secret[step - 1] === j : secret.indexOf(j) >= 0);
        values.push(math.mean(n, (function (j) {
          return function (bits) {
            var sums = math.chain(bits, secret);
            return chained ? signed(sums[step]) * signed(sums[step - 1]) * signed(bits[j]) : signed(sums[secret.length]) * signed(bits[j]);
          };
        })(j)));
      }
      bars(area, values, named, -0.2, 1.05);
      S.say(told, chained ? ["Step " + step + " adds bit " + (secret[step - 1] + 1) + ". Its correlation is ", S.bold("1"), ", that of every other bit is ", S.bold("0"), "."] : ["The answer alone: every bit has correlation ", S.bold("0"), ", also the four secret ones (orange)."]);
    }
    add(stage, [area, el("div", { class: "controls" }, [
      S.choice("labels", ["with a chain", "without"], "with a chain", function (name) { chained = name === "with a chain"; draw(); }),
      S.slider({ label: "step of the chain", min: 1, max: secret.length, value: step }, function (value) { step = value; draw(); }).node,
    ]), told]);
    draw();
    return draw;
  };

  S.widgets["cot-steps"] = function (stage, root, about) {
    var query = 3, power = 6, area = el("div", { class: "area" }), told = S.readout(), secret = [2, 9, 5, 7];
    function draw() {
      var score = about.scores[query - 1] * Math.pow(10, power), seen = about.inputs + query, values = [], named = [], labels = [];
      var share = Math.exp(score) / (Math.exp(score) + seen - 1);
      if (!isFinite(share)) share = 1;
      for (var j = 0; j < seen; j += 1) {
        named.push(j === secret[query - 1]);
        values.push(named[j] ? share : (1 - share) / (seen - 1));
        labels.push(j < about.inputs ? j + 1 : "·");
      }
      bars(area, values, named, 0, 1, labels);
      S.say(told, ["Score of the secret key: ", S.bold(S.show(score)), ". It holds ", S.bold((100 * share).toFixed(1) + " %"), " of the attention, against " + (100 / seen).toFixed(1) + " % at the start."]);
    }
    add(stage, [area, el("div", { class: "controls" }, [
      S.slider({ label: "product of the rates", min: 3, max: 7.5, step: 0.1, value: power, show: function (p) { return S.show(Math.pow(10, p)); } }, function (value) { power = value; draw(); }).node,
      S.slider({ label: "step of the chain", min: 1, max: about.size, value: query }, function (value) { query = value; draw(); }).node,
    ]), told]);
    draw();
    return draw;
  };

  S.widgets["cot-conditions"] = function (stage, root, conditions) {
    var at = 2, list = el("div", { class: "tokens" }), told = S.readout();
    function draw() {
      var x = Math.pow(10, at), holding = conditions.filter(function (one) { return x >= one.from; }).length;
      S.clear(list);
      conditions.forEach(function (one) { var on = x >= one.from; list.appendChild(el("span", { class: "token still " + (on ? "good" : "bad") }, [on ? "✓ " : "✗ ", el("small", {}, one.says)])); });
      S.say(told, ["At ln n = " + S.show(x) + " (n has about " + S.show(x / Math.LN10) + " digits) ", S.bold(holding + " of " + conditions.length), " conditions hold."]);
    }
    add(stage, [list, el("div", { class: "controls" }, [S.slider({ label: "ln n", min: 0.5, max: 50, step: 0.5, value: at, show: function (p) { return S.show(Math.pow(10, p)); } }, function (value) { at = value; draw(); }).node]), told]);
    draw();
  };

  S.widgets["cot-entropy"] = function (stage) {
    var longest = 240, length = 60, sharp = 0.8, area = el("div", { class: "area" }), told = S.readout();
    /* the same random scores on every visit */
    function draws(seed) { return function () { seed = (seed * 1664525 + 1013904223) % 4294967296; return seed / 4294967296; }; }
    function lowest() {
      var next = draws(5), least = [], best = 1;
      for (var t = 2; t <= longest; t += 1) {
        var scores = [];
        for (var j = 0; j < t; j += 1) scores.push(-sharp * Math.log(1 - next()));
        best = Math.min(best, math.entropy(scores));
        least.push(best);
      }
      return least;
    }
    var least = lowest();
    function draw() {
      var xs = least.map(function (_, i) { return i + 2; }), place = S.frame(area, { x: "tokens in the text", y: "smallest entropy so far", xs: [0, longest], ys: [0, 1] });
      S.curve(place, { x: xs, y: least, style: "dash" }, 0);
      S.curve(place, { x: xs.slice(0, length - 1), y: least.slice(0, length - 1), style: "line" }, 1);
      S.say(told, ["A text of " + length + " tokens has the measure ", S.bold(S.show(least[length - 2])), ", one of " + longest + " tokens ", S.bold(S.show(least[longest - 2])), "."]);
    }
    add(stage, [area, el("div", { class: "controls" }, [
      S.slider({ label: "length of the text", min: 3, max: longest, value: length }, function (value) { length = value; draw(); }).node,
      S.slider({ label: "spread of the scores", min: 0.2, max: 2, step: 0.1, value: sharp }, function (value) { sharp = value; least = lowest(); draw(); }).node,
    ]), told]);
    draw();
    return draw;
  };
})(Story);
