/* Two sides on one axis: each an experiment, a set of its trials, an arm or all, and a metric. */
(function () {
  const { make, load, options, box } = stairwise;
  const EVERY = "\u0000all";

  function compare() {
    const place = document.getElementById("compare");
    if (!place) return;
    load(place.dataset.chunk).then((list) => show(place, list)).catch((error) => stairwise.failed(place, error));
  }

  /* The address holds both sides: a is the experiment, a.set, a.arm and a.metric the rest; the same for b. */
  function show(place, list) {
    const wanted = stairwise.wanted(), axes = { logX: Boolean(wanted.logx), logY: Boolean(wanted.logy) };
    const first = list.find((each) => each.name === wanted.a) || list.find((each) => named(each.sets[0]).length > 1) || list[0];
    const sides = [side("a", list, first.name, update), side("b", list, wanted.b || partner(list, first), update)];
    sides.forEach((each) => each.choose(wanted));
    if (!wanted.b) sides[1].differ(sides[0]);
    const chart = make("div", { class: "chart" }), facts = make("div", {});
    place.replaceChildren(
      make("div", { class: "sides" }, ...sides.map((each) => each.element)),
      make("div", { class: "controls" },
        box("log x", axes.logX, (on) => { axes.logX = on; update(); }),
        box("log y", axes.logY, (on) => { axes.logY = on; update(); })),
      chart, facts);

    let asked = 0;
    function update(event) {
      const mine = ++asked;
      if (event !== null) stairwise.remember({ ...sides[0].state(), ...sides[1].state(), logx: axes.logX ? "1" : "", logy: axes.logY ? "1" : "" });
      Promise.all(sides.map((each) => each.read())).then((found) => {
        if (mine !== asked) return;
        const groups = found.map((each, k) => ({ label: `${"AB"[k]}: ${each.label}`, style: [k, k], lines: each.lines }));
        const dots = groups.every((group) => group.lines.every((line) => line.x.length <= 1));
        const metrics = [...new Set(found.map((each) => each.metric))], over = [...new Set(found.map((each) => each.over))];
        stairwise.chart(chart, dots ? stairwise.asColumns(groups) : groups, {
          ...axes, logX: axes.logX && !dots, dots, xTitle: dots ? "side" : over.join(" / "), yTitle: metrics.join(" / "),
          about: groups.map((group) => `${group.label}, ${group.lines.length} trials`).join("; ") + ". Arrow keys read values.",
        });
        facts.replaceChildren(table(found));
      }).catch((error) => { facts.replaceChildren(); stairwise.failed(facts, error); });
    }
    window.addEventListener("hashchange", () => show(place, list), { once: true });
    update(null);
  }

  const named = (set) => set.arms.filter(Boolean);

  /* What to put beside an experiment: another arm or set of its own, else the next experiment. */
  function partner(list, first) {
    if (named(first.sets[0]).length > 1 || first.sets.length > 1) return first.name;
    return list[(list.indexOf(first) + 1) % list.length].name;
  }

  function side(name, list, experiment, changed) {
    const state = { of: list.find((each) => each.name === experiment) || list[0] };
    const select = (change) => make("select", { change });
    const chooser = {
      experiment: select(() => { state.of = list.find((each) => each.name === chooser.experiment.value); refill(); changed(); }),
      set: select(() => { within(); changed(); }),
      arm: select(changed),
      metric: select(changed),
    };
    options(chooser.experiment, list.map((each) => [each.name, each.name]), state.of.name);

    function refill() {
      options(chooser.set, state.of.sets.map((each) => [each.id, each.label]), state.of.sets[0].id);
      within();
    }
    function within() {
      const metric = set().metrics.includes(chooser.metric.value) ? chooser.metric.value : set().opens;
      options(chooser.metric, set().metrics.map((each) => [each, each]), metric);
      const choices = named(set()).length > 1 ? [[EVERY, "all arms"], ...set().arms.map((arm) => [arm, arm])] : [[EVERY, "all trials"]];
      options(chooser.arm, choices, named(set()).length > 1 ? set().arms[0] : EVERY);
    }
    const set = () => state.of.sets.find((each) => each.id === chooser.set.value);
    const has = (control, value) => [...control.options].some((each) => each.value === value);
    const take = (control, value) => { if (value !== undefined && has(control, value)) { control.value = value; return true; } return false; };

    /* As the address asks; what it does not know stays. */
    function choose(wanted) {
      if (take(chooser.set, wanted[`${name}.set`])) within();
      take(chooser.arm, wanted[`${name}.arm`] === "all" ? EVERY : wanted[`${name}.arm`]);
      take(chooser.metric, wanted[`${name}.metric`]);
    }
    /* Something else than the other side shows: its next arm, else another set, else another metric. */
    function differ(other) {
      const their = other.state();
      if (their.a !== state.of.name) return;
      take(chooser.set, their["a.set"]);
      within();
      take(chooser.metric, their["a.metric"]);
      const arms = set().arms, place = arms.indexOf(their["a.arm"]);
      if (named(set()).length > 1) chooser.arm.value = arms[(place + 1) % arms.length];
      else if (state.of.sets.length > 1) { chooser.set.value = state.of.sets.find((each) => each.id !== their["a.set"]).id; within(); }
    }
    function told() {
      const arm = chooser.arm.value;
      return { [name]: state.of.name, [`${name}.set`]: chooser.set.value, [`${name}.arm`]: arm === EVERY ? "all" : arm, [`${name}.metric`]: chooser.metric.value };
    }

    function read() {
      const metric = chooser.metric.value, id = chooser.set.value, arm = chooser.arm.value;
      return load(state.of.chunk).then((index) => {
        const about = index.metrics.find((each) => each.name === metric);
        return load(about.file).then((chunk) => {
          const found = index.sets.find((each) => each.id === id);
          const members = found.members.filter((member) => arm === EVERY || member[1] === arm);
          const lines = stairwise.groups(index, chunk[metric], members).flatMap((group) => group.lines);
          const label = arm === EVERY ? index.name : `${index.name}, ${arm}`;
          return { label, metric, over: about.over, lines, config: found.config, set: found.label };
        });
      });
    }
    refill();
    const row = (label, control) => make("label", {}, label + " ", control);
    const element = make("section", { class: `side ${name}`, "aria-label": `Side ${name.toUpperCase()}` }, make("h2", {}, name.toUpperCase()),
      row("Experiment", chooser.experiment), row("Trials", chooser.set), row("Arm", chooser.arm), row("Metric", chooser.metric));
    return { element, read, choose, differ, state: told };
  }

  /* Last values, and the fields of the config in which the two sides differ. */
  function table([a, b]) {
    const last = (each) => {
      const ends = each.lines.map((line) => line.y[line.y.length - 1]).filter((value) => value !== null);
      const line = stairwise.median(ends.map((value) => ({ x: [0], y: [value] })));
      return ends.length ? `${stairwise.number(line.y[0])} (${stairwise.number(Math.min(...ends))} to ${stairwise.number(Math.max(...ends))})` : "–";
    };
    const rows = [["trials", a.set, b.set], ["last value: median (range)", last(a), last(b)]];
    for (const path of new Set([...Object.keys(a.config), ...Object.keys(b.config)])) {
      if (a.config[path] !== b.config[path]) rows.push([path, a.config[path] ?? "varies", b.config[path] ?? "varies"]);
    }
    const cells = rows.map(([name, left, right]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, left), make("td", {}, right)));
    const head = make("thead", {}, make("tr", {}, ...["", "A", "B"].map((name) => make("th", { scope: "col" }, name))));
    return make("div", { class: "wide" }, make("table", { class: "list small" }, head, make("tbody", {}, ...cells)));
  }

  stairwise.start.push(compare);
})();
