"use strict";
/* The parity machine: samples arrive, and W is what one gradient step on them would make; or several steps, level by level. */
(function () {
  const {parity: theory, draw, random, Series, text} = stairwise;
  const BLOCK = 256, TESTS = 200, AUGMENTED = 32, SIZES = [8, 12, 16, 24, 32, 48, 64], MOST = 2 ** 15;
  const forced = (s) => s.forcing;
  const ROUNDINGS = {none: [0, 0], integers: [1, 0], saturating: [null, 1]};

  class Run {
    constructor(settings) {
      const {d, k, forcing, seed} = settings;
      this.settings = settings;
      this.tree = theory.tree(random(seed).subset(d, k).sort((a, b) => a - b), d);
      this.seen = theory.visible(this.tree, forcing ? "causal" : "block");
      this.start = new Float64Array(this.tree.tokens * this.tree.nodes);
      this.test = theory.drawBlock(random(500 + seed), this.tree, TESTS);
      this.unlabelled = theory.drawBlock(random(700 + seed), this.tree, AUGMENTED);
      this.W = this.start;
      this.number = 0;
      this.ended = false;
      this.series = new Series();
      this.steps = [];
      this.settle();
      this.begin();
      this.keep();
    }
    look(settings) { this.settings = settings; }
    begin() {
      this.draws = random(100 + this.settings.seed); // the same samples in every step
      this.S = new Float64Array(this.start.length);
      this.samples = 0;
    }
    settle() {
      const {tree, seen} = this, eps0 = !forced(this.settings) && this.settings.filter ? 1.5 : 0;
      this.scores = theory.scoresOf(tree, seen, this.W);
      this.gates = theory.gatesOf(tree, seen, this.scores, this.unlabelled, AUGMENTED, eps0);
      this.found = theory.evaluate(tree, seen, this.scores, this.gates, this.test, TESTS);
      this.facts = theory.weights(tree, seen, this.W);
    }
    levels() {
      return Array.from({length: this.tree.levels}, (_, l) => Math.max(...this.found.sup.filter((_, m) => this.tree.height[m] === l + 1)));
    }
    keep() {
      const root = this.found.sup[this.tree.nodes - 1];
      if (forced(this.settings)) this.series.push({samples: Math.max(this.samples, 1), ...this.facts, root});
      else this.steps.push(this.levels());
    }
    /* W after one gradient step on the samples so far. */
    stepped(from, scores) {
      const gradient = theory.gradient(this.tree, scores, this.S, this.samples), eta = theory.learningRate(this.tree, this.seen, this.settings.lam);
      const [spacing, bound] = forced(this.settings) ? [0, 0] : ROUNDINGS[this.settings.rounding];
      return theory.quantise(from.map((w, i) => w - eta * gradient[i]), spacing === null ? this.settings.lam : spacing, bound);
    }
    step() {
      boundary.step();
      const {n, forcing} = this.settings, size = Math.min(n - this.samples, !forcing ? BLOCK : this.samples < 256 ? 32 : this.samples < 4096 ? 64 : 128);
      const x = theory.drawBlock(this.draws, this.tree, size);
      if (forcing) {
        theory.forcedAtZero(this.tree, this.seen, x, size, this.S);
        this.samples += size;
        this.ended = this.samples >= n;
        this.W = this.stepped(this.start, theory.scoresOf(this.tree, this.seen, this.start));
        this.settle();
        this.keep();
        return true;
      }
      theory.generated(this.tree, this.seen, this.scores, this.gates, x, size, this.S);
      this.samples += size;
      if (this.samples < n) return false;
      this.W = this.stepped(this.W, this.scores);
      this.number++;
      this.settle();
      this.keep();
      this.begin();
      this.ended = this.number > this.tree.levels;
      return true;
    }
    get version() { return `${this.number}/${forced(this.settings) ? this.samples : ""}/${boundary.found.length}`; }
    get solved() { return this.found.sup[this.tree.nodes - 1] < 0.5; }
    status() {
      const right = Math.round(100 * this.found.accuracy[this.tree.nodes - 1]);
      if (forced(this.settings)) return `one step on <b>${text(this.samples)}</b> samples · ${Math.round(100 * this.facts.support)} % of the nodes found their children · parity right on <b>${right} %</b> of fresh inputs`;
      const open = this.gates.filter(Boolean).length, solved = this.levels().filter((sup) => sup < 0.5).length;
      return `after step <b>${this.number}</b>: ${solved} of ${this.tree.levels} levels solved, ${open} open · ${text(this.samples)} of ${text(this.settings.n)} samples of the next · parity right on <b>${right} %</b>`;
    }
  }

  /* The success boundary, measured on the side: one run after another at k = d/2, a block of samples per step of the machine. */
  const boundary = {
    found: [], turn: 0, run: null,
    step() {
      if (this.found.length >= 6 * SIZES.length) return;
      if (!this.run) {
        const d = SIZES[this.turn % SIZES.length], t = theory.tree(random(900 + this.turn).subset(d, d / 2).sort((a, b) => a - b), d);
        const seen = theory.visible(t, "causal"), start = new Float64Array(t.tokens * t.nodes);
        this.run = {d, t, seen, scores: theory.scoresOf(t, seen, start), S: start.slice(), samples: 0, draws: random(40 + this.turn), since: null};
        this.turn++;
      }
      const own = this.run, size = own.samples < 512 ? 32 : 128;
      theory.forcedAtZero(own.t, own.seen, theory.drawBlock(own.draws, own.t, size), size, own.S);
      own.samples += size;
      const W = theory.gradient(own.t, own.scores, own.S, own.samples).map((g) => -g);
      const whole = theory.weights(own.t, own.seen, W).support === 1;
      own.since = whole ? own.since || own.samples : null;
      if ((own.since && own.samples > 1.5 * own.since) || own.samples >= MOST) { // it stays found
        this.found.push([own.d, own.since || own.samples]);
        this.run = null;
      }
    },
  };

  // --- drawing ----------------------------------------------------------------------------------------------------------------------

  function drawTree(ctx, w, h, t, run) {
    const {tree, scores} = run, {d, nodes, levels} = tree, foot = h - 24, place = [];
    for (let j = 0; j < d; j++) place.push([14 + ((w - 28) * (j + 0.5)) / d, foot]);
    const order = [];
    for (let m = 0; m < nodes; m++) {
      const [a, b] = tree.children[m];
      order.push([(place[a][0] + place[b][0]) / 2, foot - (tree.height[m] * (foot - 34)) / levels]);
      place.push(order[m]);
    }
    ctx.lineCap = "round";
    for (let m = 0; m < nodes; m++) {
      const [x, y] = place[d + m], own = tree.children[m], open = run.gates[tree.height[m] - 1];
      for (const pass of [0, 1])
        for (let j = 0; j < run.seen[m]; j++) {
          const s = scores[j * nodes + m], mine = own.includes(j);
          if (mine !== Boolean(pass) || s < 0.02) continue;
          ctx.strokeStyle = mine ? t.a : t.b;
          ctx.globalAlpha = (open ? 1 : 0.25) * Math.min(1, mine ? 0.12 + 1.8 * s : 1.6 * s);
          ctx.lineWidth = 0.8 + 6 * s;
          ctx.beginPath(); ctx.moveTo(x, y); ctx.quadraticCurveTo(x, (y + place[j][1]) / 2, place[j][0], place[j][1]); ctx.stroke();
        }
    }
    ctx.globalAlpha = 1;
    const leaves = new Set(tree.children.flat().filter((j) => j < d));
    for (let j = 0; j < d; j++) {
      ctx.beginPath(); ctx.arc(place[j][0], place[j][1], leaves.has(j) ? 5 : 3, 0, 7);
      ctx.fillStyle = leaves.has(j) ? t.ink : t.line; ctx.fill();
    }
    for (let m = 0; m < nodes; m++) {
      const right = run.found.sup[m] < 0.5, size = Math.min(10, 4 + 90 / nodes);
      ctx.beginPath(); ctx.arc(place[d + m][0], place[d + m][1], size, 0, 7);
      ctx.fillStyle = t.card; ctx.fill();
      ctx.globalAlpha = run.gates[tree.height[m] - 1] ? 1 : 0.35;
      ctx.fillStyle = right ? t.good : t.card; ctx.strokeStyle = right ? t.good : t.soft; ctx.lineWidth = 2;
      ctx.fill(); ctx.stroke(); ctx.globalAlpha = 1;
    }
    draw.label(ctx, t, w > 480 ? `${d} input bits, the ${tree.k} secret ones marked` : `${tree.k} of ${d} bits secret`, 4, h - 6, {color: t.soft});
    draw.label(ctx, t, run.solved ? "parity solved" : `largest error ${text(Number(run.found.sup[nodes - 1].toFixed(2)))}`, w - 4, h - 6, {align: "right", weight: 650, color: run.solved ? t.good : t.bad});
  }

  function drawWeights(ctx, w, h, t, run, s) {
    const {tree, W} = run, n = tree.nodes, left = 8, top = 6, cell = Math.min((w - 16) / tree.tokens, (h - 34) / n), high = Math.min((h - 34) / n, cell * 3);
    const wide = (w - 16) / tree.tokens;
    draw.heat(ctx, t, n, tree.tokens, (m, j) => (j < run.seen[m] ? W[j * n + m] / s.lam : 0), left, top, wide * tree.tokens, high * n);
    ctx.strokeStyle = t.line; ctx.lineWidth = 1; ctx.strokeRect(left - 0.5, top - 0.5, wide * tree.tokens + 1, high * n + 1);
    ctx.beginPath(); ctx.moveTo(left + tree.d * wide, top); ctx.lineTo(left + tree.d * wide, top + high * n); ctx.stroke();
    ctx.strokeStyle = t.ink; ctx.lineWidth = 1.3;
    tree.children.forEach((pair, m) => pair.forEach((j) => {
      ctx.beginPath(); ctx.ellipse(left + (j + 0.5) * wide, top + (m + 0.5) * high, Math.max(3.5, wide * 0.56), Math.max(3.5, high * 0.52), 0, 0, 7); ctx.stroke();
    }));
    draw.label(ctx, t, "inputs", left + (tree.d * wide) / 2, top + high * n + 12, {align: "center", color: t.soft});
    draw.label(ctx, t, "nodes", left + (tree.d + n / 2) * wide, top + high * n + 12, {align: "center", color: t.soft});
  }

  function drawProgress(ctx, w, h, t, run, s) {
    if (!forced(s)) {
      const colours = [t.a, t.c, t.e, t.b, t.d];
      draw.chart(ctx, w, h, t, {x: {low: 0, high: run.tree.levels + 1, label: "gradient steps", ticks: Array.from({length: run.tree.levels + 2}, (_, i) => i)}, y: {low: -0.05, high: 2.1, ticks: [0, 0.5, 1, 1.5, 2]},
        marks: [{y: 0.5, name: "solved below", color: t.soft}, ...Array.from({length: run.tree.levels}, (_, l) => ({x: l + 1, color: t.line}))],
        lines: Array.from({length: run.tree.levels}, (_, l) => ({points: run.steps.map((row, i) => [i, row[l] + 0.012 * l]), color: colours[l % 5], width: 2.6, head: true, name: `level ${l + 1}`}))});
      return;
    }
    const V = run.seen[run.tree.nodes - 1], n = run.tree.nodes, need = theory.supportSamples(V, n), predicted = [], most = Math.sqrt(2 * Math.log(V * n));
    for (let x = 32; x <= s.n; x *= 1.25) predicted.push([x, s.lam * theory.noise(V, x) * most]);
    draw.chart(ctx, w, h, t, {x: {low: 32, high: s.n, log: true, label: "samples n of the one step"}, y: {low: 0, high: s.lam * 2.2},
      marks: [{y: s.lam, name: `λ = ${s.lam}`, color: t.a}, ...(need < s.n ? [{x: need, name: "children found: predicted", color: t.soft}] : [])],
      lines: [
        {points: predicted, color: t.b, dash: [6, 5], width: 1.8, name: "predicted noise"},
        {points: run.series.points("samples", "other"), color: t.b, width: 2.6, head: true, name: "largest other weight"},
        {points: run.series.points("samples", "lowest"), color: t.a, width: 2.6, head: true, name: "least weight of a child"},
      ]});
  }

  function drawBoundary(ctx, w, h, t, run, s) {
    const law = [];
    for (let d = 8; d <= 64; d++) law.push([d, theory.supportSamples(d + d / 2 - 2, d / 2 - 1)]);
    const here = [[s.d, Math.max(64, forced(s) ? run.samples || 64 : s.n)]];
    draw.chart(ctx, w, h, t, {x: {low: 7, high: 68, log: true, ticks: [8, 16, 32, 64], label: "bits d"}, y: {low: 24, high: 65536, log: true},
      lines: [{points: law, color: t.ink, dash: [6, 5], width: 2, name: "predicted"}],
      dots: [{points: boundary.found, color: t.c, size: 4, name: "measured, k = d/2"}, {points: here, color: run.facts.support === 1 ? t.a : t.b, size: 6, name: "you"}]});
  }

  // --- the machine -------------------------------------------------------------------------------------------------------------------

  stairwise.machines.push({
    id: "parity", tab: "Parity", title: "A parity, learned in one gradient step", speed: 2,
    lead: "The product of k secret bits among d cannot be learned from its answer alone. Told as a <b>tree of products of two</b>, it can: with teacher forcing, <b>one gradient step</b> from zero puts the two children of every node above all other tokens, once there are enough samples. Without it, the levels fall <b>one by one</b>, if a filter keeps the upper ones quiet until the lower ones are right.",
    controls: [
      {name: "forcing", label: "teacher forcing", kind: "check", value: true},
      {name: "d", label: "bits d", values: SIZES, value: 32},
      {name: "k", label: "secret bits k", values: [2, 4, 8, 12, 16, 24, 32], value: 16},
      {name: "n", label: "samples n", values: [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144], value: 16384},
      {name: "lam", label: "logit λ of a child", low: 1, high: 14, step: 0.1, value: 9, show: (v) => v.toFixed(1)},
      {name: "filter", label: "filter that closes uninformative levels", kind: "check", value: true, when: (s) => !forced(s)},
      {name: "rounding", label: "weights are rounded to", kind: "choice", options: [["none", "nothing"], ["integers", "integers"], ["saturating", "0 and ±λ"]], value: "saturating", when: (s) => !forced(s)},
      {name: "seed", label: "secret and samples number", low: 1, high: 9, value: 1},
    ],
    presets: [
      {name: "One step finds the tree", set: {}, says: "W after one step on the samples so far. Noise shrinks as √(2V/n); when the children of every node stand above it, the whole chain of thought is right at once."},
      {name: "Without forcing, level by level", set: {forcing: false, d: 32, k: 16, n: 16384, lam: 10}, says: "The model now reads its own chain. The filter keeps a level at 0 until the one below is informative, so each step solves one level more."},
      {name: "Too few samples", breaks: true, set: {n: 1024}, says: "The theorem asks for n of order d²⁺ᵉ. With 1,024 samples some child is below the noise, its product is wrong, and so is everything above it."},
      {name: "Too small a step", breaks: true, set: {lam: 2}, says: "With logit 2 the children get little of the softmax: the rest leaks to 40 other tokens, and errors grow from level to level."},
      {name: "No filter, no rounding", breaks: true, set: {forcing: false, filter: false, rounding: "none", lam: 10}, says: "All levels train at once, the upper ones on nonsense from below. Noise stays in the weights, and after five steps no level is solved."},
      {name: "Integers on too few samples", breaks: true, set: {forcing: false, d: 16, k: 8, n: 32768, lam: 9.1, rounding: "integers"}, says: "Rounding to integers hides the noise only if it is below a half. On 32,768 samples it is not; on 262,144 it is."},
    ],
    panels: [
      {id: "tree", title: "Where each node looks", size: "broad", height: 320, draw: drawTree, says: () => "Blue: attention to the two children. Orange: attention elsewhere. A green node is right on fresh inputs."},
      {id: "progress", title: "Progress", size: "narrow", height: 320, draw: drawProgress, says: (_, s) => (forced(s) ? "Children must stand above the noise." : "Largest error of each level.")},
      {id: "matrix", title: "The weight matrix", size: "broad", height: 260, draw: drawWeights, says: () => "One row per node, one column per token it may look at. The children are circled."},
      {id: "boundary", title: "The success boundary", size: "narrow", height: 260, draw: drawBoundary, says: () => "Samples that find all children; dashed to leading order."},
    ],
    settle: (s) => ({...s, k: s.k <= s.d ? s.k : Math.max(...[2, 4, 8, 12, 16, 24, 32].filter((k) => k <= s.d))}),
    make: (s) => new Run(s),
    python: (s) => {
      const subset = theory.tree(random(s.seed).subset(s.d, s.k).sort((a, b) => a - b), s.d).children.flat().filter((j) => j < s.d).sort((a, b) => a - b).join();
      const common = `--task.bits ${s.d} --task.size ${s.k} --task.secret ${subset} --samples ${s.n} --block ${Math.min(s.n, 4096)} --rate.lam ${s.lam}`;
      if (forced(s)) return {says: "The same step for the same secret, on other samples:", code: `stairwise run parity_onestep/onestep ${common}`};
      const [spacing, bound] = ROUNDINGS[s.rounding];
      const levels = theory.tree(Array.from({length: s.k}, (_, i) => i), s.d).levels;
      return {says: "The same steps for the same secret, on other samples:", code: `stairwise run parity_onestep/staircase ${common} --steps ${levels + 1} --quantiser.spacing ${spacing === null ? s.lam : spacing} --quantiser.bound ${bound} --augmentation.eps0 ${s.filter ? 1.5 : 0}`};
    },
  });
})();
