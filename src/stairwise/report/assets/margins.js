/* A claim's margin against its sizes: a dot per case and seed, coloured by status; below the line a bound is broken. */
(function () {
  const { make, options } = stairwise;
  const COLOURS = { holds: 2, fails: 1, refuted: 1, "not-reproduced": 1, misprint: 4, outside: 6, vacuous: 5, reported: 0 };

  function show(place) {
    const points = JSON.parse(place.dataset.points), fields = JSON.parse(place.dataset.fields);
    const chart = make("div", { class: "chart" }), legend = make("div", { class: "legend-keys" });
    const over = make("select", { change: update });
    options(over, fields.map((name) => [name, name]), fields[0]);
    place.replaceChildren(make("div", { class: "controls" }, make("label", {}, "Against ", over)), chart, legend);

    function update() {
      const field = over.value, statuses = [...new Set(points.map((point) => point.status))];
      const groups = statuses.map((status) => ({
        label: status, style: [COLOURS[status] ?? 3, 0],
        lines: points.filter((point) => point.status === status && field in point.sizes).map((point) => ({ x: [point.sizes[field]], y: [point.margin], label: point.name })),
      }));
      const sizes = points.map((point) => point.sizes[field]).filter((size) => size !== undefined);
      const low = Math.min(...sizes), high = Math.max(...sizes), wide = low > 0 && high > 8 * low;
      stairwise.chart(chart, groups, {
        height: 260, logX: wide, logY: true, level: 1, xTitle: field, yTitle: "margin",
        reach: wide ? [low / 1.3, high * 1.3] : [low - 0.06 * (high - low || 1), high + 0.06 * (high - low || 1)],
        about: `Margin against ${field}: ${points.length} checks. Arrow keys read values.`,
      });
      legend.replaceChildren(...groups.map((group) => make("span", { class: "small" }, stairwise.dot(group.style), group.label)));
    }
    update();
  }

  stairwise.start.push(() => document.querySelectorAll(".margins").forEach(show));
})();
