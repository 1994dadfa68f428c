"use strict";
/* Parity in one gradient step: attention over positions only, a tree of products of two, and a fixed link function.
   Formulas and names as in stairwise.papers.parity_onestep (gradient.py, model.py, train.py, quantise.py, theory/noise.py).
   Tokens are rows: d inputs, then the k-1 nodes; a block of samples is one row per token, samples side by side. */
(function () {
  const CURVATURE = 4; // c of the link poly4
  const link = (t) => -1 + 4 * t * t - 2 * t ** 4;
  const slope = (t) => 8 * t - 8 * t * t * t;

  /* The balanced tree over the leaves: they stand in a queue, new nodes join its end, node i multiplies entries 2i and 2i+1. */
  function tree(leaves, d) {
    const k = leaves.length, queue = [...leaves], children = [], height = [];
    for (let i = 0; i < k - 1; i++) {
      const pair = [queue[2 * i], queue[2 * i + 1]].sort((a, b) => a - b);
      children.push(pair);
      height.push(1 + Math.max(...pair.map((token) => (token < d ? 0 : height[token - d]))));
      queue.push(d + i);
    }
    return {d, k, nodes: k - 1, tokens: d + k - 1, children, height, levels: height[k - 2]};
  }
  /* How many tokens each node sees: all before it (causal), or all of lower height (block). */
  function visible(t, mask) {
    return t.height.map((h, i) => t.d + (mask === "causal" ? i : t.height.filter((other) => other < h).length));
  }

  /* Uniform inputs with the true values of all nodes. */
  function drawBlock(random, t, samples) {
    const x = new Float64Array(t.tokens * samples);
    for (let j = 0; j < t.d; j++)
      for (let i = 0, word = 0; i < samples; i++) {
        if (i % 24 === 0) word = random.bits();
        x[j * samples + i] = (word >>> (i % 24)) & 1 ? -1 : 1;
      }
    t.children.forEach(([a, b], m) => {
      for (let i = 0, at = (t.d + m) * samples; i < samples; i++) x[at + i] = x[a * samples + i] * x[b * samples + i];
    });
    return x;
  }

  /* Softmax of each column of W (tokens x nodes) over the rows that the node sees; zero elsewhere. */
  function scoresOf(t, seen, W) {
    const s = new Float64Array(W.length), n = t.nodes;
    for (let m = 0; m < n; m++) {
      let top = -Infinity, total = 0;
      for (let j = 0; j < seen[m]; j++) top = Math.max(top, W[j * n + m]);
      for (let j = 0; j < seen[m]; j++) total += s[j * n + m] = Math.exp(W[j * n + m] - top);
      for (let j = 0; j < seen[m]; j++) s[j * n + m] /= total;
    }
    return s;
  }

  /* S[j, m] += sum over samples of x_j A_m, for the tokens that node m sees. */
  function contract(t, seen, x, A, samples, S) {
    for (let m = 0; m < t.nodes; m++) {
      const from = m * samples;
      for (let j = 0; j < seen[m]; j++) {
        let sum = 0;
        for (let i = 0, p = j * samples; i < samples; i++) sum += x[p + i] * A[from + i];
        S[j * t.nodes + m] += sum;
      }
    }
  }
  /* Teacher forcing at W = 0, where every node sees the plain mean of its tokens. Adds to S, returns the sum of losses. */
  function forcedAtZero(t, seen, x, samples, S) {
    const A = new Float64Array(t.nodes * samples), sum = new Float64Array(samples);
    let upto = 0, loss = 0;
    for (let m = 0; m < t.nodes; m++) {
      for (; upto < seen[m]; upto++) for (let i = 0, p = upto * samples; i < samples; i++) sum[i] += x[p + i];
      for (let i = 0, p = (t.d + m) * samples, at = m * samples; i < samples; i++) {
        const z = sum[i] / seen[m], error = link(z) - x[p + i];
        loss += (error * error) / 2;
        A[at + i] = error * slope(z);
      }
    }
    contract(t, seen, x, A, samples, S);
    return loss;
  }
  /* The chain as the model makes it from the inputs: z and the output of every node. A closed level says 0. */
  function generate(t, seen, scores, gates, x, samples) {
    const n = t.nodes, z = new Float64Array(n * samples), out = new Float64Array(t.tokens * samples);
    out.set(x.subarray(0, t.d * samples));
    for (let m = 0; m < n; m++) {
      const at = m * samples, place = (t.d + m) * samples;
      for (let j = 0; j < seen[m]; j++) {
        const s = scores[j * n + m];
        if (s > 1e-300) for (let i = 0, p = j * samples; i < samples; i++) z[at + i] += s * out[p + i];
      }
      if (gates[t.height[m] - 1]) for (let i = 0; i < samples; i++) out[place + i] = link(z[at + i]);
    }
    return {z, out};
  }
  /* No teacher forcing: errors propagate back through the chain that the model made itself. */
  function generated(t, seen, scores, gates, x, samples, S) {
    const n = t.nodes, {z, out} = generate(t, seen, scores, gates, x, samples);
    const A = new Float64Array(n * samples), above = new Float64Array(n * samples);
    let loss = 0;
    for (let m = n - 1; m >= 0; m--) {
      const at = m * samples, place = (t.d + m) * samples, open = gates[t.height[m] - 1];
      for (let i = 0; i < samples; i++) {
        const error = out[place + i] - x[place + i];
        loss += (error * error) / 2;
        if (open) A[at + i] = (error + above[at + i]) * slope(z[at + i]);
      }
      if (open)
        for (let j = t.d; j < seen[m]; j++) {
          const s = scores[j * n + m];
          for (let i = 0, p = (j - t.d) * samples; i < samples; i++) above[p + i] += s * A[at + i];
        }
    }
    contract(t, seen, out, A, samples, S);
    return loss;
  }
  /* dL/dW = s_j(m) (S[j, m] - sum_i s_i(m) S[i, m]) / n. */
  function gradient(t, scores, S, samples) {
    const n = t.nodes, made = new Float64Array(S.length);
    for (let m = 0; m < n; m++) {
      let mean = 0;
      for (let j = 0; j < t.tokens; j++) mean += scores[j * n + m] * S[j * n + m];
      for (let j = 0; j < t.tokens; j++) made[j * n + m] = (scores[j * n + m] * (S[j * n + m] - mean)) / samples;
    }
    return made;
  }
  /* eta, such that one step from zero gives the root's children the logit lam. */
  const learningRate = (t, seen, lam) => (lam * seen[t.nodes - 1] ** 2) / (2 * CURVATURE);

  function toEven(x) {
    const low = Math.floor(x), rest = x - low;
    return rest < 0.5 ? low : rest > 0.5 ? low + 1 : low % 2 === 0 ? low : low + 1;
  }
  /* spacing * clip(round(w / spacing), -bound, bound), ties to even; spacing 0 leaves w, bound 0 is none. */
  function quantise(W, spacing, bound) {
    const most = bound > 0 ? bound : Infinity;
    return spacing > 0 ? W.map((w) => spacing * Math.max(-most, Math.min(most, toEven(w / spacing))) + 0) : W.slice();
  }
  /* Which levels the filter leaves open: a level closes where some node of the one below is near -1 on all unlabelled inputs. */
  function gatesOf(t, seen, scores, x, samples, eps0) {
    const n = t.nodes, gates = Array(t.levels).fill(true), out = new Float64Array(t.tokens * samples);
    if (!(eps0 > 0)) return gates;
    out.set(x.subarray(0, t.d * samples));
    for (let m = 0; m < n; m++) {
      const level = t.height[m], place = (t.d + m) * samples;
      let far = 0;
      for (let i = 0; i < samples; i++) {
        let z = 0;
        for (let j = 0; j < seen[m]; j++) z += scores[j * n + m] * out[j * samples + i];
        out[place + i] = gates[level - 1] ? link(z) : 0;
        far = Math.max(far, Math.abs(out[place + i] + 1));
      }
      if (far < eps0 && level < t.levels) gates[level] = false;
    }
    return gates;
  }
  /* Sup error and accuracy of every node when the chain is rolled out on fresh inputs. */
  function evaluate(t, seen, scores, gates, x, samples) {
    const {out} = generate(t, seen, scores, gates, x, samples), sup = [], accuracy = [];
    for (let m = 0; m < t.nodes; m++) {
      let worst = 0, right = 0;
      for (let i = 0, p = (t.d + m) * samples; i < samples; i++) {
        worst = Math.max(worst, Math.abs(out[p + i] - x[p + i]));
        right += Math.sign(out[p + i]) === x[p + i];
      }
      sup.push(worst);
      accuracy.push(right / samples);
    }
    return {sup, accuracy};
  }
  /* The share of nodes whose two largest weights are those of their children; the least child and the largest other. */
  function weights(t, seen, W) {
    let found = 0, child = 0, lowest = Infinity, other = -Infinity;
    t.children.forEach(([a, b], m) => {
      const low = Math.min(W[a * t.nodes + m], W[b * t.nodes + m]);
      let high = -Infinity;
      for (let j = 0; j < seen[m]; j++) if (j !== a && j !== b) high = Math.max(high, W[j * t.nodes + m]);
      found += low > high;
      child += (W[a * t.nodes + m] + W[b * t.nodes + m]) / 2 / t.nodes;
      lowest = Math.min(lowest, low);
      other = Math.max(other, high);
    });
    return {support: found / t.nodes, child, lowest, other};
  }

  // --- predictions ---------------------------------------------------------------------------------------------------------------

  /* Noise of an entry in units of the signal, sqrt(2V/n). */
  const noise = (seen, samples) => Math.sqrt((2 * seen) / samples);
  /* The n from which on the two largest weights of all nodes are those of their children, to leading order. */
  function supportSamples(seen, nodes) {
    const deviations = Math.sqrt(2 * Math.log(2 * nodes)) + Math.sqrt(2 * Math.log(seen * nodes));
    return 2 * seen * deviations ** 2;
  }
  function leakage(seen, lam) { const others = (seen - 2) * Math.exp(-lam); return others / (others + 2); }
  /* The population gradient of a node that sees V independent bits, at a child. */
  const firstChild = (V) => (-8 / V ** 2) * (1 - 5 / V + 14 / V ** 2 - 16 / V ** 3);

  stairwise.parity = {tree, visible, drawBlock, scoresOf, forcedAtZero, generate, generated, gradient, learningRate, quantise, gatesOf, evaluate, weights, noise, supportSamples, leakage, firstChild, CURVATURE};
})();
