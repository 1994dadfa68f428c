"use strict";
/* The page: tabs, settings, transport, the address, and the loop that trains and draws. A machine is
   {id, tab, title, lead, controls, presets, speed, panels, make(settings), python(settings)}; what make returns has
   step() -> whether a whole step is done, ended, status(), and whatever the panels draw; a `version` that has not changed
   since they were drawn spares them being drawn again. */
(function () {
  const {draw, machines} = stairwise;
  const SPEEDS = [0.05, 0.25, 1, 3, 10, 40, 1000];
  const BUDGET = 4; // milliseconds of training per frame; drawing comes on top
  const $ = (id) => document.getElementById(id);
  const make = (tag, more = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(more)) name in node && name !== "list" ? (node[name] = value) : node.setAttribute(name, value);
    node.append(...children);
    return node;
  };

  let machine, settings, run, colours, playing = false, single = false, due = 0, dirty = true, drawn, told = 0, embedded = false;
  const works = (stairwise.works = []); // milliseconds of work of the latest frames

  // --- settings and the address ---------------------------------------------------------------------------------------

  const defaults = (of) => Object.fromEntries(of.controls.map((c) => [c.name, c.value]));
  const values = (c) => c.values || null;

  /* The value that a text means, or an error with the field, the value and the range. */
  function parse(control, word) {
    if (control.kind === "check") return word === "1" || word === "true";
    if (control.kind === "text") return word;
    if (control.kind === "choice") {
      const found = control.options.find((o) => String(o[0]) === word);
      if (!found) throw new Error(`${control.name}=${word} must be one of ${control.options.map((o) => o[0]).join(", ")}`);
      return found[0];
    }
    const x = Number(word);
    if (values(control)) {
      if (!control.values.includes(x)) throw new Error(`${control.name}=${word} must be one of ${control.values.join(", ")}`);
    } else if (word.trim() === "" || !(x >= control.low && x <= control.high))
      throw new Error(`${control.name}=${word} must lie in ${control.low}..${control.high}`);
    return x;
  }

  function fromAddress() {
    const asked = new URLSearchParams(location.hash.slice(1));
    embedded = asked.get("embed") === "1";
    document.body.classList.toggle("embed", embedded);
    const wanted = machines.find((m) => m.id === asked.get("machine")), problems = [];
    if (asked.get("machine") && !wanted) problems.push(`machine=${asked.get("machine")} must be one of ${machines.map((m) => m.id).join(", ")}`);
    const chosen = wanted || machines[0], found = defaults(chosen);
    for (const control of chosen.controls) {
      const word = asked.get(control.name);
      if (word === null) continue;
      try { found[control.name] = parse(control, word); } catch (error) { problems.push(error.message); }
    }
    choose(chosen, found);
    if (problems.length) warn(problems[0]);
    if (asked.get("play") === "1") play(true);
  }

  function toAddress() {
    const words = new URLSearchParams({machine: machine.id}), first = defaults(machine);
    for (const c of machine.controls)
      if (settings[c.name] !== first[c.name]) words.set(c.name, c.kind === "check" ? (settings[c.name] ? "1" : "0") : settings[c.name]);
    if (embedded) words.set("embed", "1");
    const hash = `#${words}`;
    if (hash !== location.hash) history.replaceState(null, "", hash);
  }

  // --- building the page ----------------------------------------------------------------------------------------------

  function choose(which, found) {
    machine = which;
    settings = found;
    play(false);
    $("title").textContent = machine.title;
    $("lead").innerHTML = machine.lead; // our own text, with emphasis
    document.title = `${machine.title} · Stairwise playground`;
    for (const tab of $("tabs").children) {
      const own = tab.id === `tab-${machine.id}`;
      tab.setAttribute("aria-selected", own);
      tab.tabIndex = own ? 0 : -1;
      if (own) tab.scrollIntoView({block: "nearest", inline: "nearest"});
    }
    $("bench").setAttribute("aria-labelledby", `tab-${machine.id}`);
    $("speed").value = machine.speed;
    $("speed").oninput();
    $("presets").replaceChildren(...machine.presets.map((preset, i) => {
      const kind = preset.breaks ? "break this assumption" : "what the theorem says";
      const button = make("button", {type: "button", id: `preset-${i}`}, make("small", {className: preset.breaks ? "breaks" : "", textContent: kind}), preset.name);
      button.onclick = () => { change({...defaults(machine), ...preset.set}); play(true); };
      return button;
    }));
    $("controls").replaceChildren(...machine.controls.map(controlRow));
    $("panels").replaceChildren(...machine.panels.map((panel) => {
      const canvas = make("canvas", {id: `panel-${panel.id}`, role: "img"});
      canvas.style.height = `${panel.height || 280}px`;
      return make("figure", {className: `panel ${panel.size || ""}`}, make("figcaption", {}, make("b", {textContent: panel.title}), make("span", {id: `says-${panel.id}`})), canvas);
    }));
    $("code").hidden = true;
    $("python").setAttribute("aria-expanded", "false");
    restart();
  }

  function controlRow(c) {
    const id = `set-${c.name}`, row = make("div", {className: `control ${c.kind || "range"}`, id: `row-${c.name}`});
    if (c.kind === "check") {
      const box = make("input", {type: "checkbox", id});
      box.onchange = () => change({[c.name]: box.checked});
      row.append(make("label", {}, box, c.label));
    } else if (c.kind === "choice" && c.options.length <= 3) {
      const segments = make("div", {className: "segments"}, ...c.options.map(([value, name]) => {
        const radio = make("input", {type: "radio", name: id, value: String(value), id: `${id}-${value}`});
        radio.onchange = () => change({[c.name]: value});
        return make("label", {}, radio, name);
      }));
      row.append(make("fieldset", {}, make("legend", {textContent: c.label}), segments));
    } else if (c.kind === "choice") {
      const select = make("select", {id}, ...c.options.map(([value, name]) => make("option", {value: String(value), textContent: name})));
      select.onchange = () => change({[c.name]: parse(c, select.value)});
      row.append(make("label", {htmlFor: id, textContent: c.label}), select);
    } else if (c.kind === "text") {
      const box = make("input", {type: "text", id, spellcheck: false});
      box.onchange = () => change({[c.name]: box.value});
      row.append(make("label", {htmlFor: id, textContent: c.label}), box);
    } else {
      const list = values(c), slider = make("input", {type: "range", id});
      slider.min = list ? 0 : c.low; slider.max = list ? list.length - 1 : c.high; slider.step = list ? 1 : c.step || 1;
      slider.oninput = () => change({[c.name]: list ? list[slider.value] : Number(slider.value)});
      row.append(make("label", {htmlFor: id}, c.label, make("output", {id: `${id}-value`})), slider);
    }
    return row;
  }

  function showSettings() {
    for (const c of machine.controls) {
      const id = `set-${c.name}`, value = settings[c.name], row = $(`row-${c.name}`);
      row.hidden = Boolean(c.when && !c.when(settings));
      if (c.kind === "check") $(id).checked = value;
      else if (c.kind === "choice" && c.options.length <= 3) $(`${id}-${value}`).checked = true;
      else if (c.kind === "choice" || c.kind === "text") $(id).value = String(value);
      else {
        const shown = c.show ? c.show(value, settings) : stairwise.text(value);
        $(id).value = values(c) ? c.values.indexOf(value) : value;
        $(id).setAttribute("aria-valuetext", shown);
        $(`${id}-value`).textContent = shown;
      }
    }
    const first = defaults(machine);
    let says = "";
    machine.presets.forEach((preset, i) => {
      const all = {...first, ...preset.set}, on = machine.controls.every((c) => (c.live && !(c.name in preset.set)) || all[c.name] === settings[c.name]);
      $(`preset-${i}`).setAttribute("aria-pressed", on);
      if (on && !says) says = preset.says;
    });
    $("preset-says").textContent = says;
    if (!$("code").hidden && run) showPython();
  }

  /* New settings; a machine starts again unless all that changed are settings that only look. */
  function change(some) {
    const asked = {...settings, ...some}, fixed = machine.settle ? machine.settle(asked, some) : asked;
    const changed = machine.controls.filter((c) => fixed[c.name] !== settings[c.name]);
    settings = fixed;
    if (run) $("status").classList.remove("warn");
    if (changed.some((c) => !c.live)) restart();
    else { if (run && run.look) run.look(settings); dirty = true; showSettings(); toAddress(); }
  }

  function restart() {
    due = 0;
    try {
      run = machine.make(settings);
    } catch (error) { // settings that mean no machine, such as generators of no group
      run = null;
      play(false);
      showSettings();
      warn(error.message);
      return;
    }
    $("status").classList.remove("warn");
    showSettings();
    toAddress();
    dirty = true;
    draft();
  }

  function warn(message) {
    $("status").textContent = message;
    $("status").classList.add("warn");
    $("news").textContent = message;
  }

  // --- Python -----------------------------------------------------------------------------------------------------------

  function showPython() {
    const {says, code} = machine.python(settings);
    $("code-says").textContent = says;
    $("code-text").textContent = code;
    return code;
  }
  async function copy(code) {
    try { await navigator.clipboard.writeText(code); }
    catch {
      const area = make("textarea", {value: code});
      document.body.append(area); area.select();
      const done = document.execCommand("copy");
      area.remove();
      if (!done) return "select the text to copy it";
    }
    return "copied";
  }

  // --- the loop -----------------------------------------------------------------------------------------------------------

  function play(on) {
    playing = on && Boolean(run) && !run.ended;
    if (playing) $("status").classList.remove("warn");
    single = false;
    $("play").textContent = playing ? "Pause" : "Play";
    $("play").setAttribute("aria-pressed", playing);
    if (run && on !== undefined) $("news").textContent = playing ? "training" : `paused. ${plain(run.status())}`;
  }
  const plain = (html) => html.replace(/<[^>]*>/g, "");

  function frame() {
    const began = performance.now();
    let worked = false;
    if (run && (playing || single) && !run.ended) {
      due += single ? 1 : SPEEDS[$("speed").value] * (machine.pace || 1);
      while ((due >= 1 || single) && !run.ended) {
        const whole = run.step();
        due -= 1;
        if (single && whole) { play(false); break; }
        if (performance.now() - began > BUDGET) { due = Math.min(due, 0); break; }
      }
      if (run.version === undefined || run.version !== drawn) dirty = true;
      if (run.ended && (playing || single)) play(false);
      tell();
      worked = true;
    }
    if (dirty && run) {
      dirty = false;
      draft();
      worked = true;
    }
    if (worked) {
      works.push(performance.now() - began);
      if (works.length > 300) works.shift();
    }
    requestAnimationFrame(frame);
  }

  function draft() {
    colours = colours || draw.theme();
    const ratio = window.devicePixelRatio || 1;
    drawn = run.version;
    for (const panel of machine.panels) {
      const canvas = $(`panel-${panel.id}`), w = canvas.clientWidth, h = canvas.clientHeight;
      if (!w) continue;
      if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
      const ctx = canvas.getContext("2d");
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
      ctx.clearRect(0, 0, w, h);
      panel.draw(ctx, w, h, colours, run, settings);
      const says = panel.says ? panel.says(run, settings) : "";
      if ($(`says-${panel.id}`).textContent !== says) { $(`says-${panel.id}`).textContent = says; canvas.setAttribute("aria-label", `${panel.title}. ${says}`); }
    }
    tell();
  }

  /* The line of numbers, as often as an eye can follow. */
  function tell() {
    const now = performance.now();
    if ($("status").classList.contains("warn") || (playing && now - told < 120)) return;
    $("status").innerHTML = run.status(); // our own text and numbers
    told = now;
  }

  // --- events -------------------------------------------------------------------------------------------------------------

  for (const [i, m] of machines.entries()) {
    const tab = make("button", {type: "button", role: "tab", id: `tab-${m.id}`, textContent: m.tab, "aria-keyshortcuts": String(i + 1)});
    tab.onclick = () => choose(m, defaults(m));
    $("tabs").append(tab);
  }
  $("tabs").onkeydown = (event) => {
    const to = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!to) return;
    const next = machines[(machines.indexOf(machine) + to + machines.length) % machines.length];
    choose(next, defaults(next));
    $(`tab-${next.id}`).focus();
  };
  $("speed").oninput = () => $("speed").setAttribute("aria-valuetext", `${SPEEDS[$("speed").value]} times`);
  $("controls").onsubmit = (event) => event.preventDefault();
  $("play").onclick = () => {
    if (run && run.ended && !playing) restart();
    play(!playing);
  };
  $("step").onclick = () => { play(false); if (run && !run.ended) single = true; };
  $("reset").onclick = () => { play(false); restart(); };
  $("python").onclick = async () => {
    if (!run) return; // settings that mean no machine mean no command
    const open = $("code").hidden;
    $("code").hidden = !open;
    $("python").setAttribute("aria-expanded", open);
    $("copied").textContent = open ? await copy(showPython()) : "";
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input[type=text], select")) return;
    if (event.key === " " && !event.target.closest("button, input")) { event.preventDefault(); $("play").click(); }
    else if (event.key === "s") $("step").click();
    else if (event.key === "r") $("reset").click();
    else if (/^[1-9]$/.test(event.key) && machines[event.key - 1]) $("tabs").children[event.key - 1].click();
  });
  window.addEventListener("hashchange", fromAddress);
  window.addEventListener("resize", () => { dirty = true; });
  for (const query of ["(prefers-color-scheme: dark)"]) matchMedia(query).addEventListener("change", () => { colours = null; dirty = true; });
  stairwise.page = {run: () => run, settings: () => ({...settings}), machine: () => machine.id, playing: () => playing};
  fromAddress();
  requestAnimationFrame(frame);
})();
