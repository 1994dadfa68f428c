/* The ledger's filters; what is chosen is part of the address, so that it can be linked to. */
(function () {
  const ORDER = ["fails", "not-reproduced", "refuted", "misprint", "outside", "vacuous", "reported", "holds", "skipped"];

  function ledger() {
    const form = document.getElementById("filters");
    if (!form) return;
    const body = document.getElementById("ledger").tBodies[0], rows = [...body.rows];
    const text = rows.map((row) => row.textContent.toLowerCase());
    const fields = ["paper", "status", "kind", "tier", "text", "order"];
    const value = (name) => form.elements[name].value;

    function read() {
      const wanted = stairwise.wanted();
      for (const name of fields) form.elements[name].value = wanted[name] || "";
    }
    function apply() {
      const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, k) => {
        const fits = ["paper", "status", "kind", "tier"].every((name) => !value(name) || row.dataset[name] === value(name));
        row.hidden = !(fits && words.every((word) => text[k].includes(word)));
        shown += row.hidden ? 0 : 1;
      });
      document.getElementById("found").textContent = `${shown} of ${rows.length} claims`;
      document.getElementById("none").hidden = shown > 0;
    }
    function sort() {
      const by = value("order");
      const margin = (row) => (row.dataset.margin === "" ? Infinity : Number(row.dataset.margin));
      const status = (row) => ORDER.indexOf(row.dataset.status);
      const order = by === "margin" ? (a, b) => margin(a) - margin(b) : by === "status" ? (a, b) => status(a) - status(b) : () => 0;
      body.append(...[...rows].sort(order));
    }
    function change() {
      apply();
      stairwise.remember(Object.fromEntries(fields.map((name) => [name, value(name)])));
    }
    form.addEventListener("input", (event) => { if (event.target.name === "order") sort(); change(); });
    form.addEventListener("submit", (event) => event.preventDefault());
    document.getElementById("clear").addEventListener("click", () => { form.reset(); sort(); change(); });
    window.addEventListener("hashchange", () => { read(); sort(); apply(); });
    read();
    sort();
    apply();
  }
  stairwise.start.push(ledger);
})();
