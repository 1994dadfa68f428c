/* What all stories share: a register of widgets, small controls, and plots of the numbers that the builder computed. */
var Story = (function () {
  "use strict";
  var SVG = "http://www.w3.org/2000/svg";
  var widgets = {}, data = { plots: {}, widgets: {} };

  /* --- elements --- */
  function put(node, attributes, children) {
    Object.keys(attributes || {}).forEach(function (name) {
      var value = attributes[name];
      if (name.slice(0, 2) === "on") node.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value === true ? "" : value);
    });
    [].concat(children === undefined ? [] : children).forEach(function (child) {
      if (child !== null && child !== undefined) node.appendChild(typeof child === "object" ? child : document.createTextNode(String(child)));
    });
    return node;
  }
  function el(tag, attributes, children) { return put(document.createElement(tag), attributes, children); }
  function svg(tag, attributes, children) { return put(document.createElementNS(SVG, tag), attributes, children); }
  function clear(node) { while (node.firstChild) node.removeChild(node.firstChild); return node; }

  /* --- numbers as words --- */
  var RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
  function power(exponent) { return "10" + String(exponent).replace(/./g, function (c) { return RAISED[c]; }); }
  function show(value, digits) {
    if (value === null || value === undefined || isNaN(value)) return "none";
    if (!isFinite(value)) return "∞";
    var size = Math.abs(value), places = digits || 3;
    if (size < 1e-99) return "0";
    if (size >= 1e5 || size < 1e-3) {
      var exponent = Math.floor(Math.log10(size) + 1e-9), lead = value / Math.pow(10, exponent);
      var text = lead.toFixed(1).replace(/\.0$/, "");
      if (text === "10") { text = "1"; exponent += 1; }
      return (text === "1" ? "" : text + " · ") + power(exponent);
    }
    if (size >= 100) return Math.round(value).toLocaleString("en");
    return String(+value.toPrecision(places)).replace("-", "−");
  }

  /* --- controls --- */
  var serial = 0;
  /* A slider with its label and value: {label, min, max, step, value, show}; `values` gives the positions instead. */
  function slider(options, change) {
    var values = options.values, id = "control-" + (serial += 1);
    var input = el("input", {
      type: "range", id: id, min: values ? 0 : options.min, max: values ? values.length - 1 : options.max, step: values ? 1 : options.step || 1,
      value: values ? Math.max(0, values.indexOf(options.value)) : options.value,
    });
    var output = el("output", { for: id });
    var read = function () { return values ? values[+input.value] : +input.value; };
    var update = function () {
      output.textContent = (options.show || show)(read());
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", function () { update(); change(read()); });
    update();
    var node = el("div", { class: "slider" }, [el("label", { for: id }, options.label), input, output]);
    return { node: node, get value() { return read(); }, set: function (value) { input.value = values ? values.indexOf(value) : value; update(); } };
  }
  /* One of several words. */
  function choice(label, names, chosen, change) {
    var buttons = names.map(function (name) {
      return el("button", { type: "button", "aria-pressed": String(name === chosen), onclick: function () {
        buttons.forEach(function (other) { other.setAttribute("aria-pressed", String(other.textContent === name)); });
        change(name);
      } }, name);
    });
    return el("div", { class: "choice", role: "group", "aria-label": label }, [el("span", {}, label)].concat(buttons));
  }
  function button(label, click) { return el("button", { type: "button", class: "act", onclick: click }, label); }
  /* What the reader is told; screen readers hear it too. */
  function readout() { return el("p", { class: "readout", "aria-live": "polite" }); }
  function say(node, parts) {
    clear(node);
    [].concat(parts).forEach(function (part) {
      put(node, {}, typeof part === "object" ? part : document.createTextNode(part));
    });
  }
  function bold(text) { return el("b", {}, text); }

  /* --- plots --- */
  var WIDE = 8; /* how many ticks at most */
  function ticks(low, high, log, most) {
    var found = [], step, value;
    if (log) {
      var first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
      if (last - first >= 1) {
        step = Math.max(1, Math.ceil((last - first + 1) / most));
        for (value = first; value <= last; value += step) found.push(Math.pow(10, value));
        return found;
      }
      [1, 2, 5].forEach(function (digit) {
        for (value = first - 1; value <= last + 1; value += 1) {
          var at = digit * Math.pow(10, value);
          if (at >= low * 0.999 && at <= high * 1.001) found.push(at);
        }
      });
      return found.sort(function (a, b) { return a - b; });
    }
    var raw = (high - low) / most, unit = Math.pow(10, Math.floor(Math.log10(raw)));
    step = unit * [1, 2, 5, 10].filter(function (digit) { return digit * unit >= raw * 0.999; })[0];
    for (value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-6; value += step) found.push(Math.abs(value) < step * 1e-6 ? 0 : value);
    return found;
  }
  /* A frame of axes in `node`: {x, y: labels, log: "x", "y", "xy", xs, ys: ranges}; returns scales and the drawing. */
  function frame(node, options) {
    clear(node);
    var width = Math.max(260, node.clientWidth || 480), height = options.height || Math.min(360, Math.max(240, width * 0.62));
    var left = 58, right = 12, top = 12, bottom = 42, log = options.log || "";
    var scale = function (range, isLog, from, to) {
      var a = isLog ? Math.log(range[0]) : range[0], b = isLog ? Math.log(range[1]) : range[1];
      if (a === b) { a -= 1; b += 1; }
      return function (value) { return from + ((isLog ? Math.log(value) : value) - a) / (b - a) * (to - from); };
    };
    var X = scale(options.xs, log.indexOf("x") >= 0, left, width - right), Y = scale(options.ys, log.indexOf("y") >= 0, height - bottom, top);
    var drawing = svg("svg", { width: width, height: height, viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": options.about || options.y + " against " + options.x });
    ticks(options.xs[0], options.xs[1], log.indexOf("x") >= 0, width < 420 ? 4 : WIDE).forEach(function (tick) {
      drawing.appendChild(svg("line", { class: "grid", x1: X(tick), x2: X(tick), y1: top, y2: height - bottom }));
      drawing.appendChild(svg("text", { class: "tick", x: X(tick), y: height - bottom + 16, "text-anchor": "middle" }, show(tick)));
    });
    ticks(options.ys[0], options.ys[1], log.indexOf("y") >= 0, 5).forEach(function (tick) {
      drawing.appendChild(svg("line", { class: "grid", x1: left, x2: width - right, y1: Y(tick), y2: Y(tick) }));
      drawing.appendChild(svg("text", { class: "tick", x: left - 6, y: Y(tick) + 4, "text-anchor": "end" }, show(tick)));
    });
    drawing.appendChild(svg("text", { class: "axis", x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, options.x));
    node.appendChild(el("p", { class: "axis-name" }, options.y));
    node.appendChild(drawing);
    return { X: X, Y: Y, svg: drawing, width: width, height: height, left: left, right: width - right, top: top, bottom: height - bottom };
  }
  function path(place, xs, ys) {
    var text = "", pen = "M";
    xs.forEach(function (x, i) {
      if (ys[i] === null || !isFinite(place.Y(ys[i]))) { pen = "M"; return; }
      text += pen + place.X(x).toFixed(1) + " " + place.Y(ys[i]).toFixed(1);
      pen = "L";
    });
    return text;
  }
  function curve(place, line, index) {
    var group = svg("g", { class: "curve s" + index });
    if (line.style === "dots") line.x.forEach(function (x, i) { group.appendChild(svg("circle", { cx: place.X(x), cy: place.Y(line.y[i]), r: 3.5 })); });
    else group.appendChild(svg("path", { d: path(place, line.x, line.y), class: line.style === "dash" ? "dash" : "" }));
    place.svg.appendChild(group);
  }
  function range(lists, isLog) {
    var all = [].concat.apply([], lists).filter(function (value) { return value !== null && isFinite(value) && (!isLog || value > 0); });
    var low = Math.min.apply(null, all), high = Math.max.apply(null, all);
    if (isLog) return [low / 1.15, high * 1.15];
    var room = (high - low || 1) * 0.05;
    return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
  }
  function legend(lines) {
    return el("ul", { class: "legend" }, lines.map(function (line, i) { return el("li", { class: "s" + i + " " + line.style }, line.name); }));
  }
  function nearest(xs, x, isLog) {
    var best = 0, distance = function (value) { return Math.abs(isLog ? Math.log(value / x) : value - x); };
    xs.forEach(function (value, i) { if (distance(value) < distance(xs[best])) best = i; });
    return best;
  }
  /* Curves, a cursor that a slider or the pointer moves, and what the curves are there. */
  widgets.plot = function (stage, root) {
    var plot = data.plots[root.getAttribute("data-plot")], family = plot.families[0], log = plot.log;
    var logX = log.indexOf("x") >= 0, area = el("div", { class: "area" }), told = readout(), key = el("div"), bar = el("div", { class: "controls" });
    var xs = [], at = 0, place, cursor, knob;
    function positions() {
      var all = {};
      family.lines.forEach(function (line) { line.x.forEach(function (x) { all[x] = true; }); });
      return Object.keys(all).map(Number).sort(function (a, b) { return a - b; });
    }
    function draw() {
      var every = plot.families.reduce(function (sum, one) { return sum.concat(one.lines); }, []);
      place = frame(area, {
        x: plot.x, y: plot.y, log: log, xs: range(family.lines.map(function (line) { return line.x; }), logX),
        ys: range((plot.families.length > 1 ? every : family.lines).map(function (line) { return line.y; }), log.indexOf("y") >= 0),
      });
      cursor = svg("line", { class: "cursor", y1: place.top, y2: place.bottom });
      place.svg.appendChild(cursor);
      family.lines.forEach(function (line, i) { curve(place, line, i); });
      place.svg.addEventListener("pointermove", function (event) {
        var box = place.svg.getBoundingClientRect(), x = event.clientX - box.left, best = 0;
        xs.forEach(function (value, i) { if (Math.abs(place.X(value) - x) < Math.abs(place.X(xs[best]) - x)) best = i; });
        at = best; knob.set(xs[at]); tell();
      });
      clear(key).appendChild(legend(family.lines));
      tell();
    }
    function tell() {
      var x = xs[at];
      cursor.setAttribute("x1", place.X(x));
      cursor.setAttribute("x2", place.X(x));
      var parts = ["At " + plot.x.replace(/,.*/, "") + " = " + show(x) + ": "];
      family.lines.forEach(function (line, i) {
        var value = line.y[nearest(line.x, x, logX)];
        parts.push((i ? "; " : "") + line.name + " ", bold(show(value)));
      });
      say(told, parts);
    }
    function restart() {
      xs = positions();
      at = Math.min(at || Math.floor(xs.length / 2), xs.length - 1);
      clear(bar);
      if (plot.families.length > 1) bar.appendChild(choice(plot.choose, plot.families.map(function (one) { return one.label; }), family.label, function (label) {
        family = plot.families.filter(function (one) { return one.label === label; })[0];
        restart();
      }));
      knob = slider({ label: plot.x.replace(/,.*/, ""), values: xs, value: xs[at] }, function (x) { at = xs.indexOf(x); tell(); });
      bar.appendChild(knob.node);
      draw();
    }
    put(stage, {}, [area, key, bar, told]);
    restart();
    return draw;
  };

  /* --- start --- */
  function start() {
    data = JSON.parse(document.getElementById("numbers").textContent);
    var again = [];
    document.querySelectorAll(".widget[data-widget]").forEach(function (root) {
      var name = root.getAttribute("data-widget"), stage = root.querySelector(".stage");
      if (!widgets[name]) throw new Error("no widget " + name);
      var redraw = widgets[name](stage, root, data.widgets[name]);
      if (redraw) again.push(redraw);
    });
    var width = innerWidth;
    addEventListener("resize", function () {
      if (innerWidth === width) return;
      width = innerWidth;
      again.forEach(function (redraw) { redraw(); });
    });
    follow();
  }
  /* Marks the screen that is being read. */
  function follow() {
    var links = document.querySelectorAll(".dots a");
    var observer = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (!entry.isIntersecting) return;
        links.forEach(function (link) {
          if (link.getAttribute("href") === "#" + entry.target.id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
        });
      });
    }, { rootMargin: "-45% 0px -45% 0px" });
    document.querySelectorAll(".screen").forEach(function (screen) { observer.observe(screen); });
  }
  return {
    widgets: widgets, start: start, el: el, svg: svg, clear: clear, show: show, slider: slider, choice: choice, button: button, readout: readout,
    say: say, bold: bold, frame: frame, curve: curve, path: path, legend: legend, range: range,
  };
})();
