/* The ledger's filters; what is chosen is part of the address, so that it can be linked to. */
(function () {
  const ORDER = ["fails", "not-reproduced", "refuted", "misprint", "outside", "vacuous", "reported", "holds", "skipped"];

  function ledger() {
    const form = document.getElementById("filters");
    if (!form) return;
    const body = document.getElementById("ledger").tBodies[0], rows = [...body.rows];
    const text = rows.map((row) => row.textContent.toLowerCase());
    const sorters = [...document.querySelectorAll("#ledger .sort")];
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
      const by = value("order").replace(/^-/, ""), way = value("order").startsWith("-") ? -1 : 1;
      const amount = (row) => (row.dataset[by] === "" ? NaN : by === "status" ? ORDER.indexOf(row.dataset.status) : Number(row.dataset[by]));
      const place = (row) => row.cells[by === "claim" ? 1 : 2].textContent.trim();
      const order = ["status", "margin", "measured", "required"].includes(by)
        ? (a, b) => { const [left, right] = [amount(a), amount(b)]; return Number.isNaN(left) - Number.isNaN(right) || way * (left - right) || 0; }
        : by ? (a, b) => way * place(a).localeCompare(place(b), "en", { numeric: true }) : () => 0;
      body.append(...[...rows].sort(order));
      for (const button of sorters) {
        const own = button.dataset.by === by;
        own ? button.parentElement.setAttribute("aria-sort", way > 0 ? "ascending" : "descending") : button.parentElement.removeAttribute("aria-sort");
      }
    }
    function change() {
      apply();
      stairwise.remember(Object.fromEntries(fields.map((name) => [name, value(name)])));
    }
    /* A heading sorts by its column, then backwards, then not at all. */
    for (const button of sorters) button.addEventListener("click", () => {
      const by = button.dataset.by, now = value("order");
      form.elements.order.value = now === by ? `-${by}` : now === `-${by}` ? "" : by;
      sort();
      change();
    });
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
