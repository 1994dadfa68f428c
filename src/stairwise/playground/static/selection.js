"use strict";
/* Sparse token selection: the exact flow of two scalars (one-hot encodings), and SGD on (W, V) with sign encodings.
   Formulas and names as in stairwise.papers.selection (theory/onehot.py, theory/generalisation.py, model.py, train.py).
   A task is {T, q, d}. */
(function () {
  // --- the two scalars: alpha scales the value, C the attention --------------------------------------------------------

  const namedAttention = ({T, q}, C) => 1 / (q + (T - q) * Math.exp(-C));
  const leak = ({T, q}, C) => (T - q) * Math.exp(-C) * namedAttention({T, q}, C);
  function loss({T, q, d}, alpha, C) {
    const u = leak({T, q}, C), missing = 1 - alpha + alpha * u;
    return (d / 2) * (missing ** 2 / q + (alpha * u) ** 2 / Math.max(1, T - q));
  }
  function slopes({T, q, d}, alpha, C) {
    const decay = (T - q) * Math.exp(-C), s = 1 / (q + decay), u = decay * s, others = Math.max(1, T - q);
    const drive = 1 - alpha + (alpha * T * u) / others;
    return [s - alpha * (q * s * s + (u * u) / others), ((alpha * d) / Math.max(1, T - 1)) * s * u * drive];
  }
  /* The late law L = (T-1)/(4 t), whatever d and q. */
  const lateLaw = ({T}, time) => (T - 1) / (4 * time);
  const slack = ({T, q, d}, epsilon) => Math.sqrt((q * (T - q) * epsilon) / (d * T));
  /* The C beyond which s >= (1-x)/q, with which the loss is below epsilon. */
  const attentionThreshold = (task, epsilon) => Math.log((task.T - task.q) / task.q / slack(task, epsilon));
  function lossRatioLimit(trained, tested) {
    const r = (trained.q * (tested.T - tested.q)) / (tested.q * (trained.T - trained.q));
    return (trained.T - trained.q) * ((r - 1) ** 2 / tested.q + r ** 2 / (tested.T - tested.q));
  }

  /* Dormand and Prince's method of order 5, with steps as long as the tolerance allows: the flow (alpha, C)' = slopes. */
  class Flow {
    constructor(task) { this.task = task; this.time = 0; this.alpha = 0; this.C = 0; this.h = 1e-3; }
    to(time) {
      const f = (a, C) => slopes(this.task, a, C);
      while (this.time < time) {
        const h = Math.min(this.h, time - this.time), {alpha: a, C: c} = this;
        const k1 = f(a, c);
        const k2 = f(a + (h * k1[0]) / 5, c + (h * k1[1]) / 5);
        const k3 = f(a + h * (0.075 * k1[0] + 0.225 * k2[0]), c + h * (0.075 * k1[1] + 0.225 * k2[1]));
        const at = (i) => h * ((44 / 45) * k1[i] - (56 / 15) * k2[i] + (32 / 9) * k3[i]);
        const k4 = f(a + at(0), c + at(1));
        const bt = (i) => h * ((19372 / 6561) * k1[i] - (25360 / 2187) * k2[i] + (64448 / 6561) * k3[i] - (212 / 729) * k4[i]);
        const k5 = f(a + bt(0), c + bt(1));
        const ct = (i) => h * ((9017 / 3168) * k1[i] - (355 / 33) * k2[i] + (46732 / 5247) * k3[i] + (49 / 176) * k4[i] - (5103 / 18656) * k5[i]);
        const k6 = f(a + ct(0), c + ct(1));
        const dt = (i) => h * ((35 / 384) * k1[i] + (500 / 1113) * k3[i] + (125 / 192) * k4[i] - (2187 / 6784) * k5[i] + (11 / 84) * k6[i]);
        const a5 = a + dt(0), c5 = c + dt(1), k7 = f(a5, c5);
        const off = (i) => h * ((71 / 57600) * k1[i] - (71 / 16695) * k3[i] + (71 / 1920) * k4[i] - (17253 / 339200) * k5[i] + (22 / 525) * k6[i] - k7[i] / 40);
        const error = Math.max(Math.abs(off(0)), Math.abs(off(1))) / (1e-10 * Math.max(1, Math.abs(c5)));
        if (error <= 1) { this.time = h === time - this.time ? time : this.time + h; this.alpha = a5; this.C = c5; }
        this.h = h * Math.min(4, Math.max(0.2, 0.9 * Math.max(error, 1e-8) ** -0.2));
      }
      return this;
    }
  }
  // --- the same two scalars with stochastic encodings: the law is pairs (E, y), each with its overlaps <e_i, e_y> off y ----

  function overlaps(random, task, width, pairs) {
    const e = new Float64Array(width);
    return Array.from({length: pairs}, () => {
      const E = encodings(random, task.T, width), subset = random.subset(task.T, task.q), row = [];
      subsetEncoding(E, width, subset, e);
      for (let i = 0; i < task.T; i++) {
        if (subset.includes(i)) continue;
        let dot = 0;
        for (let k = 0; k < width; k++) dot += E[i * width + k] * e[k];
        row.push(dot);
      }
      return row;
    });
  }
  /* The loss, and (alpha', C') of descent on it, where each step sees one E: E s - alpha E|S|^2 and (d alpha/d_e) E Cov_S(g, Y/q - alpha S). */
  function lossAveraged({q, d}, width, law, alpha, C) {
    let cost = 0, value = 0, pull = 0;
    for (const row of law) {
      let total = 0, squares = 0, score = 0, crossed = 0;
      for (const g of row) { const f = Math.exp(C * (g - 1)); total += f; squares += f * f; score += f * g; crossed += f * f * g; }
      const s = 1 / (q + total), others = squares * s * s, u = total * s, missing = 1 - alpha + alpha * u;
      const residual = s - alpha * (q * s * s + others);
      cost += missing * missing / q + alpha * alpha * others;
      value += residual;
      pull += q * s * (1 / q - alpha * s) - alpha * crossed * s * s - (q * s + score * s) * residual;
    }
    return {loss: (d / 2) * cost / law.length, value: value / law.length, attention: ((d * alpha) / width) * pull / law.length};
  }

  function flow(task, times) {
    const one = new Flow(task), found = {alpha: [], C: []};
    for (const time of times) { one.to(time); found.alpha.push(one.alpha); found.C.push(one.C); }
    return found;
  }

  // --- SGD on samples ----------------------------------------------------------------------------------------------------

  /* `count` sign vectors of unit norm, one after another; a row that equals an earlier one up to sign is drawn again. */
  function encodings(random, count, width) {
    const E = new Float64Array(count * width), size = 1 / Math.sqrt(width), seen = new Set();
    for (let i = 0; i < count; i++) {
      let name;
      do {
        name = "";
        let word = 0;
        for (let k = 0; k < width; k++) {
          if (k % 24 === 0) word = random.bits();
          const bit = (word >>> (k % 24)) & 1;
          E[i * width + k] = bit ? -size : size;
          if (k < 48) name += bit ^ (E[i * width] < 0 ? 1 : 0);
        }
      } while (seen.has(name) && width <= 48);
      seen.add(name);
    }
    return E;
  }

  /* e_y = E_y (E_y^T E_y)^{-1} 1, by elimination. */
  function subsetEncoding(E, width, subset, out) {
    const q = subset.length, A = [];
    for (let i = 0; i < q; i++) {
      const row = new Float64Array(q + 1);
      for (let j = 0; j < q; j++) {
        let dot = 0;
        for (let k = 0; k < width; k++) dot += E[subset[i] * width + k] * E[subset[j] * width + k];
        row[j] = dot;
      }
      row[q] = 1;
      A.push(row);
    }
    for (let i = 0; i < q; i++)
      for (let r = 0; r < q; r++) {
        if (r === i) continue;
        const f = A[r][i] / A[i][i];
        for (let c = i; c <= q; c++) A[r][c] -= f * A[i][c];
      }
    out.fill(0);
    for (let i = 0; i < q; i++) {
      const f = A[i][q] / A[i][i];
      for (let k = 0; k < width; k++) out[k] += f * E[subset[i] * width + k];
    }
    return out;
  }

  /* One-layer softmax attention f = V Z softmax(Z^T W [0; e_y]); x_query is zero, so only the columns of W that meet e_y exist. */
  class Attention {
    constructor(d, width) {
      this.d = d; this.width = width; this.joint = d + width;
      this.W = new Float64Array(this.joint * width); // row-major, joint x width
      this.V = new Float64Array(d * this.joint);
      this.gW = new Float64Array(this.W.length); this.gV = new Float64Array(this.V.length);
      this.e = new Float64Array(width); this.u = new Float64Array(this.joint); this.m = new Float64Array(this.joint);
      this.g = new Float64Array(this.joint); this.gu = new Float64Array(this.joint); this.r = new Float64Array(d);
      this.S = new Float64Array(0);
    }
    /* softmax(Z^T W z_query) over the first T positions; tokens may be absent, as if zero. */
    attend(X, E, T, subset) {
      const {d, width, joint, W, e, u} = this;
      if (this.S.length < T) this.S = new Float64Array(T);
      subsetEncoding(E, width, subset, e);
      for (let i = 0; i < joint; i++) {
        let sum = 0;
        for (let k = 0, p = i * width; k < width; k++) sum += W[p + k] * e[k];
        u[i] = sum;
      }
      const S = this.S;
      let top = -Infinity, total = 0;
      for (let i = 0; i < T; i++) {
        let sum = 0;
        if (X) for (let k = 0, p = i * d; k < d; k++) sum += X[p + k] * u[k];
        for (let k = 0, p = i * width; k < width; k++) sum += E[p + k] * u[d + k];
        S[i] = sum;
        if (sum > top) top = sum;
      }
      for (let i = 0; i < T; i++) total += S[i] = Math.exp(S[i] - top);
      for (let i = 0; i < T; i++) S[i] /= total;
      return S;
    }
    /* The loss of one example; with `learn` its gradient is added to gW and gV. */
    example(X, E, T, subset, learn) {
      const {d, width, joint, V, m, r, g, gu, gW, gV, e} = this, S = this.attend(X, E, T, subset);
      m.fill(0);
      for (let i = 0; i < T; i++) {
        const s = S[i];
        for (let k = 0, p = i * d; k < d; k++) m[k] += s * X[p + k];
        for (let k = 0, p = i * width; k < width; k++) m[d + k] += s * E[p + k];
      }
      let cost = 0;
      for (let k = 0; k < d; k++) {
        let sum = 0;
        for (const i of subset) sum += X[i * d + k];
        sum /= subset.length;
        for (let c = 0, p = k * joint; c < joint; c++) sum -= V[p + c] * m[c];
        r[k] = sum;
        cost += (sum * sum) / 2;
      }
      if (!learn) return cost;
      g.fill(0);
      for (let k = 0; k < d; k++)
        for (let c = 0, p = k * joint; c < joint; c++) { gV[p + c] -= r[k] * m[c]; g[c] += V[p + c] * r[k]; }
      let mean = 0;
      for (let c = 0; c < joint; c++) mean += g[c] * m[c];
      gu.fill(0);
      for (let i = 0; i < T; i++) {
        let pull = 0;
        for (let k = 0, p = i * d; k < d; k++) pull += X[p + k] * g[k];
        for (let k = 0, p = i * width; k < width; k++) pull += E[p + k] * g[d + k];
        const f = -S[i] * (pull - mean);
        for (let k = 0, p = i * d; k < d; k++) gu[k] += f * X[p + k];
        for (let k = 0, p = i * width; k < width; k++) gu[d + k] += f * E[p + k];
      }
      for (let i = 0; i < joint; i++)
        for (let k = 0, p = i * width, f = gu[i]; k < width; k++) gW[p + k] += f * e[k];
      return cost;
    }
    /* One step of SGD on the mean loss of examples [{tokens, subset}] under one set of encodings; returns that loss. */
    descend(examples, E, T, rate) {
      let cost = 0;
      for (const {tokens, subset} of examples) cost += this.example(tokens, E, T, subset, true);
      const size = rate / examples.length;
      for (const [weights, gradient] of [[this.W, this.gW], [this.V, this.gV]]) {
        for (let i = 0; i < weights.length; i++) weights[i] -= size * gradient[i];
        gradient.fill(0);
      }
      return cost / examples.length;
    }
    /* The order parameters: the traces of V's token block and of W's position block, per dimension. */
    alpha() { let sum = 0; for (let k = 0; k < this.d; k++) sum += this.V[k * this.joint + k]; return sum / this.d; }
    C() { let sum = 0; for (let k = 0; k < this.width; k++) sum += this.W[(this.d + k) * this.width + k]; return sum / this.width; }
  }

  function drawExample(random, {T, q, d}) {
    const tokens = new Float64Array(T * d);
    for (let i = 0; i < tokens.length; i++) tokens[i] = random.normal();
    return {tokens, subset: random.subset(T, q)};
  }
  /* Mean loss over examples that each have the given length. */
  function testLoss(model, examples, E, T) {
    let cost = 0;
    for (const {tokens, subset} of examples) cost += model.example(tokens, E, T, subset, false);
    return cost / examples.length;
  }

  stairwise.selection = {namedAttention, leak, loss, slopes, lateLaw, attentionThreshold, lossRatioLimit, flow, Flow, overlaps, lossAveraged, Attention, encodings, subsetEncoding, drawExample, testLoss};
})();
