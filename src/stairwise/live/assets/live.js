/* A run while it trains: takes what the server says is new, and draws what is in view, one thing a frame. */
(function () {
  const { make, number, box, key, style } = stairwise;
  const at = (id) => document.getElementById(id);
  const SIGNS = { running: "•", stored: "✓", finished: "✓", reached: "✓", censored: "–" };
  const PAUSE = 500, SHARE = 20; // milliseconds between two drawings of the same thing, or so many times what one takes
  const FIRST = 6; // metrics that are shown before one asks for all
  let about, facts, trials, metrics, arms, received, source, failures = 0, scope = null;
  const view = { logX: false, logY: false, off: new Set(), find: "", all: false };
  const stale = new Set(), drawn = new Map(); // what to draw, and when each thing may be drawn again

  function reset() {
    about = {}; facts = {}; trials = new Map(); metrics = new Map(); arms = new Map();
    at("plots").replaceChildren();
    at("ending").replaceChildren();
    scope = { id: null, state: "", asking: false, stop: () => {}, kept: () => ({}) };
  }

  // --- what arrives -------------------------------------------------------------------------------------------------

  function take(news) {
    if (news.about) { reset(); about = news.about; introduce(); }
    for (const id of news.gone || []) {
      trials.delete(id);
      for (const metric of metrics.values()) if (metric.of.delete(id)) stale.add(metric);
    }
    for (const trial of news.trials || []) {
      trials.set(trial.id, trial);
      if (!arms.has(trial.label)) { arms.set(trial.label, style(arms.size)); stale.add(legend); }
    }
    for (const [id, stage, name, start, steps, values] of news.series || []) {
      const metric = metricOf(stage, name), line = metric.of.get(id) || { x: [], y: [] };
      const [over, size] = trials.get(id)?.axes[stage] || ["steps", 1];
      metric.over = over;
      metric.of.set(id, { x: line.x.slice(0, start).concat(steps.map((step) => step * size)), y: line.y.slice(0, start).concat(values) });
      stale.add(metric);
    }
    if (news.facts) { facts = news.facts; received = performance.now(); }
    [status, board, choices].forEach((each) => stale.add(each));
  }

  function metricOf(stage, name) {
    const id = stage + "\n" + name;
    if (!metrics.has(id)) {
      const metric = { stage, name, of: new Map(), title: make("h3", {}), chart: make("div", { class: "chart" }), seen: false };
      metric.element = make("section", {}, metric.title, metric.chart);
      metric.element.metric = metric;
      metrics.set(id, metric);
      const losses = [...metrics.values()].sort((a, b) => isLoss(b.name) - isLoss(a.name));
      at("plots").replaceChildren(...losses.map((each) => each.element));
      inView.observe(metric.element);
      stale.add(titles);
    }
    return metrics.get(id);
  }
  const isLoss = (name) => Number(/loss/i.test(name));
  const inView = new IntersectionObserver((entries) => entries.forEach((entry) => {
    entry.target.metric.seen = entry.isIntersecting;
    if (entry.isIntersecting) stale.add(entry.target.metric);
  }), { rootMargin: "200px" });

  // --- what is drawn ------------------------------------------------------------------------------------------------

  function introduce() {
    const [paper, id] = about.experiment.split("/");
    at("name").textContent = id;
    at("says").textContent = about.says;
    document.title = `${id} · ${paper} · live`;
    at("cells").textContent = about.what;
    if (about.what === "setting") at("measured").before(at("trials")); // of a sweep the board comes first
    at("controls").replaceChildren(
      box("log x", view.logX, (on) => { view.logX = on; redraw(); }),
      box("log y", view.logY, (on) => { view.logY = on; redraw(); }),
      make("label", {}, "Find ", make("input", { type: "search", placeholder: "metric", value: view.find, input: (event) => { view.find = event.target.value.toLowerCase(); titles(); } })),
      make("button", { type: "button", id: "all", hidden: true, "aria-controls": "plots", click: () => { view.all = !view.all; titles(); } }));
  }
  function redraw() { metrics.forEach((metric) => { drawn.delete(metric); stale.add(metric); }); }

  function titles() {
    const several = new Set([...metrics.values()].map((metric) => metric.stage)).size > 1;
    const listed = [...at("plots").children].map((element) => element.metric);
    listed.forEach((metric, k) => {
      metric.title.textContent = several ? `${metric.stage}: ${metric.name}` : metric.name;
      const found = metric.title.textContent.toLowerCase().includes(view.find);
      metric.element.hidden = !found || (!view.find && !view.all && k >= FIRST);
    });
    at("all").hidden = listed.length <= FIRST || Boolean(view.find);
    at("all").setAttribute("aria-expanded", String(view.all));
    at("all").textContent = view.all ? `show ${FIRST} metrics` : `show all ${listed.length} metrics`;
    at("waiting").hidden = metrics.size > 0;
  }

  function legend() {
    at("legend").replaceChildren(...(arms.size > 1 ? [...arms].map(([label, look]) => make("button", {
      type: "button", "aria-pressed": String(!view.off.has(label)),
      click: () => { view.off.has(label) ? view.off.delete(label) : view.off.add(label); legend(); redraw(); },
    }, key(look), label || "all trials")) : []));
  }

  function plot(metric) {
    if (metric.chart.matches(":hover, :focus-within") && drawn.has(metric)) return false; // somebody reads it
    if (!metric.seen) return true;
    let groups = [...arms].filter(([label]) => !view.off.has(label)).map(([label, look]) => ({
      label: label || "all trials", style: look,
      lines: [...metric.of].filter(([id]) => trials.get(id)?.label === label).map(([id, line]) => ({ ...line, label: "seed " + trials.get(id).seed })),
    })).filter((group) => group.lines.length);
    const idle = ![...metric.of.keys()].some((id) => trials.get(id)?.status === "running");
    const dots = idle && groups.every((group) => group.lines.every((line) => line.x.length <= 1));
    if (dots) groups = stairwise.asColumns(groups);
    const count = groups.reduce((total, group) => total + group.lines.length, 0);
    stairwise.chart(metric.chart, groups, {
      height: 210, logX: view.logX && !dots, logY: view.logY, dots, xTitle: dots ? about.what : metric.over, yTitle: "",
      about: `${metric.name} over training: ${count} trials. Arrow keys read values.`,
    });
    return true;
  }

  const words = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
  function time(seconds) {
    if (seconds < 60) return `${Math.round(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
    return `${Math.floor(seconds / 3600)} h ${Math.round(seconds % 3600 / 60)} min`;
  }

  function status() {
    const { total = 0, stored = 0, done = 0, tick = 0, max = 0, side = 1, over } = facts;
    const seconds = (facts.seconds || 0) + (over ? 0 : (performance.now() - received) / 1000);
    const here = done + (max && !over ? Math.min(side, total - stored - done) * tick / max : 0), left = total - stored - here;
    at("bar").max = total || 1;
    at("bar").value = over && !total ? 1 : stored + here;
    const parts = [make("b", {}, over ? "over" : facts.doing || "starting")];
    const say = (text) => parts.push(" · ", text);
    if (total) say(`${(stored + done).toLocaleString("en")} of ${words(total, "trial")}${stored ? ` (${stored.toLocaleString("en")} stored before)` : ""}`);
    if (max && tick && !over) say(`tick ${tick.toLocaleString("en")} of ${max.toLocaleString("en")}`);
    if (about.cells) say(`${words(about.cells, about.what)} × ${words(about.seeds, "seed")}`);
    if (total) say(time(seconds));
    if (!over && here > 0 && left > 0 && seconds > 2) say(`about ${time(seconds * left / here)} left`);
    at("line").replaceChildren(...parts);
    const told = (name) => (facts.note || "").includes(` ${name}`); // a sweep's note counts what has gone wrong
    const counts = Object.entries(facts.counts || {}).filter(([name]) => !told(name)).map(([name, count]) => `${count.toLocaleString("en")} ${name}`);
    at("note").textContent = [counts.join(", "), facts.note, over ? "" : facts.label].filter(Boolean).join(" · ");
    at("warnings").replaceChildren(...(facts.warnings || []).slice(-3).map((text) => make("p", { class: "warn" }, text)));
    if (total) document.title = `${over ? "✓" : Math.floor(100 * (stored + here) / total) + " %"} · ${about.experiment} · live`;
    if (over) ending();
  }

  function ending() {
    if (at("ending").childElementCount) return;
    const where = facts.page
      ? [make("a", { href: facts.page }, "Its page in the report"), " is as it was last written. To bring it up to date:"]
      : ["To write and open its page in the report:"];
    at("ending").replaceChildren(make("div", { class: "ending" },
      make("p", {}, "Every trial that ended is in the store ", make("code", {}, about.store), ". ", ...where),
      make("p", { class: "run" }, make("code", {}, about.report))));
  }

  function value(trial) {
    const metric = [...metrics.values()].find((each) => isLoss(each.name)) || metrics.values().next().value;
    const last = metric?.of.get(trial.id)?.y.at(-1);
    if (last !== undefined) return [metric.name, last];
    return trial.final || [metric?.name || "", null];
  }

  function board() {
    const rows = new Map();
    trials.forEach((trial) => { rows.has(trial.label) ? rows.get(trial.label).push(trial) : rows.set(trial.label, [trial]); });
    at("trials").hidden = !rows.size;
    at("value").textContent = trials.size ? value(trials.values().next().value)[0] : "";
    at("board").replaceChildren(...[...rows].map(([label, members]) => {
      members.sort((a, b) => a.seed - b.seed);
      const values = members.map((trial) => value(trial)[1]).filter((each) => each !== null).sort((a, b) => a - b);
      return make("tr", {},
        make("th", { scope: "row" }, key(arms.get(label)), label || "all trials"),
        make("td", {}, make("div", { class: "cells" }, ...members.map(cell))),
        make("td", { class: "n" }, values.length ? number(values[values.length >> 1]) : "–"));
    }));
    const hidden = (facts.done || 0) + (facts.stored || 0) - trials.size;
    at("signs").textContent = `• trains, ✓ ended, – censored, ! failed or not finite. The number is the median over seeds.${hidden > 0 && trials.size >= 300 ? ` The latest ${trials.size} trials are shown.` : ""}`;
  }
  function cell(trial) {
    const bad = !(trial.status in SIGNS), [name, last] = value(trial);
    const text = `${trial.label ? trial.label + ", " : ""}seed ${trial.seed}: ${trial.status}${last === null ? "" : `, ${name} ${number(last)}`}${trial.message ? ", " + trial.message : ""} (${trial.digest})`;
    const tell = () => { at("reading").textContent = text; };
    return make("button", { type: "button", class: "cell " + (bad ? "bad" : trial.status), "aria-label": text, pointerenter: tell, focus: tell, click: () => { if (trial.arrays) look(trial.id); } }, bad ? "!" : SIGNS[trial.status]);
  }

  // --- maps ---------------------------------------------------------------------------------------------------------

  const FOLLOW = "follow";
  function choices() {
    const shown = [...trials.values()].filter((trial) => trial.arrays), select = at("trial");
    at("maps").hidden = !shown.length;
    const wanted = select.value || FOLLOW;
    stairwise.options(select, [[FOLLOW, "the latest"], ...shown.map((trial) => [String(trial.id), `${trial.label ? trial.label + ", " : ""}seed ${trial.seed}`])], wanted);
    ask();
  }
  function look(id) {
    at("trial").value = String(id);
    ask();
    at("maps").scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  }
  function chosen() {
    if (at("trial").value && at("trial").value !== FOLLOW) return trials.get(Number(at("trial").value));
    const shown = [...trials.values()].filter((trial) => trial.arrays);
    return shown.find((trial) => trial.status === "running") || shown.findLast((trial) => trial.status in SIGNS) || shown.at(-1);
  }
  function ask() {
    const trial = chosen();
    if (!trial || scope.asking || document.hidden) return;
    if (scope.id === trial.id && scope.state === JSON.stringify([trial.arrays, trial.status])) return;
    if (scope.id === trial.id && performance.now() - scope.when < 1000 && !facts.over) return;
    const mine = scope;
    mine.asking = true;
    fetch("maps/" + trial.id).then((reply) => (reply.status === 202 ? undefined : reply.ok ? reply.json() : null)).then((found) => {
      if (found === undefined) return; // later
      const same = mine.id === trial.id, kept = same ? mine.kept() : {};
      mine.id = trial.id;
      if (found && (!same || JSON.stringify(found.state) !== mine.state)) {
        mine.stop();
        mine.stop = stairwise.scope(at("stage"), found, kept);
        mine.kept = mine.stop.kept;
      }
      if (!found && !same) { mine.stop(); at("stage").replaceChildren(make("p", { class: "quiet" }, "This trial has kept nothing to look at.")); }
      mine.state = found ? JSON.stringify(found.state) : JSON.stringify([trial.arrays, trial.status]);
    }).catch(() => { // the server has gone
      if (mine.id === trial.id) return;
      mine.id = trial.id;
      mine.stop();
      at("stage").replaceChildren(make("p", { class: "quiet" }, "The command has ended before this was asked for: ", make("code", {}, about.report), " shows it."));
    }).finally(() => { mine.asking = false; mine.when = performance.now(); });
  }

  // --- the loop and the connection ----------------------------------------------------------------------------------

  function frame() {
    requestAnimationFrame(frame);
    const now = performance.now();
    for (const thing of stale) {
      if (now < (drawn.get(thing) ?? 0)) continue;
      const began = performance.now();
      if ((typeof thing === "function" ? thing() : plot(thing)) === false) continue;
      stale.delete(thing);
      drawn.set(thing, now + Math.max(PAUSE, SHARE * (performance.now() - began)));
      if (performance.now() - now > 6) return; // the rest in the next frame
    }
  }

  function connect() {
    source = new EventSource("events");
    source.onmessage = (event) => { failures = 0; beat("live", facts.over ? "over" : "live"); take(JSON.parse(event.data)); if (facts.over) beat("", "over"); };
    source.onerror = () => {
      failures += 1;
      if (facts.over) { source.close(); beat("", "over; the command has ended, and this page keeps what it shows"); return; }
      if (failures > 5) { source.close(); beat("lost", "the command has ended or was stopped; what is finished is stored"); return; }
      beat("lost", "connection lost, trying again");
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
    };
  }
  function beat(kind, text) { at("beat").className = "beat " + kind; at("beat").textContent = text; }

  stairwise.start.push(() => {
    reset();
    at("trial").addEventListener("change", ask);
    setInterval(() => { if (received && !facts.over) { stale.add(status); ask(); } }, 1000);
    requestAnimationFrame(frame);
    connect();
  });
})();
