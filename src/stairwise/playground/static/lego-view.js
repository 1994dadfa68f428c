"use strict";
/* The LEGO machine: a chain of group actions, told step by step by attention in four scalars. */
(function () {
  const {lego: theory, draw, random, Series, text} = stairwise;
  const LENGTHS = [2, 4, 8, 16, 32, 64, 128, 256, 512], CHAINS = 6, CONTEXTS = 150, LAST = 1500, STUCK = 400;
  const OWN = "<[[1,2,3,0],[2,1,0,3]]>";
  const doubles = (s) => s.mode === "doubling";
  const stagesOf = (s) => Math.min(7, Math.floor(Math.log2(s.variables - 1)));

  class Run {
    constructor(settings) {
      this.table = theory.group(settings.group === "own" ? settings.generators : settings.group);
      this.net = theory.network(this.table, settings.variables, settings.clip);
      this.level = theory.vocabulary(this.table, settings.variables) ** -settings.exponent;
      this.draws = random(1);
      this.scores = [0, 0, 0, 0];
      this.time = 0;
      this.series = new Series();
      this.exact = LENGTHS.map(() => 0);
      this.stages = [];
      this.ended = this.stuck = false;
      this.turn = 0;
      this.shown = theory.drawChain(random(5), this.table, 128);
      this.settings = settings;
      this.begin(1);
      this.state = theory.settled(this.net, this.scores, this.populations);
      LENGTHS.forEach((_, i) => this.tryLength(i, 1));
      this.keep();
    }
    look(settings) { this.settings = settings; }
    /* Stage k trains on chains of 2^k, whose answers are the model's own; the first on all chains of two, exactly. */
    begin(k) {
      this.stage = k;
      this.length = 2 ** k;
      this.began = this.time;
      this.labels = 1;
      if (k === 1) {
        const second = doubles(this.settings) || this.settings.supervised === "second";
        this.populations = (second ? [2] : [1, 2]).map((step) => theory.twoSteps(this.table, step));
        return;
      }
      const chains = Array.from({length: CONTEXTS}, () => theory.drawChain(this.draws, this.table, this.length));
      const population = theory.selfLabelled(this.net, this.table, this.scores, chains, this.length);
      this.populations = [population];
      this.labels = population.labels;
    }
    tryLength(i, memory = 0.5) {
      let right = 0;
      for (let n = 0; n < CHAINS; n++) {
        const {start, actions} = theory.drawChain(this.draws, this.table, LENGTHS[i]);
        right += theory.rollout(this.net, this.table, this.scores, actions, start, LENGTHS[i], LENGTHS[i], true).right === LENGTHS[i];
      }
      this.exact[i] = (1 - memory) * this.exact[i] + (memory * right) / CHAINS;
    }
    get reach() { return theory.criticalLength(this.scores, this.net.n); }
    /* The longest tried length at which half of the chains are told without a mistake. */
    get measured() { let found = 1; LENGTHS.forEach((length, i) => { if (this.exact[i] >= 0.5) found = length; }); return found; }
    keep() {
      const [a, b, c, e] = this.scores;
      this.series.push({time: this.time, a, b, c, e, loss: this.state.loss, reach: this.reach, trained: this.length});
    }
    step() {
      this.scores = theory.descended(this.scores, this.state, this.settings.rate, this.settings.variables);
      this.time++;
      this.state = theory.settled(this.net, this.scores, this.populations);
      this.tryLength(this.turn++ % LENGTHS.length);
      this.keep();
      if (!doubles(this.settings)) { this.ended = this.time >= LAST; return true; }
      if (this.state.loss >= this.level) {
        this.ended = this.stuck = this.time - this.began > STUCK;
        return this.stuck;
      }
      LENGTHS.forEach((_, i) => this.tryLength(i, 1));
      this.stages.push({time: this.time, length: this.length, reach: this.reach, measured: this.measured, labels: this.labels});
      if (this.stage >= stagesOf(this.settings)) { this.ended = true; return true; }
      this.begin(this.stage + 1);
      this.state = theory.settled(this.net, this.scores, this.populations);
      return true;
    }
    status() {
      const stage = doubles(this.settings) ? `stage ${this.stage}, chains of <b>${this.length}</b> with ${Math.round(100 * this.labels)} % right labels · ` : "";
      const end = this.stuck ? ` · stuck: ${this.labels < 1 ? "it learns its own mistakes" : "the loss stays above where the stage ends"}` : "";
      return `step <b>${text(this.time)}</b> · ${stage}loss ${text(this.state.loss)} · carries chains of <b>${text(Math.round(this.reach))}</b>${end}`;
    }
  }

  // --- drawing ----------------------------------------------------------------------------------------------------------------

  function drawReach(ctx, w, h, t, run, s) {
    const end = Math.max(100, run.time), points = run.series.points("time", "reach");
    draw.chart(ctx, w, h, t, {
      x: {low: 0, high: end, label: "gradient steps"}, y: {low: 1, high: 1024, two: true},
      lines: [
        {points: stairs(run.series.points("time", "trained")), color: t.soft, width: 2, name: "length trained on"},
        {points, color: t.a, dash: [6, 5], width: 2.6, head: true, name: "L* predicted"},
      ],
      dots: [{points: [...run.stages.map((st) => [st.time, st.measured]), [run.time, run.measured]], color: t.b, size: 5, name: "longest chain told"}],
      marks: run.stages.map((st) => ({x: st.time, color: t.line})),
    });
  }
  const stairs = (points) => points.flatMap((p, i) => (i && points[i - 1][1] !== p[1] ? [[p[0], points[i - 1][1]], p] : [p]));

  function drawScores(ctx, w, h, t, run) {
    const top = Math.max(2, ...run.scores) * 1.1, low = Math.min(-0.2, ...run.scores.map((x) => x * 1.2));
    const line = (name, color, says) => ({points: run.series.points("time", name), color, name: says, head: true});
    draw.chart(ctx, w, h, t, {x: {low: 0, high: Math.max(100, run.time), label: "gradient steps"}, y: {low, high: top},
      marks: run.stages.map((st) => ({x: st.time, color: t.line})),
      lines: [line("b", t.e, "b other clauses"), line("e", t.d, "e earlier answers"), line("c", t.c, "c own answer"), line("a", t.a, "a right clause")]});
  }

  function drawMiss(ctx, w, h, t, run) {
    const miss = [];
    for (let L = 1; L <= 1024; L *= 1.15) miss.push([L, theory.concentration(run.scores, L, L)]);
    const limit = theory.criticalConcentration(run.net.n), reach = run.reach;
    draw.chart(ctx, w, h, t, {x: {low: 2, high: 1024, two: true, label: "length of the chain"}, y: {low: 0, high: 1.05, ticks: [0, 0.25, 0.5, 0.75, 1]},
      marks: [{y: limit, name: "ε*", color: t.soft}, ...(reach >= 2 && reach < 1024 ? [{x: reach, name: `L* = ${Math.round(reach)}`, color: t.a, lower: 14}] : [])],
      lines: [{points: miss, color: t.d, width: 3, name: "attention that misses"}, {points: LENGTHS.map((L, i) => [L, run.exact[i]]), color: t.b, width: 1.5}],
      dots: [{points: LENGTHS.map((L, i) => [L, run.exact[i]]), color: t.b, size: 4.5, name: "chains told right"}]});
  }

  const hue = (y, n) => `hsl(${Math.round((360 * y) / n + 215) % 360} 62% 56%)`;
  function drawChain(ctx, w, h, t, run, s) {
    const L = s.length, n = run.net.n, {start, actions} = run.shown, left = w > 480 ? 118 : 106, wide = (w - left - 8) / L, side = Math.min(wide - 1, 26);
    const {said, right} = theory.rollout(run.net, run.table, run.scores, actions, start, L), p = theory.shares(run.scores, L, L).slice();
    const rows = [["looks at clauses", 0], ["looks at answers", 1], ["the truth", 2], ["it says", 3]], tall = (h - 30) / 4;
    const paint = (row, i, colour, alpha = 1) => {
      ctx.globalAlpha = alpha; ctx.fillStyle = colour;
      ctx.beginPath();
      const size = Math.max(1, side), x = left + (i + 0.5) * wide - size / 2, high = Math.min(tall - 12, 34), y = row * tall + (tall - high) / 2;
      if (ctx.roundRect) ctx.roundRect(x, y, size, high, Math.min(6, size / 3)); else ctx.rect(x, y, size, high);
      ctx.fill(); ctx.globalAlpha = 1;
      return [x, y, size, high];
    };
    for (const [name, row] of rows) draw.label(ctx, t, name, 0, (row + 0.5) * tall, {color: t.soft, size: 12.5});
    let truth = start;
    for (let i = 0; i < L; i++) {
      truth = run.table[actions[i]][truth];
      const clause = i === L - 1 ? p[0] : p[1] / Math.max(1, L - 1), answer = i === L - 1 ? p[2] : p[3] / Math.max(1, L - 1);
      paint(0, i, t.line); paint(0, i, i === L - 1 ? t.a : t.d, Math.min(1, Math.sqrt(clause * 2)));
      paint(1, i, t.line); paint(1, i, i === L - 1 ? t.c : t.d, Math.min(1, Math.sqrt(answer * 2)));
      paint(2, i, hue(truth, n));
      const box = paint(3, i, hue(said[i], n));
      if (said[i] !== truth) {
        ctx.strokeStyle = t.bad; ctx.lineWidth = Math.min(2.5, box[2] / 3);
        ctx.beginPath(); ctx.moveTo(box[0], box[1] + box[3] + 5); ctx.lineTo(box[0] + box[2], box[1] + box[3] + 5); ctx.stroke();
      }
      if (side > 15) for (const [row, v] of [[2, truth], [3, said[i]]]) draw.label(ctx, t, String(v), left + (i + 0.5) * wide, (row + 0.5) * tall, {color: "#fff", align: "center", weight: 650});
    }
    draw.label(ctx, t, right === L ? `all ${L} steps right` : `right for ${right} of ${L} steps`, w > 480 ? left : 0, h - 12, {weight: 650, size: 13, color: right === L ? t.good : t.bad});
    draw.label(ctx, t, `${Math.round(100 * (p[1] + p[3]))} % ${w > 480 ? "of attention " : ""}misses`, w - 8, h - 12, {align: "right", color: t.d, size: 13, weight: 600});
  }

  // --- the machine ---------------------------------------------------------------------------------------------------------------

  const action = (s) => (s.group === "own" ? s.generators.replace(/\s/g, "") : s.group);
  stairwise.machines.push({
    id: "lego", tab: "LEGO", title: "Tracking a state, one group action at a time", speed: 2, pace: 0.34,
    lead: "A chain says x₁ = g₁(x₀), x₂ = g₂(x₁), … in any order; the model must tell every value. Attention has to find <b>one clause and one answer</b> among ever more. What misses them grows with length until the chain is lost, at a length <b>L*</b> that four numbers decide. Trained on its own answers, the model <b>doubles</b> that length stage by stage.",
    controls: [
      {name: "mode", label: "train on", kind: "choice", options: [["two", "chains of two"], ["doubling", "its own answers"]], value: "doubling"},
      {name: "group", label: "group", kind: "choice", options: [["C3", "C₃, turns of a triangle"], ["C6", "C₆, turns of a hexagon"], ["D5", "D₅, symmetries of a pentagon"], ["S3", "S₃, all orders of 3"], ["S4", "S₄, all orders of 4"], ["A5", "A₅, even orders of 5"], ["S5", "S₅, all orders of 5"], ["own", "my own generators"]], value: "S5"},
      {name: "generators", label: "generators, as images of 0, 1, 2, …", kind: "text", value: OWN, when: (s) => s.group === "own"},
      {name: "length", label: "chain shown", values: [4, 8, 16, 32, 64, 128], value: 32, live: true, show: (v) => `${v} steps`},
      {name: "variables", label: "variables |X|", values: [32, 64, 128, 256, 1024, 4096], value: 256},
      {name: "clip", label: "logit clip C_B (times log d)", values: [2, 3, 4, 6, 8, 12], value: 4},
      {name: "exponent", label: "a stage ends at loss d to the minus", values: [0.25, 0.5, 1, 1.5, 2, 2.5], value: 2, when: doubles},
      {name: "supervised", label: "loss of", kind: "choice", options: [["both", "both steps"], ["second", "the second"]], value: "both", when: (s) => !doubles(s)},
      {name: "rate", label: "learning rate η / |X|", values: [0.002, 0.005, 0.01, 0.02, 0.05], value: 0.01},
    ],
    presets: [
      {name: "Self-training doubles the length", set: {}, says: "Stage k trains on chains of 2ᵏ that the model has answered itself, until the loss is d⁻². It then tells chains of twice that length, which are the labels of the next stage."},
      {name: "Chains of two go far, for turns", set: {mode: "two", group: "C6"}, says: "For a simply transitive action such as C₆, training on chains of two alone keeps sharpening attention: L* grows as long as training goes on."},
      {name: "Stop a stage too early", breaks: true, set: {exponent: 0.25}, says: "The next stage's labels are only right if this stage was trained far enough. Stopped early, the model learns its own mistakes."},
      {name: "No self-training", breaks: true, set: {mode: "two", supervised: "second"}, says: "The same group on chains of two alone: attention sharpens ever more slowly. After 186 steps, in which self-training gets to chains of 285, L* is 43; after 1,500 it is 145."},
      {name: "A low logit clip", breaks: true, set: {clip: 2}, says: "The theorem asks for a large clip B = C_B log d. With a low one the loss cannot fall to d⁻², and the first stage never ends."},
    ],
    panels: [
      {id: "reach", title: "How long a chain it carries", size: "broad", height: 320, draw: drawReach, says: (run) => (doubles(run.settings) ? `Predicted ${text(Math.round(run.reach))}, told without a mistake: ${run.measured}.` : `Trained on chains of two only. Predicted ${text(Math.round(run.reach))}, told: ${run.measured}.`)},
      {id: "scores", title: "The four scalars", size: "narrow", height: 320, draw: drawScores, says: () => "All that training moves."},
      {id: "chain", title: "One chain, told", size: "broad", height: 260, draw: drawChain, says: () => "Each square is a value; a red line marks a wrong one. Above, where the last step looks."},
      {id: "miss", title: "Attention that misses", size: "narrow", height: 260, draw: drawMiss, says: () => "Where it crosses ε*, chains are lost: that is L*."},
    ],
    make: (s) => new Run(s),
    python: (s) => {
      const common = `--action '${action(s)}' --variables ${s.variables} --network.clip_factor ${s.clip} --learning_rate ${s.rate}`;
      if (doubles(s)) return {says: "The same algorithm on other draws (its first stage is exact, and the same):", code: `stairwise run lego/stages ${common} --exponent ${s.exponent} --contexts ${CONTEXTS} --stages ${stagesOf(s)}`};
      return {says: "The same numbers to the last digits, and the same as a stored run:", code: `import jax
import jax.numpy as jnp
from stairwise.papers.lego import algorithms, reduced
from stairwise.papers.lego.theory import lengths
from stairwise.papers.lego.groups import named

with jax.enable_x64(True):
    action = named("${action(s)}")
    network = reduced.ideal_values(action, ${s.variables}, ${s.clip}.0)
    chains = tuple(reduced.two_steps(action, step) for step in ${s.supervised === "both" ? "(1, 2)" : "(2,)"})
    path = algorithms.path(network, chains, jnp.zeros(4), ${s.rate}, ${s.variables}, 0.0, ${LAST})
print(path.scores[-1], lengths.critical_length(path.scores[-1], action.values))

# stairwise run lego/dynamics ${common} --supervised ${s.supervised === "both" ? "1,2" : "2"} --steps ${LAST}`};
    },
  });
})();
