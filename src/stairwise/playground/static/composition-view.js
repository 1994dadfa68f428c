"use strict";
/* The composition machine: single gradient steps on large batches, and attention as arrows between letters. */
(function () {
  const {composition: theory, draw, random, text} = stairwise;
  const CHUNK = 8, TESTS = 8, BETA0 = 1;
  const NAMES = {curriculum: "Algorithm 1", mixture: "Algorithm 2", alone: "longest hop only"};
  const layersOf = (k) => Math.round(Math.log2(k)) + 1;
  const rateOf = (s) => Number(theory.rateFor(s.k, s.N, BETA0, s.logit).toPrecision(3));
  const hiddenOf = (s) => theory.drawSequence(random(s.seed), s.k, s.N);

  /* The gradient steps in order: [name, heads whose losses count, whether it moves readouts, number of its batch]. */
  function plan(s) {
    const L = layersOf(s.k), heads = Array.from({length: L}, (_, h) => h);
    if (s.algorithm === "curriculum") return heads.flatMap((h) => [[`KQ${h + 1}`, [h], false, h], [`Ψ${h + 1}`, [h], true, h]]);
    const chosen = s.algorithm === "alone" ? [L - 1] : heads, steps = heads.map((h) => [`KQ${h + 1}`, chosen, false, h]);
    return s.algorithm === "alone" ? [...steps, [`KQ${L + 1}`, chosen, false, L]] : [...steps, ["Ψ", heads, true, L - 1]];
  }

  class Run {
    constructor(settings) {
      const {k, N, seed} = settings;
      this.settings = settings;
      this.hidden = hiddenOf(settings);
      this.model = new theory.Model(k, N, BETA0);
      this.plan = plan(settings);
      this.tests = Array.from({length: TESTS}, (_, i) => theory.drawSequence(random(300 + i), k, N));
      this.shown = theory.drawSequence(random(77 + seed), k, N);
      this.number = 0;
      this.moved = [];
      this.ended = false;
      this.measures = [];
      this.measure();
      this.begin();
    }
    look(settings) { this.settings = settings; }
    begin() { this.samples = 0; this.draws = random(1000 * this.settings.seed + (this.ended ? 0 : this.plan[this.number][3])); }
    measure() {
      this.measures.push(theory.evaluate(this.model, this.hidden, this.tests));
      this.model.stream(this.shown);
      this.attention = this.model.S.map((S) => S.slice());
    }
    step() {
      const {k, N, M} = this.settings, [, heads, readouts] = this.plan[this.number], {model, hidden} = this;
      for (let i = 0; i < CHUNK && this.samples < M; i++, this.samples++) {
        const sequence = theory.drawSequence(this.draws, k, N), query = this.draws.below(k * N), labels = [];
        for (const h of heads) labels[h] = theory.hop(hidden, sequence, 2 ** h)[query];
        if (readouts) model.learnReadouts(sequence, query, labels, heads);
        else model.learnKeys(sequence, query, labels, heads);
      }
      if (this.samples < M) return false;
      const moved = model.take(rateOf(this.settings), M, readouts);
      this.moved.push(readouts ? null : moved);
      this.number++;
      this.ended = this.number >= this.plan.length;
      this.measure();
      this.begin();
      return true;
    }
    get version() { return this.number; }
    get latest() { return this.measures[this.measures.length - 1]; }
    /* The layer to show: the chosen one, or the one that the last key-query step moved most. */
    get layer() {
      const {layer, algorithm} = this.settings, {L} = this.model;
      if (layer > 0) return Math.min(layer, L) - 1;
      if (algorithm === "alone") return L - 1;
      const steps = this.moved.filter(Boolean);
      return Math.min(L, Math.max(1, steps.length)) - 1;
    }
    status() {
      const heads = this.latest.map((m, l) => `${2 ** l} hop${l ? "s" : ""} ${Math.round(100 * m.accuracy)} %`).join(" · ");
      const now = this.ended ? "done" : `gradient of <b>${this.plan[this.number][0]}</b> on ${text(this.samples)} of ${text(this.settings.M)} samples`;
      return `${now} · right: <b>${heads}</b>`;
    }
  }

  // --- drawing ------------------------------------------------------------------------------------------------------------------------

  function drawGraph(ctx, w, h, t, run, s) {
    const {k, N} = s, T = k * N, layer = run.layer, S = run.attention[layer], keys = theory.rightKeys(run.hidden, run.shown, layer);
    const place = (q) => [w * ((Math.floor(q / N) + 0.5) / k), 46 + (h - 86) * ((q % N) + 0.5) / N];
    const size = Math.min(17, (h - 90) / N / 3, w / k / 5), colour = [t.a, t.c, t.d, t.e][layer % 4];
    for (let i = 0; i < k; i++) {
      const [x] = place(i * N), wide = Math.min(w / k - 10, 2 * size + 44);
      ctx.fillStyle = t.line; ctx.globalAlpha = 0.45;
      ctx.beginPath(); if (ctx.roundRect) ctx.roundRect(x - wide / 2, 30, wide, h - 62, 14); else ctx.rect(x - wide / 2, 30, wide, h - 62);
      ctx.fill(); ctx.globalAlpha = 1;
      draw.label(ctx, t, `block ${i + 1}`, x, 16, {align: "center", color: t.soft});
    }
    ctx.lineCap = "round";
    for (let q = 0; q < T; q++)
      for (let p = 0; p < T; p++) {
        const weight = S[q * T + p];
        if (weight < 0.03) continue;
        const [x0, y0] = place(q), [x1, y1] = place(p), right = keys[q] === p, bend = x0 === x1 ? (y1 > y0 ? 1 : -1) * Math.min(60, 20 + Math.abs(y1 - y0) * 0.35) : 0;
        const lift = x1 < x0 ? 0.22 * (x0 - x1) * (y0 > h / 2 ? 1 : -1) : 0, cx = (x0 + x1) / 2 + bend, cy = (y0 + y1) / 2 + lift * 0.5;
        ctx.globalAlpha = Math.min(1, weight < 0.2 ? weight * 1.4 : weight);
        ctx.strokeStyle = ctx.fillStyle = right ? colour : t.b;
        ctx.lineWidth = 0.7 + 2.6 * weight;
        if (q === p) {
          ctx.beginPath(); ctx.arc(x0 + size * 1.25, y0 - size * 0.6, size * 0.8, 0, 7); ctx.stroke();
          continue;
        }
        const angle = Math.atan2(y1 - cy, x1 - cx), ex = x1 - Math.cos(angle) * (size + 3), ey = y1 - Math.sin(angle) * (size + 3);
        ctx.beginPath(); ctx.moveTo(x0, y0); ctx.quadraticCurveTo(cx, cy, ex, ey); ctx.stroke();
        if (weight > 0.25) {
          const tip = 4 + 4 * weight;
          ctx.beginPath(); ctx.moveTo(ex, ey);
          ctx.lineTo(ex - tip * Math.cos(angle - 0.5), ey - tip * Math.sin(angle - 0.5));
          ctx.lineTo(ex - tip * Math.cos(angle + 0.5), ey - tip * Math.sin(angle + 0.5)); ctx.fill();
        }
      }
    ctx.globalAlpha = 1;
    for (let q = 0; q < T; q++) {
      const [x, y] = place(q);
      ctx.beginPath(); ctx.arc(x, y, size, 0, 7);
      ctx.fillStyle = t.card; ctx.fill(); ctx.strokeStyle = t.ink; ctx.lineWidth = 1.5; ctx.stroke();
      draw.label(ctx, t, "abcdefgh"[q % N], x, y + 0.5, {align: "center", size: Math.max(10, size * 0.95), weight: 600});
    }
    const right = run.latest[layer].right;
    draw.label(ctx, t, w < 480 ? `layer ${layer + 1} of ${run.model.L}` : `layer ${layer + 1} of ${run.model.L}: ${layer ? `looks ${2 ** (layer - 1)} block${layer > 1 ? "s" : ""} on` : "looks within its block"}`, 4, h - 12, {color: colour, weight: 650, size: 13});
    draw.label(ctx, t, `${Math.round(100 * right)} % on the right key`, w - 4, h - 12, {align: "right", weight: 650, size: 13, color: right > 0.5 ? t.good : t.bad});
  }

  function drawLoss(ctx, w, h, t, run, s) {
    const colours = [t.a, t.c, t.d, t.e], high = Math.log(s.N) * 1.25, names = ["start", ...run.plan.map((p) => p[0])];
    draw.chart(ctx, w, h, t, {
      x: {low: 0, high: run.plan.length, ticks: names.map((_, i) => i), show: (i) => names[i], label: "after gradient step"}, y: {low: -0.03, high},
      marks: [{y: Math.log(s.N), name: "knows nothing: log N", color: t.soft}, {y: theory.plateau(s.N, BETA0), name: "layer learned, readout not", color: t.soft}],
      lines: run.model.W.map((_, l) => ({points: run.measures.map((m, i) => [i, Math.min(high * 1.2, m[l].loss) + 0.006 * l]), color: colours[l % 4], width: 2.6, head: true, name: `${2 ** l} hop${l ? "s" : ""}`})),
    });
  }

  function drawMaps(ctx, w, h, t, run, s) {
    const {L, T} = run.model, gap = 18, side = Math.min((w - 12 - gap * (L - 1)) / L, h - 44), left = (w - L * side - gap * (L - 1)) / 2, top = 24;
    run.attention.forEach((S, l) => {
      const x = left + l * (side + gap), keys = theory.rightKeys(run.hidden, run.shown, l), cell = side / T, colour = [t.a, t.c, t.d, t.e][l % 4];
      draw.heat(ctx, {...t, a: colour}, T, T, (p, q) => Math.sqrt(S[q * T + p]), x, top, side, side);
      ctx.strokeStyle = t.line; ctx.lineWidth = 1; ctx.strokeRect(x - 0.5, top - 0.5, side + 1, side + 1);
      ctx.strokeStyle = t.ink; ctx.globalAlpha = 0.55;
      for (let q = 0; q < T; q++) { ctx.beginPath(); ctx.arc(x + (q + 0.5) * cell, top + (keys[q] + 0.5) * cell, Math.max(2, cell * 0.62), 0, 7); ctx.stroke(); }
      ctx.globalAlpha = 1;
      draw.label(ctx, t, `layer ${l + 1}, hop ${2 ** l}`, x + side / 2, 11, {align: "center", weight: 600, color: colour});
    });
    draw.label(ctx, t, "query →", left + side / 2, top + side + 13, {align: "center", color: t.soft});
  }

  function drawMoves(ctx, w, h, t, run, s) {
    const colours = [t.a, t.c, t.d, t.e], steps = run.moved.map((m, i) => [m, run.plan[i][0]]).filter(([m]) => m);
    const all = run.plan.filter((p) => !p[2]), {L} = run.model;
    const {sx, sy, box} = draw.chart(ctx, w, h, t, {x: {low: 0.4, high: all.length + 0.6, ticks: all.map((_, i) => i + 1), show: (i) => all[i - 1][0], label: "key-query step"}, y: {low: 0.01, high: 1000, log: true},
      marks: [{y: s.logit, name: "predicted for the layer learned", color: t.ink}], lines: run.model.W.map((_, l) => ({points: [], color: colours[l % 4], name: `layer ${l + 1}`}))});
    const wide = Math.min(26, (sx(2) - sx(1)) / (L + 1));
    steps.forEach(([moved], i) => moved.forEach((size, l) => {
      if (!(size > 0.01)) return;
      const x = sx(i + 1) + (l - L / 2) * wide, y = sy(Math.min(size, 1000));
      ctx.fillStyle = colours[l % 4];
      ctx.beginPath(); if (ctx.roundRect) ctx.roundRect(x, y, wide - 3, box.bottom - y, [4, 4, 0, 0]); else ctx.rect(x, y, wide - 3, box.bottom - y);
      ctx.fill();
    }));
  }

  // --- the machine ---------------------------------------------------------------------------------------------------------------------

  stairwise.machines.push({
    id: "composition", tab: "Composition", title: "Composing permutations, hop by hop", speed: 3, pace: 12,
    lead: "Each of k blocks shows a permutation σᵢ; a hidden πᵢ is applied before it. To follow k hops takes 1 + log₂ k layers, each looking twice as far as the last. From the longest hop alone <b>gradients see nothing</b>. A <b>curriculum</b> of shorter hops, or a <b>mixture</b> of all, teaches one layer per gradient step.",
    controls: [
      {name: "algorithm", label: "train on", kind: "choice", options: [["curriculum", "a curriculum"], ["mixture", "a mixture"], ["alone", "longest hop"]], value: "curriculum"},
      {name: "layer", label: "layer shown", values: [0, 1, 2, 3, 4], value: 0, live: true, show: (v) => (v ? `layer ${v}` : "the latest")},
      {name: "k", label: "blocks k", values: [2, 4, 8], value: 4},
      {name: "N", label: "letters N", low: 3, high: 5, value: 4},
      {name: "M", label: "samples M per step", values: [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768], value: 8192},
      {name: "logit", label: "size of a step, in logits", values: [1, 2, 5, 10, 40, 100, 400], value: 40, show: (v, s) => `${v} (η = ${text(rateOf(s))})`},
      {name: "seed", label: "hidden permutations number", low: 1, high: 9, value: 1},
    ],
    presets: [
      {name: "Algorithm 1, head by head", set: {}, says: "One step on the loss of 1 hop, one on its readout; then 2 hops, then 4. Each step turns one layer's fog of attention into one arrow per letter."},
      {name: "Algorithm 2, layer by layer", set: {algorithm: "mixture"}, says: "All losses at once, and still each step moves only one layer: the others' gradients are zero until the layer below is sharp."},
      {name: "4 hops alone", breaks: true, set: {algorithm: "alone"}, says: "Only the loss of the longest hop. Averaged over what lies between, the labels say nothing about any single π, so no step finds the right keys."},
      {name: "Too few samples", breaks: true, set: {M: 256}, says: "The margin over the noise is √((N−1)M / 2(l+1)²kN): about one standard deviation for the third layer at M = 256. Wrong keys win."},
      {name: "Small steps", breaks: true, set: {logit: 2}, says: "The algorithms take steps large enough to saturate the softmax. With 2 logits attention stays soft, and what is copied is a blur."},
    ],
    panels: [
      {id: "graph", title: "Attention on the hop graph", size: "broad", height: 360, draw: drawGraph, says: () => "An arrow is attention from a letter to a letter; orange ones point to wrong keys."},
      {id: "heads", title: "Loss of each hop", size: "narrow", height: 360, draw: drawLoss, says: () => "On fresh sequences; dotted lines are predicted."},
      {id: "maps", title: "Attention of every layer", size: "broad", height: 250, draw: drawMaps, says: () => "Keys by queries on one sequence; circles are the right keys."},
      {id: "moves", title: "How far a step moves each layer", size: "narrow", height: 250, draw: drawMoves, says: (run, s) => `Margin over noise predicted: ${run.model.W.map((_, l) => text(theory.marginOverNoise(s.k, s.N, s.M, l + 1))).join(", ")} by layer.`},
    ],
    make: (s) => new Run(s),
    python: (s) => {
      const rows = JSON.stringify(hiddenOf(s)), call = s.algorithm === "alone" ? "" : `descent.${s.algorithm}(hidden, samples=${s.M}, rate=${rateOf(s)}, beta0=${BETA0}.0, seed=0)`;
      const body = s.algorithm === "alone"
        ? `    model = descent.start(hidden, ${BETA0}.0)
    for step in range(${layersOf(s.k) + 1}):
        examples = exact.batch(hidden, model.layers, ${s.M}, np.random.default_rng(step))
        model, moved = descent.key_query_step(model, examples, ${rateOf(s)}, model.layers)
        print(moved)`
        : `    for step in ${call}:
        print(step.name, step.moved)`;
      const command = s.algorithm === "alone" ? "" : `

# stairwise run composition/${s.algorithm} --path exact --task.blocks ${s.k} --task.alphabet ${s.N} --task.hidden ${hiddenOf(s).flat().join()} --samples ${s.M} --block ${Math.min(s.M, 512)} --learning_rate ${rateOf(s)}`;
      return {says: "The same steps with the same hidden permutations, on other samples:", code: `import jax
import numpy as np
from stairwise.papers.composition.theory import descent, exact

hidden = np.array(${rows})
with jax.enable_x64(True):
${body}${command}`};
    },
  });
})();
