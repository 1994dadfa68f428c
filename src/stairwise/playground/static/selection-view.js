"use strict";
/* The selection machine: what its settings are, how it trains, what is drawn. */
(function () {
  const {selection: theory, draw, random, Series, text} = stairwise;
  const RATIOS = [1, 1.25, 1.5, 1.75, 2, 2.5, 3], LAST = 1e6, TESTS = 32, PAIRS = 60;
  const testLength = (s) => Math.round(s.T * s.test);
  const isFlow = (s) => s.mode === "flow";
  const poolName = (pool) => (pool === 0 ? "fresh every step" : pool === 1 ? "fixed" : `pool of ${pool}`);

  // --- training -----------------------------------------------------------------------------------------------------------

  class FlowRun {
    constructor(settings) {
      this.task = {T: settings.T, q: settings.q, d: settings.d};
      this.flow = new theory.Flow(this.task);
      this.series = new Series();
      this.reached = null;
      this.look(settings);
      this.flow.to(0.1);
      this.keep();
    }
    look(settings) { this.settings = settings; this.tested = {...this.task, T: testLength(settings)}; this.epsilon = settings.epsilon; }
    get loss() { return theory.loss(this.task, this.flow.alpha, this.flow.C); }
    keep() {
      const {time, alpha, C} = this.flow;
      this.series.push({time, alpha, C, loss: this.loss});
      if (this.reached === null && this.loss <= this.epsilon) this.reached = time;
    }
    step() { this.flow.to(Math.min(LAST, this.flow.time * 1.03)); this.keep(); return true; }
    get ended() { return this.flow.time >= LAST; }
    status() {
      const {time, alpha, C} = this.flow, ratio = this.loss / theory.lateLaw(this.task, time);
      return `time ηt <b>${text(time)}</b> · loss <b>${text(this.loss)}</b>, ${text(ratio)} × the law (T−1)/4ηt · α ${text(alpha)} · C ${text(C)}`;
    }
  }

  class SampleRun {
    constructor(settings) {
      const {T, q, d, width, pool, compare} = settings;
      this.task = {T, q, d};
      this.data = random(1);
      this.longest = Math.round(T * RATIOS[RATIOS.length - 1]);
      this.tests = RATIOS.map((ratio, i) => {
        const own = random(100 + i), length = Math.round(T * ratio);
        return {length, E: theory.encodings(own, length, width), examples: Array.from({length: TESTS}, () => theory.drawExample(own, {T: length, q, d}))};
      });
      const pools = compare && pool !== 1 ? [pool, 1] : [pool];
      this.arms = pools.map((own, i) => ({
        pool: own, name: poolName(own), colour: own === 1 ? "b" : "a",
        model: new theory.Attention(d, width), draws: random(7 + i), series: new Series(),
        sets: Array.from({length: own}, (_, j) => theory.encodings(random(1000 + j), this.longest, width)),
        byLength: RATIOS.map(() => NaN), recent: NaN,
      }));
      this.law = theory.overlaps(random(3), this.task, width, PAIRS);
      this.alpha = this.C = 0; // as the population has them
      this.predicted = new Series();
      this.time = 0;
      this.turn = 0;
      this.look(settings);
      this.predict();
      for (let i = 0; i < RATIOS.length; i++) this.measure(i);
    }
    look(settings) { this.settings = settings; this.place = RATIOS.indexOf(settings.test); this.picture = null; if (this.arms.every((arm) => arm.series.rows.length)) this.measure(this.place); }
    encodingsOf(arm) {
      if (arm.pool === 0) return theory.encodings(arm.draws, this.task.T, this.settings.width);
      return arm.sets[arm.pool === 1 ? 0 : arm.draws.below(arm.pool)];
    }
    /* A fixed set is tried on its own longer prefix, everything else on a set that it has never seen. */
    testSet(arm, i) { return arm.pool === 1 ? arm.sets[0] : this.tests[i].E; }
    measure(i) {
      for (const arm of this.arms) arm.byLength[i] = theory.testLoss(arm.model, this.tests[i].examples, this.testSet(arm, i), this.tests[i].length);
      if (i === this.place) for (const arm of this.arms) arm.series.push({time: Math.max(1, this.time), loss: arm.recent, test: arm.byLength[i]});
    }
    /* The two scalars of the exact population with fresh encodings: the prediction for the arm that sees them. */
    predict() {
      const {loss, value, attention} = theory.lossAveraged(this.task, this.settings.width, this.law, this.alpha, this.C);
      this.predicted.push({time: Math.max(1, this.time), loss});
      this.alpha += this.settings.rate * value;
      this.C += this.settings.rate * attention;
    }
    step() {
      const examples = Array.from({length: this.settings.batch}, () => theory.drawExample(this.data, this.task));
      for (const arm of this.arms) {
        const cost = arm.model.descend(examples, this.encodingsOf(arm), this.task.T, this.settings.rate);
        arm.recent = Number.isNaN(arm.recent) ? cost : 0.9 * arm.recent + 0.1 * cost;
      }
      this.time++;
      this.predict();
      if (this.time % 4 === 0) this.measure(this.turn++ % 2 ? this.place : (this.turn >> 1) % RATIOS.length);
      else for (const arm of this.arms) arm.series.push({time: this.time, loss: arm.recent, test: arm.byLength[this.place]});
      return true;
    }
    get ended() { return this.time >= 20000 || !this.arms.every((arm) => this.time === 0 || Number.isFinite(arm.recent)); }
    status() {
      if (this.time && this.ended && this.time < 20000) return `step <b>${text(this.time)}</b> · the loss has diverged: the learning rate is too large`;
      const arms = this.arms.map((arm) => `${arm.name}: ${text(arm.recent)} at T, <b>${text(arm.byLength[this.place])}</b> at ${this.tests[this.place].length}`);
      return `step <b>${text(this.time)}</b> · loss ${arms.join(" · ")}`;
    }
  }

  // --- drawing --------------------------------------------------------------------------------------------------------------

  function drawLoss(ctx, w, h, t, run, s) {
    const nothing = s.d / (2 * s.q);
    if (isFlow(s)) {
      const law = [], other = run.series.rows.map(({time, alpha, C}) => [time, theory.loss(run.tested, alpha, C)]);
      for (let time = 1; time <= LAST; time *= 1.5) law.push([time, theory.lateLaw(run.task, time)]);
      const sharp = (s.T - 1) / (4 * s.epsilon);
      draw.chart(ctx, w, h, t, {
        x: {low: 0.1, high: LAST, log: true, label: "time ηt"}, y: {low: 5e-6, high: 2 * nothing, log: true},
        lines: [
          {points: law, color: t.soft, dash: [6, 5], name: "the law (T−1)/4ηt", width: 1.8},
          {points: other, color: t.b, name: `tested at ${run.tested.T} tokens`, head: true},
          {points: run.series.points("time", "loss"), color: t.a, name: `trained at ${s.T} tokens`, width: 3, head: true},
        ],
        marks: [{y: s.epsilon, name: `ε = ${text(s.epsilon)}`, color: t.c, left: true}, ...(sharp < LAST ? [{x: sharp, color: t.c, name: `(T−1)/4ε`}] : [])],
      });
      return;
    }
    const fresh = run.arms.some((arm) => arm.pool === 0);
    draw.chart(ctx, w, h, t, {
      x: {low: 1, high: Math.max(100, run.time), log: true, label: "steps"}, y: {low: nothing / 100, high: nothing * 2.5, log: true},
      lines: [
        ...run.arms.map((arm) => ({points: arm.series.points("time", "loss"), color: t[arm.colour], width: 1.5, alpha: 0.5})),
        ...run.arms.map((arm) => ({points: arm.series.points("time", "test"), color: t[arm.colour], width: 3, head: true, name: arm.name})),
        ...(fresh ? [{points: run.predicted.points("time", "loss"), color: t.ink, dash: [6, 5], name: `two scalars predict (${s.T} tokens)`, width: 1.8}] : []),
      ],
      marks: [{y: nothing, name: "knows nothing", color: t.soft}],
    });
  }

  function drawLengths(ctx, w, h, t, run, s) {
    const nothing = s.d / (2 * s.q), lengths = RATIOS.map((ratio) => Math.round(s.T * ratio));
    const x = {low: s.T, high: lengths[lengths.length - 1], label: "test length"}, here = [{x: testLength(s), color: t.soft}];
    if (isFlow(s)) {
      const {alpha, C} = run.flow, points = [], limit = [];
      for (let T = s.T; T <= x.high; T++) {
        const tested = {...run.task, T};
        points.push([T, theory.loss(tested, alpha, C)]);
        limit.push([T, run.loss * theory.lossRatioLimit(run.task, tested)]);
      }
      draw.chart(ctx, w, h, t, {x, y: {low: Math.max(1e-7, run.loss / 3), high: 3 * Math.max(nothing, limit[limit.length - 1][1]), log: true}, marks: here,
        lines: [{points: limit, color: t.soft, dash: [6, 5], name: "limit of late training"}, {points, color: t.b, width: 3, name: "the same weights"}]});
      return;
    }
    draw.chart(ctx, w, h, t, {x, y: {low: nothing / 300, high: nothing * 3, log: true}, marks: [...here, {y: nothing, color: t.soft}],
      lines: run.arms.map((arm) => ({points: arm.byLength.map((v, i) => [lengths[i], v]), color: t[arm.colour], width: 3})),
      dots: run.arms.map((arm) => ({points: arm.byLength.map((v, i) => [lengths[i], v]), color: t[arm.colour], size: 4, name: arm.name}))});
  }

  /* A query at the test length: how much attention each position gets. Named positions should have 1/q each. */
  function drawAttention(ctx, w, h, t, run, s) {
    const length = testLength(s), {q, T} = s, left = 12, right = w - 12, wide = (right - left) / length;
    const first = length - T >= q ? T : 0; // beyond the training length, where the test is longer
    const named = Array.from({length: q}, (_, i) => first + Math.floor(((i + 0.5) * (length - first)) / q));
    const rows = isFlow(s)
      ? [{name: "", colour: "a", S: Array.from({length}, (_, i) => { const s1 = theory.namedAttention({T: length, q: named.length}, run.flow.C); return named.includes(i) ? s1 : (1 - named.length * s1) / (length - named.length); })}]
      : run.arms.map((arm) => ({name: arm.name, colour: arm.colour, S: Array.from(arm.model.attend(null, run.testSet(arm, run.place), length, named).subarray(0, length))}));
    const tall = (h - 24) / rows.length;
    ctx.fillStyle = t.line; ctx.globalAlpha = 0.45;
    if (length > T) ctx.fillRect(left + T * wide, 0, right - left - T * wide, h - 22);
    ctx.globalAlpha = 1;
    rows.forEach((row, r) => {
      const base = (r + 1) * tall - 8, top = r * tall + 24, full = 1 / named.length;
      for (let i = 0; i < length; i++) {
        const height = Math.min(1.25, row.S[i] / full) * (base - top);
        ctx.fillStyle = named.includes(i) ? t[row.colour] : t.soft;
        ctx.fillRect(left + i * wide + 0.5, base - height, Math.max(1.2, wide - 1), Math.max(height, 0.8));
      }
      ctx.strokeStyle = t[row.colour]; ctx.setLineDash([3, 3]); ctx.lineWidth = 1.2;
      const box = Math.max(wide, 7);
      for (const i of named) ctx.strokeRect(left + (i + 0.5) * wide - box / 2, top, box, base - top);
      ctx.setLineDash([]);
      if (row.name) draw.label(ctx, t, row.name, left + 2, r * tall + 11, {color: t[row.colour], weight: 650, size: 13});
      const caught = named.reduce((sum, i) => sum + row.S[i], 0);
      draw.label(ctx, t, `${Math.round(100 * caught)} %${w > 480 ? " on the named tokens" : ""}`, right - 2, r * tall + 11, {align: "right", size: 13, weight: 650, color: caught > 0.5 ? t.good : t.bad});
    });
    draw.label(ctx, t, `positions 1 to ${T}`, left, h - 9, {color: t.soft});
    if (length > T) draw.label(ctx, t, "never seen in training", right - 2, h - 9, {color: t.soft, align: "right"});
  }

  function drawWeights(ctx, w, h, t, run, s) {
    if (isFlow(s)) {
      const threshold = theory.attentionThreshold(run.task, s.epsilon), top = Math.max(2, ...run.series.points("C", "alpha").map((p) => p[1])) * 1.08;
      draw.chart(ctx, w, h, t, {x: {low: 0, high: Math.max(threshold * 1.25, run.flow.C * 1.05), label: "attention C"}, y: {low: 0, high: top},
        lines: [{points: run.series.points("C", "alpha"), color: t.d, width: 3, head: true, name: "value scale α against C"}],
        marks: [{y: 1, name: "α = 1", color: t.soft}, {x: threshold, name: "threshold", color: t.c}]});
      return;
    }
    const arms = run.arms, side = Math.min((w - 16 * (arms.length - 1)) / arms.length, h - 26), down = Math.max(0, (h - side - 26) / 2);
    arms.forEach((arm, i) => {
      const {W, width, joint} = arm.model, left = (w - arms.length * side - 16 * (arms.length - 1)) / 2 + i * (side + 16);
      let most = 1e-9;
      for (let p = 0; p < W.length; p++) most = Math.max(most, Math.abs(W[p]));
      draw.heat(ctx, t, joint, width, (r, c) => W[r * width + c] / most, left, down + 22, side, side);
      ctx.strokeStyle = t.line; ctx.strokeRect(left + 0.5, down + 22.5, side - 1, side - 1);
      draw.label(ctx, t, arm.name, left, down + 10, {color: t[arm.colour], weight: 650});
    });
  }

  // --- the machine -----------------------------------------------------------------------------------------------------------

  const flow = (s) => isFlow(s), sampled = (s) => !isFlow(s);
  stairwise.machines.push({
    id: "selection", tab: "Selection", title: "Learning which tokens to average", speed: 3,
    lead: "A query names q of T tokens; one attention layer must return their mean. Descent moves <b>two numbers</b>, the value scale α and the attention C, and the loss falls as <b>1/t</b>. Whether the layer then works on longer inputs depends on one thing: did training see <b>one</b> set of positional encodings, or many?",
    controls: [
      {name: "mode", label: "train", kind: "choice", options: [["flow", "exact flow"], ["sgd", "SGD on samples"]], value: "sgd"},
      {name: "pool", label: "positional encodings", values: [1, 2, 4, 8, 32, 0], value: 0, show: poolName, when: sampled},
      {name: "test", label: "test length", values: RATIOS, value: 2, live: true, show: (_, s) => `${testLength(s)} tokens`},
      {name: "T", label: "training length T", low: 8, high: 60, value: 16},
      {name: "q", label: "named tokens q", low: 2, high: 6, value: 3},
      {name: "d", label: "token width d", low: 1, high: 10, value: 5},
      {name: "width", label: "encoding width dₑ", low: 24, high: 96, step: 8, value: 48, when: sampled},
      {name: "rate", label: "learning rate η", values: [0.05, 0.1, 0.2, 0.5, 1, 2, 4], value: 0.5, when: sampled},
      {name: "batch", label: "examples per step", values: [8, 16, 32, 64], value: 32, when: sampled},
      {name: "epsilon", label: "target loss ε", values: [0.001, 0.003, 0.01, 0.03, 0.1], value: 0.01, live: true, when: flow},
      {name: "compare", label: "also train with fixed encodings", kind: "check", value: true, when: sampled},
    ],
    presets: [
      {name: "Stochastic encodings generalise", set: {}, says: "Fresh random encodings every step: the attention learns to match encodings, whatever they are. It works at lengths that it has never seen; the fixed set beside it does not."},
      {name: "The 1/t law", set: {mode: "flow", T: 50}, says: "Gradient flow on the exact population loss with one-hot encodings. From the threshold on, loss × ηt is (T−1)/4, whatever d and q are."},
      {name: "Fix the encodings", breaks: true, set: {pool: 1}, says: "One set of encodings for all of training. The loss falls as before, and positions beyond the training length get no attention: their vectors were never learned."},
      {name: "Only a few encodings", breaks: true, set: {pool: 4}, says: "Four sets instead of fresh ones. More sets than can be memorised in W are needed before longer inputs work."},
      {name: "A large learning rate", breaks: true, set: {rate: 2, batch: 8}, says: "The theorems ask for a small rate. At η = 2 on 8 examples per step, noise keeps the loss up or throws the weights away; the population, dashed, would have been fine."},
    ],
    panels: [
      {id: "loss", title: "Loss", size: "broad", height: 320, draw: drawLoss, says: (_, s) => (isFlow(s) ? "Measured on the exact population; dashed is the prediction." : `At ${testLength(s)} tokens (thick) and at the ${s.T} of training (thin).`)},
      {id: "weights", title: "Weights", size: "narrow", height: 320, draw: drawWeights, says: (_, s) => (isFlow(s) ? "The whole state of training is one point." : "W: the theorem says a multiple of the identity.")},
      {id: "attention", title: "Attention of one query", size: "broad", height: 270, draw: drawAttention, says: () => "Dashed boxes are the named tokens: attention should fill them."},
      {id: "lengths", title: "Loss against test length", size: "narrow", height: 270, draw: drawLengths, says: () => "The same weights, tried on longer inputs."},
    ],
    settle: (s) => ({...s, q: Math.min(s.q, s.T - 1)}),
    make: (s) => (isFlow(s) ? new FlowRun(s) : new SampleRun(s)),
    python: (s) => (isFlow(s) ? {
      says: "The same numbers, and the same curves as a stored run:",
      code: `import numpy as np
from stairwise.papers.selection.config import Task
from stairwise.papers.selection.theory import onehot

task = Task(length=${s.T}, sparsity=${s.q}, width=${s.d})
path = onehot.flow(task, np.geomspace(0.1, 1e6, 200))
print(onehot.loss(task, path.alpha, path.C))
print(onehot.loss(Task(${testLength(s)}, ${s.q}, ${s.d}), path.alpha, path.C))
print(onehot.attention_threshold(task, ${s.epsilon}))

# stairwise run selection/population --task.length ${s.T} --task.sparsity ${s.q} --task.width ${s.d} --test_lengths ${testLength(s)}`,
    } : {
      says: "The same training on other draws:",
      code: `stairwise run selection/online --task.length ${s.T} --task.sparsity ${s.q} --task.width ${s.d} --encoding.width ${s.width} --encoding.pool ${s.pool} --learning_rate ${s.rate} --batch ${s.batch} --test_lengths ${testLength(s)}`,
    }),
  });
})();
