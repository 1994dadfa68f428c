/* The widgets of the story of LEGO state tracking. */
(function (S) {
  "use strict";
  var el = S.el, svg = S.svg;
  var math = S.lego = {
    /* the share of attention that misses, for scores a on both right clauses and 0 elsewhere */
    misses: function (a, L, step) { var other = L - 1 + step - 1; return other / (2 * Math.exp(a) + other); },
    /* the length that these scores carry, with n values */
    reach: function (a, n) { return 1 + n / (n - 2) * Math.exp(a); },
    /* the score at which a share e misses at step 2 of chains of length L */
    score: function (L, e) { return Math.log(L * (1 - e) / (2 * e)); },
  };
  function add(stage, nodes) { nodes.forEach(function (node) { stage.appendChild(node); }); }
  function small(i) { return String(i).replace(/./g, function (c) { return "₀₁₂₃₄₅₆₇₈₉"[c]; }); }
  function picked(label, names, chosen, change) {
    var node = el("select", { "aria-label": label, onchange: function () { change(node.selectedIndex); } }, names.map(function (name, i) {
      return el("option", { selected: i === chosen }, name);
    }));
    return node;
  }
  var GROUPS = { "cyclic C₆": "C6", "symmetric S₃": "S3" };

  S.widgets["lego-task"] = function (stage, root, groups) {
    var group = groups.C6, start = 1, word = [2, 5, 1, 3], area = el("div"), told = S.readout(), names = "abcdefgh";
    function reset() { word = word.map(function (g) { return g % group.table.length; }); start %= group.values.length; }
    function draw() {
      var values = [start];
      word.forEach(function (g) { values.push(group.table[g][values[values.length - 1]]); });
      S.clear(area);
      area.appendChild(el("p", { class: "label" }, "The sentence: one start and one predicate per link"));
      var row = el("div", { class: "tokens" }, [el("span", { class: "token still" }, ["a = ", picked("start", group.values, start, function (i) { start = i; draw(); })])]);
      word.forEach(function (g, i) {
        row.appendChild(el("span", { class: "token still" }, [names[i + 1] + " = ", picked("action " + (i + 1), group.names, g, function (k) { word[i] = k; draw(); }), " (" + names[i] + ")"]));
      });
      area.appendChild(row);
      area.appendChild(el("p", { class: "label" }, "The answers that the model writes, one by one"));
      area.appendChild(el("div", { class: "tokens" }, values.slice(1).map(function (y, i) { return el("span", { class: "token still good" }, names[i + 1] + " = " + group.values[y]); })));
      S.say(told, ["Chain: " + values.map(function (y) { return group.values[y]; }).join(" → ") + ". The last value is ", S.bold(group.values[values[values.length - 1]]), "."]);
    }
    var choose = S.choice("group", Object.keys(GROUPS), "cyclic C₆", function (name) { group = groups[GROUPS[name]]; reset(); draw(); });
    add(stage, [choose, area, el("p", { class: "label" }, "A name such as 213 says where an action of S₃ takes 1, 2 and 3."), told]);
    draw();
  };

  S.widgets["lego-order"] = function (stage, root, groups) {
    var group = groups.S3, word = [1, 4, 2, 3, 5], area = el("div"), told = S.readout(), first = word.slice();
    function end(order) { return order.reduce(function (y, g) { return group.table[g][y]; }, 0); }
    function every(rest, done, found) {
      if (!rest.length) { found[end(done)] = true; return found; }
      rest.forEach(function (g, i) { every(rest.slice(0, i).concat(rest.slice(i + 1)), done.concat([g]), found); });
      return found;
    }
    function draw() {
      S.clear(area);
      area.appendChild(el("div", { class: "tokens" }, word.map(function (g, i) {
        return el("button", { type: "button", class: "token", "aria-label": "swap action " + (i + 1) + " with its neighbour", onclick: function () {
          var other = i + 1 < word.length ? i + 1 : i - 1;
          var kept = word[i];
          word[i] = word[other];
          word[other] = kept;
          draw();
          area.querySelectorAll("button")[other].focus();
        } }, group.names[g]);
      })));
      var y = 0, seen = [group.values[0]];
      word.forEach(function (g) { y = group.table[g][y]; seen.push(group.values[y]); });
      var ends = Object.keys(every(word, [], {})).map(function (v) { return group.values[v]; });
      S.say(told, [seen.join(" → ") + ". In the first order the end was " + group.values[end(first)] + ", now it is ", S.bold(group.values[y]), ". Over all 120 orders the end takes ", S.bold(ends.length + (ends.length > 1 ? " values" : " value")), "."]);
    }
    var choose = S.choice("group", Object.keys(GROUPS), "symmetric S₃", function (name) { group = groups[GROUPS[name]]; draw(); });
    add(stage, [choose, area, told]);
    draw();
  };

  S.widgets["lego-clauses"] = function (stage) {
    var L = 6, step = 3, a = 2, area = el("div", { class: "area" }), told = S.readout(), order = [3, 0, 5, 2, 4, 1];
    function draw() {
      S.clear(area);
      var clauses = order.map(function (i) { return { text: "x" + small(i + 1) + " = g" + small(i + 1) + "(x" + small(i) + ")", right: i === step - 1 }; });
      for (var i = 0; i < step; i += 1) clauses.push({ text: "x" + small(i) + " = y" + small(i), right: i === step - 1 });
      var total = 2 * Math.exp(a) + (L - 1) + (step - 1), width = Math.max(240, area.clientWidth || 480), row = 24;
      var drawing = svg("svg", { width: width, height: clauses.length * row + 4, role: "img", "aria-label": "attention per clause" });
      clauses.forEach(function (clause, i) {
        var weight = (clause.right ? Math.exp(a) : 1) / total;
        drawing.appendChild(svg("text", { x: 0, y: i * row + 16, class: clause.right ? "strong" : "" }, clause.text));
        drawing.appendChild(svg("rect", { x: 92, y: i * row + 4, height: row - 8, rx: 2, width: Math.max(2, weight * 1.9 * (width - 150)), class: clause.right ? "bar named" : "bar" }));
        drawing.appendChild(svg("text", { x: 98 + Math.max(2, weight * 1.9 * (width - 150)), y: i * row + 16 }, (100 * weight).toFixed(0) + " %"));
      });
      area.appendChild(drawing);
      S.say(told, ["To write x" + small(step) + " the model needs g" + small(step) + " and y" + small(step - 1) + ". ", S.bold((100 * math.misses(a, L, step)).toFixed(1) + " %"), " of the attention misses both."]);
    }
    var knobs = [
      S.slider({ label: "score a", min: 0, max: 6, step: 0.1, value: a }, function (value) { a = value; draw(); }),
      S.slider({ label: "step ℓ", min: 1, max: L, value: step }, function (value) { step = value; draw(); }),
    ];
    add(stage, [area, el("div", { class: "controls" }, knobs.map(function (knob) { return knob.node; })), told]);
    draw();
    return draw;
  };

  S.widgets["lego-pairs"] = function (stage, root, groups) {
    var name = "S3", at = [1, 0], area = el("div", { class: "scroll" }), told = S.readout();
    var words = { "cyclic C₆": "C6", "symmetric S₃": "S3", "symmetric S₄": "S4" };
    function draw() {
      var group = groups[name], g = Math.min(at[0], group.table.length - 1), y = Math.min(at[1], group.values.length - 1), value = group.table[g][y];
      var rows = group.table.map(function (row, i) {
        return el("tr", {}, [el("th", { scope: "row" }, group.names[i])].concat(row.map(function (v, j) {
          return el("td", { class: j === y && v === value ? "on" : "" }, el("button", { type: "button", "aria-label": "action " + group.names[i] + " on value " + group.values[j], onclick: function () { at = [i, j]; draw(); } }, group.values[v]));
        })));
      });
      var head = el("tr", {}, [el("th", {}, "g \\ y")].concat(group.values.map(function (v) { return el("th", { scope: "col" }, v); })));
      S.clear(area).appendChild(el("table", { class: "cells" }, [head].concat(rows)));
      var others = group.fiber - 1;
      S.say(told, ["Action " + group.names[g] + " takes " + group.values[y] + " to " + group.values[value] + ". ", S.bold(others === 0 ? "No other action" : others + " other action" + (others > 1 ? "s" : "")), others === 1 || others === 0 ? " does the same here." : " do the same here.", " A neuron weighs actions ", S.bold(S.show(group.ratio)), " times as much as values."]);
    }
    area.style.maxHeight = "22rem";
    area.style.overflowY = "auto";
    add(stage, [S.choice("group", Object.keys(words), "symmetric S₃", function (label) { name = words[label]; draw(); }), area, told]);
    draw();
  };

  S.widgets["lego-doubling"] = function (stage, root, about) {
    var miss = 0.2, L = 2, stages = [], area = el("div", { class: "area" }), told = S.readout();
    function reach(length) { return math.reach(math.score(length, miss), about.values); }
    function draw() {
      var all = stages.concat([{ L: L, reach: reach(L) }]), top = Math.max(64, reach(L)) * 1.3;
      var place = S.frame(area, { x: "stage", y: "length of chains", log: "y", xs: [0.5, Math.max(6, all.length) + 0.5], ys: [1, top], height: 260 });
      all.forEach(function (one, i) {
        var x = place.X(i + 1) - 16;
        place.svg.appendChild(svg("rect", { class: "bar", x: x, width: 32, y: place.Y(one.reach), height: place.Y(1) - place.Y(one.reach), rx: 2 }));
        place.svg.appendChild(svg("rect", { class: "bar named", x: x, width: 32, y: place.Y(one.L), height: place.Y(1) - place.Y(one.L), rx: 2 }));
      });
      var far = reach(L), good = far >= 2 * L;
      S.say(told, ["Trained on chains of ", S.bold(L), ". It carries chains up to ", S.bold(S.show(far)), ", so its labels for length " + 2 * L + " are ", el("b", { class: good ? "good" : "bad" }, good ? "right: the next stage can begin." : "wrong: the staircase ends here.")]);
      next.disabled = !good || all.length >= 9;
    }
    var next = S.button("train the next stage on own labels", function () { stages.push({ L: L, reach: reach(L) }); L *= 2; draw(); });
    var again = S.button("start again", function () { stages = []; L = 2; draw(); });
    var knob = S.slider({ label: "share that misses ε", min: 0.05, max: 0.5, step: 0.01, value: miss }, function (value) { miss = value; stages = []; L = 2; draw(); });
    add(stage, [area, el("ul", { class: "legend" }, [el("li", { class: "s1" }, "trained length"), el("li", { class: "quiet" }, "length that it carries")]), el("div", { class: "controls" }, [el("div", { class: "acts" }, [next, again]), knob.node]), told]);
    draw();
    return draw;
  };
})(Story);
