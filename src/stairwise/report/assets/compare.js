/* Two sides on one axis: each an experiment, a set of its trials, an arm or all, and a metric. */
(function () {
  const { make, load, options, box } = stairwise;
  const EVERY = "\u0000all";

  function compare() {
    const place = document.getElementById("compare");
    if (!place) return;
    load(place.dataset.chunk).then((list) => show(place, list)).catch((error) => stairwise.failed(place, error));
  }

  function show(place, list) {
    const wanted = stairwise.wanted(), axes = { logX: false, logY: false };
    const sides = ["a", "b"].map((name) => side(name, list, wanted[name] || wanted.a, name === "b", update));
    const chart = make("div", { class: "chart" }), facts = make("div", {});
    place.replaceChildren(
      make("div", { class: "sides" }, ...sides.map((each) => each.element)),
      make("div", { class: "controls" },
        box("log x", false, (on) => { axes.logX = on; update(); }),
        box("log y", false, (on) => { axes.logY = on; update(); })),
      chart, facts);

    let asked = 0;
    function update() {
      const mine = ++asked;
      Promise.all(sides.map((each) => each.read())).then((found) => {
        if (mine !== asked) return;
        const groups = found.map((each, k) => ({ label: `${"AB"[k]}: ${each.label}`, style: [k, k], lines: each.lines }));
        const dots = groups.every((group) => group.lines.every((line) => line.x.length <= 1));
        const metrics = [...new Set(found.map((each) => each.metric))];
        stairwise.chart(chart, dots ? stairwise.asColumns(groups) : groups, {
          ...axes, dots, xTitle: dots ? "side" : "training tick", yTitle: metrics.join(" / "),
          about: groups.map((group) => `${group.label}, ${group.lines.length} trials`).join("; ") + ". Arrow keys read values.",
        });
        facts.replaceChildren(table(found));
      }).catch((error) => { facts.replaceChildren(); stairwise.failed(facts, error); });
    }
    update();
  }

  function side(name, list, experiment, second, changed) {
    const first = list.find((each) => each.name === experiment) || list[0];
    const state = { of: first };
    const select = (change) => make("select", { change });
    const chooser = {
      experiment: select(() => { state.of = list.find((each) => each.name === chooser.experiment.value); refill(); changed(); }),
      set: select(() => { within(); changed(); }),
      arm: select(changed),
      metric: select(changed),
    };
    options(chooser.experiment, list.map((each) => [each.name, each.name]), first.name);

    function refill() {
      options(chooser.set, state.of.sets.map((each) => [each.id, each.label]), state.of.sets[0].id);
      within();
    }
    function within() {
      const metric = set().metrics.includes(chooser.metric.value) ? chooser.metric.value : stairwise.favourite(set().metrics);
      options(chooser.metric, set().metrics.map((each) => [each, each]), metric);
      const known = set().arms, named = known.filter(Boolean);
      const choices = named.length > 1 ? [[EVERY, "all arms"], ...known.map((arm) => [arm, arm])] : [[EVERY, "all trials"]];
      const start = named.length > 1 ? known[second ? 1 : 0] : EVERY;
      options(chooser.arm, choices, start);
    }
    const set = () => state.of.sets.find((each) => each.id === chooser.set.value);

    function read() {
      const metric = chooser.metric.value, id = chooser.set.value, arm = chooser.arm.value;
      return load(state.of.chunk).then((index) => {
        const about = index.metrics.find((each) => each.name === metric);
        return load(about.file).then((chunk) => {
          const found = index.sets.find((each) => each.id === id);
          const members = found.members.filter((member) => arm === EVERY || member[1] === arm);
          const lines = stairwise.groups(index, chunk[metric], members).flatMap((group) => group.lines);
          const label = arm === EVERY ? index.name : `${index.name}, ${arm}`;
          return { label, metric, lines, config: found.config, set: found.label };
        });
      });
    }
    refill();
    const row = (label, control) => make("label", {}, label + " ", control);
    const element = make("section", { class: `side ${name}`, "aria-label": `Side ${name.toUpperCase()}` }, make("h2", {}, name.toUpperCase()),
      row("Experiment", chooser.experiment), row("Trials", chooser.set), row("Arm", chooser.arm), row("Metric", chooser.metric));
    return { element, read };
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
