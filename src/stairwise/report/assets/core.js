/* The site's script. Classic scripts only: a page opened from disk can load neither modules nor JSON. Text from the
   store reaches the page through textContent and attributes, never as markup. */
"use strict";
var stairwise = window.stairwise || {};
window.stairwise = stairwise;

(function () {
  const waiting = {}, arrived = {};

  /* A data chunk calls this with its value. */
  stairwise.receive = function (name, value) {
    arrived[name] = value;
    (waiting[name] || []).forEach((resolve) => resolve(value));
    delete waiting[name];
  };

  /* The chunk of that name, loaded once by adding a script element. */
  stairwise.load = function (name) {
    if (name in arrived) return Promise.resolve(arrived[name]);
    return new Promise((resolve, reject) => {
      const first = !(name in waiting);
      (waiting[name] = waiting[name] || []).push(resolve);
      if (!first) return;
      const script = document.createElement("script");
      script.src = document.body.dataset.root + "data/" + name + ".js";
      script.onerror = () => reject(new Error("could not load " + name));
      document.head.append(script);
    });
  };

  /* An element: attributes by name, listeners as functions, children as nodes or text. */
  stairwise.make = function (tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  };
  stairwise.draw = function (tag, attributes, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
  };
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (typeof value === "function") element.addEventListener(name, value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  /* Four digits of a number, as people write it. */
  stairwise.number = function (value) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e5 || size < 1e-3) return value.toExponential(2).replace("e+", "e").replace("-", "−").replace("e-", "e−");
    return String(Number(value.toPrecision(4))).replace("-", "−");
  };

  stairwise.options = function (select, items, chosen) {
    select.replaceChildren(...items.map(([value, label]) => stairwise.make("option", { value, selected: value === chosen }, label)));
  };

  /* A labelled checkbox. */
  stairwise.box = function (label, checked, change) {
    const input = stairwise.make("input", { type: "checkbox", checked, change: () => change(input.checked) });
    return stairwise.make("label", {}, input, " " + label);
  };

  /* The part of the address after "#", as fields. */
  stairwise.wanted = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  stairwise.remember = function (fields) {
    const kept = Object.entries(fields).filter(([, value]) => value);
    history.replaceState(null, "", kept.length ? "#" + new URLSearchParams(kept) : location.pathname + location.search);
  };

  stairwise.failed = (place, error) => place.append(stairwise.make("p", { class: "problem" }, error.message));

  function theme() {
    const button = document.getElementById("theme"), root = document.documentElement;
    const stored = attempt(() => localStorage.getItem("stairwise-theme"));
    if (stored === "dark" || stored === "light") root.dataset.theme = stored;
    button.hidden = false;
    button.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      attempt(() => localStorage.setItem("stairwise-theme", root.dataset.theme));
    });
  }
  /* Storage is refused to some pages opened from disk. */
  function attempt(action) { try { return action(); } catch { return null; } }

  function finders() {
    for (const input of document.querySelectorAll("input.find")) {
      const rows = [...document.getElementById(input.dataset.table).tBodies[0].rows];
      input.addEventListener("input", () => {
        const text = input.value.toLowerCase();
        rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(text); });
      });
    }
  }

  stairwise.start = [theme, finders];
  document.addEventListener("DOMContentLoaded", () => stairwise.start.forEach((begin) => begin()));
})();
