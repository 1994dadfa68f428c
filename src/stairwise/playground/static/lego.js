"use strict";
/* State tracking by group actions: attention in four scalars on the ideal network, and self-training that doubles the length.
   Formulas and names as in stairwise.papers.lego (reduced.py, algorithms.py, theory/lengths.py, theory/orbits.py).
   A table holds one row per action: table[g][y] = g(y). Scores are [a, b, c, e]. */
(function () {
  // --- groups ---------------------------------------------------------------------------------------------------------------

  const range = (n) => Array.from({length: n}, (_, i) => i);
  const MOST = 720; // actions of a group from generators

  /* All products of the given permutations, the identity first. */
  function generated(rows) {
    const n = rows[0].length, first = range(n), found = [first], seen = new Set([first.join()]);
    for (let i = 0; i < found.length; i++)
      for (const row of rows) {
        const product = found[i].map((y) => row[y]);
        if (seen.has(product.join())) continue;
        seen.add(product.join());
        found.push(product);
        if (found.length > MOST) throw new Error(`generators make more than ${MOST} actions: take fewer values`);
      }
    return found;
  }
  function permutations(n) {
    if (n === 1) return [[0]];
    return range(n).flatMap((first) => permutations(n - 1).map((rest) => [first, ...rest.map((y) => (y >= first ? y + 1 : y))]));
  }
  const even = (p) => p.reduce((sum, x, i) => sum + p.slice(i + 1).filter((y) => y < x).length, 0) % 2 === 0;

  /* The table that a name means: C<n>, D<n>, S<n>, A<n>, or generators <[[1,2,0]]>, as stairwise.papers.lego.groups reads them. */
  function group(name) {
    const text = name.replace(/\s/g, ""), match = /^([CDSA])(\d)$/.exec(text);
    if (match) {
      const n = Number(match[2]);
      if (match[1] === "C") return range(n).map((g) => range(n).map((y) => (g + y) % n));
      if (match[1] === "D") return [...range(n).map((g) => range(n).map((y) => (g + y) % n)), ...range(n).map((g) => range(n).map((y) => (g - y + n) % n))];
      return match[1] === "S" ? permutations(n) : permutations(n).filter(even);
    }
    let rows;
    try { rows = JSON.parse(text.replace(/^</, "").replace(/>$/, "")); } catch { throw new Error(`generators=${name} must be rows of whole numbers, like <[[1,2,0],[1,0,2]]>`); }
    const n = Array.isArray(rows) && Array.isArray(rows[0]) ? rows[0].length : 0;
    if (n < 3 || n > 8) throw new Error(`generators=${name} must have 3..8 values per row`);
    for (const row of rows) if (!Array.isArray(row) || !row.every(Number.isInteger) || [...row].sort().join() !== range(n).join()) throw new Error(`generators: ${JSON.stringify(row)} must be a permutation of 0..${n - 1}`);
    const table = generated(rows);
    if (new Set(table.map((g) => g[0])).size < n) throw new Error(`generators=${name} must take each value to each other one`);
    return table;
  }

  // --- the ideal network -------------------------------------------------------------------------------------------------------

  const vocabulary = (table, variables) => variables + table.length + table[0].length + 1;
  function network(table, variables, factor = 4, rho = 0.8, power = 4) {
    const G = table.length, n = table[0].length, d = vocabulary(table, variables), clip = factor * Math.log(d);
    const ratio = (1 + (G * (n - 1)) / n) / (n - 1 + G / n), height = clip + rho * (1 - 1 / power);
    return {alpha: (2 * height * ratio) / (1 + ratio), beta: (2 * height) / (1 + ratio), clip, rho, power, others: d - n, n};
  }

  /* Attention on: the right predicate, all others, the own answer, all earlier ones. */
  function shares(scores, length, step, out = [0, 0, 0, 0]) {
    const top = Math.max(scores[0], scores[1], scores[2], scores[3]);
    out[0] = Math.exp(scores[0] - top); out[1] = (length - 1) * Math.exp(scores[1] - top);
    out[2] = Math.exp(scores[2] - top); out[3] = (step - 1) * Math.exp(scores[3] - top);
    const total = out[0] + out[1] + out[2] + out[3];
    for (let i = 0; i < 4; i++) out[i] /= total;
    return out;
  }
  const concentration = (scores, length, step) => { const p = shares(scores, length, step); return p[1] + p[3]; };
  const criticalConcentration = (n) => n / (2 * (n - 1));
  /* L* = 1 + nY/(nY-2) (e^a + e^c)/(e^b + e^e), where eps(L, L) = eps*. */
  function criticalLength([a, b, c, e], n) {
    if (n <= 2) return Infinity;
    return 1 + (n / (n - 2)) * (Math.exp(a) + Math.exp(c)) / (Math.exp(b) + Math.exp(e));
  }

  const active = new Float64Array(64), F = new Float64Array(8), dF = new Float64Array(8), p4 = [0, 0, 0, 0];
  /* F_j of every value class into F, given a context {near, far, own, past, length, step}. */
  function logits(net, scores, context) {
    const {alpha, beta, rho, power, n, clip} = net, p = shares(scores, context.length, context.step, p4), P = p[0] + p[1];
    const base = -beta * P - alpha * (1 - P), both = alpha + beta, bend = rho * (1 - 1 / power), scale = 1 / (power * rho ** (power - 1));
    for (let j = 0; j < n; j++) {
      let total = 0;
      for (let y = 0, at = j * n; y < n; y++, at++) {
        const x = both * (p[0] * context.near[at] + p[1] * context.far[at] + p[2] * context.own[y] + p[3] * context.past[y]) + base;
        active[at] = x;
        if (x > rho) total += x - bend;
        else if (x > 0) total += x ** power * scale;
      }
      F[j] = total < clip ? total : clip;
      dF[j] = total < clip ? 1 : 0;
    }
    return F;
  }
  /* -log p of the target in a form that loses no digit, and (where asked) its gradient in the four scores, added to `into`. */
  function loss(net, scores, context, weight, into) {
    const {n, others, rho, power, alpha, beta} = net, target = context.target;
    logits(net, scores, context);
    let top = Math.log(others);
    for (let j = 0; j < n; j++) if (j !== target && F[j] > top) top = F[j];
    let rest = others * Math.exp(-top);
    for (let j = 0; j < n; j++) if (j !== target) rest += Math.exp(F[j] - top);
    const z = top + Math.log(rest) - F[target], cost = Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));
    if (!into) return cost;
    const wrong = z > 0 ? 1 / (1 + Math.exp(-z)) : Math.exp(z) / (1 + Math.exp(z)), both = alpha + beta;
    const d = [0, 0, 0, 0];
    for (let j = 0; j < n; j++) {
      const slope = dF[j] * (j === target ? -wrong : (wrong * Math.exp(F[j] - top)) / rest);
      if (slope === 0) continue;
      for (let y = 0, at = j * n; y < n; y++, at++) {
        const x = active[at];
        if (x <= 0) continue;
        const g = slope * (x >= rho ? 1 : (x / rho) ** (power - 1));
        d[0] += g * (both * context.near[at] + alpha - beta);
        d[1] += g * (both * context.far[at] + alpha - beta);
        d[2] += g * both * context.own[y];
        d[3] += g * both * context.past[y];
      }
    }
    const mean = p4[0] * d[0] + p4[1] * d[1] + p4[2] * d[2] + p4[3] * d[3];
    for (let i = 0; i < 4; i++) into[i] += weight * p4[i] * (d[i] - mean);
    return cost;
  }
  /* {loss, gradient} over populations [{contexts, weights}], whose losses are added. */
  function settled(net, scores, populations) {
    const gradient = [0, 0, 0, 0];
    let total = 0;
    for (const {contexts, weights} of populations)
      for (let i = 0; i < contexts.length; i++) total += weights[i] * loss(net, scores, contexts[i], weights[i], gradient);
    return {loss: total, gradient};
  }
  /* One loss-normalised step on all of Q: eta_t = rate |X| / loss. */
  function descended(scores, {loss: cost, gradient}, rate, variables) {
    const eta = (rate * variables) / Math.max(cost, 2.2250738585072014e-308), pairs = variables * (variables - 1);
    return scores.map((score, i) => score - (eta * gradient[i]) / (i % 2 ? pairs : variables));
  }

  // --- populations ---------------------------------------------------------------------------------------------------------------

  const unit = (n, y) => { const made = new Float64Array(n); made[y] = 1; return made; };
  function matrix(action) {
    const n = action.length, made = new Float64Array(n * n);
    for (let y = 0; y < n; y++) made[action[y] * n + y] = 1;
    return made;
  }
  /* All contexts of step 1 or 2 of chains of two. With g_1 relabelled to the identity, g_2 is k = g_1^{-1} g_2: uniform over the
     group, as are y_0 and y_1. Triples that a relabelling takes into each other are one class. */
  function twoSteps(table, step) {
    const n = table[0].length, classes = new Map();
    for (const k of table) {
      const cycle = range(n).map((y) => { const walk = [y]; while (k[walk[walk.length - 1]] !== y) walk.push(k[walk[walk.length - 1]]); return walk; });
      const type = cycle.map((c) => c.length).sort().join("");
      for (let start = 0; start < n; start++)
        for (let middle = 0; middle < n; middle++) {
          const key = `${type}/${cycle[start].length}/${cycle[middle].length}/${cycle[start].indexOf(middle)}`;
          const found = classes.get(key);
          if (found) found.count++;
          else classes.set(key, {k, start, middle, count: 1});
        }
    }
    const all = table.length * n * n, identity = matrix(range(n)), contexts = [], weights = [];
    for (const {k, start, middle, count} of classes.values()) {
      weights.push(count / all);
      contexts.push(step === 1
        ? {near: identity, far: matrix(k), own: unit(n, start), past: new Float64Array(n), target: start, length: 2, step}
        : {near: matrix(k), far: identity, own: unit(n, middle), past: unit(n, start), target: k[middle], length: 2, step});
    }
    return {contexts, weights};
  }

  /* A greedy roll-out: the values said, how many of them are right, and how many are before the first wrong one. */
  function rollout(net, table, scores, actions, start, length, steps = length, stop = false) {
    const n = net.n, total = new Float64Array(n * n), past = new Float64Array(n), said = [], crowd = Math.max(length - 1, 1);
    for (let i = 0; i < length; i++) for (let y = 0; y < n; y++) total[table[actions[i]][y] * n + y]++;
    const context = {near: null, far: new Float64Array(n * n), own: null, past: new Float64Array(n), length, step: 1};
    let value = start, truth = start, right = 0, hits = 0;
    for (let l = 1; l <= steps; l++) {
      const action = table[actions[l - 1]];
      context.near = matrix(action);
      for (let i = 0; i < n * n; i++) context.far[i] = (total[i] - context.near[i]) / crowd;
      context.own = unit(n, value);
      for (let y = 0; y < n; y++) context.past[y] = past[y] / Math.max(l - 1, 1);
      context.step = l;
      logits(net, scores, context);
      let guess = 0;
      for (let j = 1; j < n; j++) if (F[j] > F[guess]) guess = j;
      past[value]++;
      truth = action[truth];
      if (guess === truth && F[guess] > 0) { hits++; if (hits === l) right = l; } else if (stop) break;
      said.push(guess);
      value = guess;
    }
    return {said, right, hits};
  }
  function drawChain(random, table, length) {
    return {start: random.below(table[0].length), actions: Array.from({length}, () => random.below(table.length))};
  }
  /* Contexts of the second step of chains whose answers are the annotator's own, and the share of right labels. */
  function selfLabelled(net, table, annotator, chains, length) {
    const n = net.n;
    let right = 0;
    const contexts = chains.map(({start, actions}) => {
      const {said, hits} = rollout(net, table, annotator, actions, start, length, 2);
      right += hits / 2;
      const near = matrix(table[actions[1]]), far = new Float64Array(n * n);
      for (let i = 0; i < length; i++) for (let y = 0; y < n; y++) far[table[actions[i]][y] * n + y]++;
      for (let i = 0; i < n * n; i++) far[i] = (far[i] - near[i]) / (length - 1);
      return {near, far, own: unit(n, said[0]), past: unit(n, start), target: said[1], length, step: 2};
    });
    return {contexts, weights: contexts.map(() => 1 / contexts.length), labels: right / chains.length};
  }

  stairwise.lego = {group, network, vocabulary, shares, concentration, criticalConcentration, criticalLength, logits, settled, descended, twoSteps, rollout, drawChain, selfLabelled};
})();
