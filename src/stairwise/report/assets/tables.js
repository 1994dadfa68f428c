/* Tables that are wider than a small screen become lists: a row is a block, and each of its cells has its column's name.
   A long list shows its first rows, and the others when they are asked for or linked to. */
(function () {
  const SMALL = matchMedia("(max-width: 40rem)"), BRIEF = 22, LONG = 14, FIRST = 8;

  function label(table) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    for (const body of table.tBodies) for (const row of body.rows) [...row.cells].forEach((cell, place) => {
      if (place > 0 && names[place] && !cell.dataset.label) cell.dataset.label = names[place];
      const length = cell.textContent.trim().length;
      cell.classList.toggle("brief", place > 0 && length + (names[place] || "").length <= BRIEF && !cell.querySelector("math, br"));
      cell.classList.toggle("blank", length === 0 && !cell.querySelector("img, svg, input"));
    });
  }
  function shorten(table) {
    const rest = [...table.tBodies].flatMap((body) => [...body.rows]).slice(FIRST);
    if (rest.length + FIRST <= LONG || table.closest(".tall") || table.dataset.whole) return;
    rest.forEach((row) => row.classList.add("later"));
    const button = document.createElement("button");
    button.type = "button";
    button.className = "rest";
    button.textContent = `Show ${rest.length} more rows`;
    button.addEventListener("click", () => lengthen(table));
    table.after(button);
  }
  function lengthen(table) {
    table.dataset.whole = "yes";
    table.querySelectorAll(".later").forEach((row) => row.classList.remove("later"));
    if (table.nextElementSibling && table.nextElementSibling.className === "rest") table.nextElementSibling.remove();
  }
  function fit() {
    for (const table of document.querySelectorAll("table:not(.ledger, .answers)")) {
      if (!table.tHead || table.tHead.rows.length !== 1 || (SMALL.matches && table.classList.contains("stacked"))) continue;
      table.classList.remove("stacked");
      const room = table.parentElement.clientWidth;
      if (!SMALL.matches || !room || Math.max(table.scrollWidth, table.offsetWidth) <= room + 1) continue;
      label(table);
      table.classList.add("stacked");
      shorten(table);
    }
    show();
  }
  /* What the address names may lie among the rows that are not shown. */
  function show() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const row = target && target.closest("tr.later");
    if (!row) return;
    lengthen(row.closest("table"));
    target.scrollIntoView();
  }
  document.addEventListener("DOMContentLoaded", fit);
  window.addEventListener("hashchange", show);
  SMALL.addEventListener("change", fit);
  document.addEventListener("toggle", fit, true); /* a table that was folded away had no width */
})();
