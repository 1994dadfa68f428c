/* An experiment's curves: choose the set of trials and the metric, switch arms and axes. */
(function () {
  const { make, load, options, box, key, style } = stairwise;

  /* Lines of one metric for members [[trial, arm], ...] of a set, by arm. */
  stairwise.groups = function (index, metric, members) {
    const arms = [...new Set(members.map(([, arm]) => arm))];
    return arms.map((arm, k) => ({
      label: arm || "all trials",
      style: style(k),
      lines: members.filter((member) => member[1] === arm && metric.of[member[0]]).map(([trial]) => {
        const [axis, values] = metric.of[trial];
        return { x: metric.steps[axis], y: values, label: "seed " + index.trials[trial].seed };
      }),
    }));
  };

  /* Where no trial has more than one point there is no curve: a column of dots for each arm. */
  stairwise.asColumns = function (groups) {
    return groups.map((group, k) => ({ ...group, lines: group.lines.map((line) => ({ ...line, x: [k] })) }));
  };

  function curves(place) {
    load(place.dataset.chunk).then((index) => show(place, index)).catch((error) => stairwise.failed(place, error));
  }

  function show(place, index) {
    const first = index.sets.find((each) => each.metrics.length) || index.sets[0];
    const state = { set: first.id, metric: null, logX: false, logY: false, off: new Set() };
    const sets = make("select", { change: () => { state.set = sets.value; state.off.clear(); refill(); update(); } });
    options(sets, index.sets.map((each) => [each.id, each.label]), state.set);
    const metrics = make("select", { change: () => { state.metric = metrics.value; update(); } });
    const chart = make("div", { class: "chart" }), legend = make("div", { class: "legend-keys", role: "group", "aria-label": "Arms" });
    const note = make("p", { class: "quiet small" });
    place.replaceChildren(
      make("div", { class: "controls" }, make("label", {}, "Metric ", metrics),
        index.sets.length > 1 ? make("label", {}, "Trials ", sets) : "",
        box("log x", false, (on) => { state.logX = on; update(); }),
        box("log y", false, (on) => { state.logY = on; update(); })),
      chart, legend, note);

    const chosen = () => index.sets.find((each) => each.id === state.set);
    function refill() {
      const known = chosen().metrics;
      if (!known.includes(state.metric)) state.metric = chosen().opens;
      options(metrics, known.map((name) => [name, name]), state.metric);
    }
    function update() {
      const about = index.metrics.find((each) => each.name === state.metric);
      load(about.file).then((chunk) => {
        let groups = stairwise.groups(index, chunk[state.metric], chosen().members);
        const dots = about.points <= 1;
        if (dots) groups = stairwise.asColumns(groups);
        const shown = groups.filter((group) => !state.off.has(group.label));
        const trials = shown.reduce((total, group) => total + group.lines.length, 0);
        stairwise.chart(chart, shown, {
          logX: state.logX && !dots, logY: state.logY, dots, xTitle: dots ? "arm" : about.over, yTitle: state.metric,
          about: `${state.metric}${dots ? "" : " over " + about.over}: ${trials} trials in ${shown.length} arms. Arrow keys read values.`,
        });
        legend.replaceChildren(...(groups.length > 1 ? groups.map((group) => make("button", {
          type: "button", "aria-pressed": String(!state.off.has(group.label)),
          click: () => { toggle(group.label); update(); },
        }, key(group.style), group.label)) : []));
        note.textContent = dots ? "Every trial is a dot." : `Thin: each of ${trials} trials. Thick: median over seeds.`;
      }).catch((error) => stairwise.failed(place, error));
    }
    function toggle(label) { state.off.has(label) ? state.off.delete(label) : state.off.add(label); }
    refill();
    update();
  }

  stairwise.start.push(() => document.querySelectorAll(".curves").forEach(curves));
})();
