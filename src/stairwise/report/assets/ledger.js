/* The ledger's filters; what is chosen is part of the address, so that it can be linked to. A long ledger is folded by
   paper until something is chosen; then it shows so many claims at a time. */
(function () {
  const ORDER = ["fails", "not-reproduced", "refuted", "misprint", "outside", "vacuous", "reported", "holds", "skipped"];
  const PAGE = 60;

  function ledger() {
    const form = document.getElementById("filters");
    if (!form) return;
    const body = document.getElementById("ledger").tBodies[0], every = [...body.rows];
    const rows = every.filter((row) => row.dataset.paper), folds = every.filter((row) => row.dataset.fold);
    const more = document.getElementById("more"), open = new Set();
    let most = PAGE;
    const text = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const sorters = [...document.querySelectorAll("#ledger .sort")];
    const fields = ["paper", "status", "kind", "tier", "text", "order"];
    const value = (name) => form.elements[name].value;

    function read() {
      const wanted = stairwise.wanted();
      for (const name of fields) form.elements[name].value = wanted[name] || "";
    }
    function apply() {
      const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
      const folded = rows.length > PAGE && !fields.some(value);
      let shown = 0;
      for (const row of body.rows) {
        if (!row.dataset.paper) continue;
        const fits = ["paper", "status", "kind", "tier"].every((name) => !value(name) || row.dataset[name] === value(name));
        const found = fits && words.every((word) => text.get(row).includes(word));
        shown += found ? 1 : 0;
        row.hidden = !found || (folded ? !open.has(row.dataset.paper) : shown > most);
      }
      for (const row of folds) {
        row.hidden = !folded;
        row.querySelector("button").setAttribute("aria-expanded", open.has(row.dataset.fold));
      }
      more.hidden = folded || shown <= most;
      more.textContent = `Show ${Math.min(PAGE, shown - most)} more of ${shown}`;
      document.getElementById("found").textContent = folded ? `${shown} claims, folded by paper` : `${shown} of ${rows.length} claims`;
      document.getElementById("none").hidden = shown > 0;
    }
    function sort() {
      const by = value("order").replace(/^-/, ""), way = value("order").startsWith("-") ? -1 : 1;
      const amount = (row) => (row.dataset[by] === "" ? NaN : by === "status" ? ORDER.indexOf(row.dataset.status) : Number(row.dataset[by]));
      const place = (row) => row.cells[by === "claim" ? 1 : 2].textContent.trim();
      const order = ["status", "margin", "measured", "required"].includes(by)
        ? (a, b) => { const [left, right] = [amount(a), amount(b)]; return Number.isNaN(left) - Number.isNaN(right) || way * (left - right) || 0; }
        : by ? (a, b) => way * place(a).localeCompare(place(b), "en", { numeric: true }) : () => 0;
      body.append(...(by ? [...rows].sort(order) : every));
      for (const button of sorters) {
        const own = button.dataset.by === by;
        own ? button.parentElement.setAttribute("aria-sort", way > 0 ? "ascending" : "descending") : button.parentElement.removeAttribute("aria-sort");
      }
    }
    function change() {
      most = PAGE;
      apply();
      stairwise.remember(Object.fromEntries(fields.map((name) => [name, value(name)])));
    }
    for (const row of folds) row.addEventListener("click", () => {
      open.delete(row.dataset.fold) || open.add(row.dataset.fold);
      apply();
    });
    more.addEventListener("click", () => { most += PAGE; apply(); });
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
    window.addEventListener("hashchange", () => { most = PAGE; read(); sort(); apply(); });
    read();
    sort();
    apply();
  }
  stairwise.start.push(ledger);
})();
