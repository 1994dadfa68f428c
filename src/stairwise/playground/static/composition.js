"use strict";
/* k-fold composition: the attention-only transformer of the theory, its losses and exact gradients through soft attention.
   Formulas and names as in stairwise.papers.composition (model.py, task.py, train.py, theory/exact.py, theory/noise.py).
   Token q = i N + j is letter j of block i. The stream has L+2 blocks: the place, the value, and what each layer writes. */
(function () {
  const TINY = 1e-15; // attention below this is as good as none
  /* hop_i^r(j) for all tokens: sigma_{i+r-1} pi_{i+r-1} ... sigma_i pi_i. */
  function hop(hidden, sequence, r) {
    const k = hidden.length, N = hidden[0].length, made = [];
    for (let i = 0; i < k; i++)
      for (let j = 0; j < N; j++) {
        let letter = j;
        for (let s = 0; s < r; s++) { const at = (i + s) % k; letter = sequence[at][hidden[at][letter]]; }
        made.push(letter);
      }
    return made;
  }
  /* The key that each query should attend to in layer l (from 0): its own block's pi first, then where the hop so far leads. */
  function rightKeys(hidden, sequence, layer) {
    const k = hidden.length, N = hidden[0].length, r = layer === 0 ? 0 : 2 ** (layer - 1), reached = layer === 0 ? null : hop(hidden, sequence, r);
    return Array.from({length: k * N}, (_, q) => {
      const i = Math.floor(q / N), j = q % N;
      return layer === 0 ? i * N + hidden[i][j] : ((i + r) % k) * N + reached[q];
    });
  }
  function drawSequence(random, k, N) { return Array.from({length: k}, () => random.permutation(N)); }

  class Model {
    constructor(k, N, beta0 = 1) {
      this.k = k; this.N = N; this.T = k * N; this.L = Math.round(Math.log2(k)) + 1;
      const {T, L} = this;
      this.W = Array.from({length: L}, (_, l) => new Float64Array((l + 2) ** 2 * T * T));
      this.idle = this.W.map(() => true); // a matrix that is zero attends evenly
      this.psi = new Float64Array(L * (L + 2) * T * N);
      for (let h = 0; h < L; h++) for (let u = 0; u < T; u++) this.psi[((h * (L + 2) + h + 2) * T + u) * N + (u % N)] = beta0;
      this.X = Array.from({length: L + 2}, () => new Float64Array(T * T)); // column of token q at q T
      this.S = Array.from({length: L}, () => new Float64Array(T * T));
      this.rows = Array.from({length: L}, (_, l) => new Float64Array((l + 2) * T * T)); // per query
      this.dX = this.X.map((x) => x.slice());
      this.filled = Array.from({length: L + 2}, () => Array.from({length: T}, () => [])); // where a column is not zero
      this.clear();
    }
    clear() { this.gW = this.W.map((w) => new Float64Array(w.length)); this.gPsi = new Float64Array(this.psi.length); }

    place(sequence) {
      const {k, N} = this;
      this.seen = [];
      for (let i = 0; i < k; i++) for (let j = 0; j < N; j++) this.seen.push(i * N + sequence[i][j]);
    }
    /* Layer l at token q: rows_a = sum_b W_ab X_b[:, q], then the softmax of sum_a X_a[:, p] rows_a over keys p, then the copy. */
    column(l, q) {
      const {T, X, seen, filled} = this, B = l + 2, W = this.W[l], S = this.S[l], out = this.X[l + 2], base = q * T;
      if (this.idle[l]) for (let p = 0; p < T; p++) S[base + p] = 1 / T;
      else {
        const rows = this.rows[l], from = q * B * T;
        for (let a = 0; a < B; a++)
          for (let u = 0; u < T; u++) {
            const at = (a * B * T + u) * T;
            let sum = W[at + q] + W[at + T * T + seen[q]];
            for (let b = 2; b < B; b++) { const x = X[b], row = ((a * B + b) * T + u) * T; for (const v of filled[b][q]) sum += W[row + v] * x[base + v]; }
            rows[from + a * T + u] = sum;
          }
        let top = -Infinity, total = 0;
        for (let p = 0; p < T; p++) {
          let sum = rows[from + p] + rows[from + T + seen[p]];
          for (let a = 2; a < B; a++) { const x = X[a]; for (const u of filled[a][p]) sum += x[p * T + u] * rows[from + a * T + u]; }
          S[base + p] = sum;
          if (sum > top) top = sum;
        }
        for (let p = 0; p < T; p++) total += S[base + p] = Math.exp(S[base + p] - top);
        for (let p = 0; p < T; p++) S[base + p] /= total;
      }
      for (let u = 0; u < T; u++) out[base + u] = 0;
      if (l === 0) for (let p = 0; p < T; p++) out[base + seen[p]] += S[base + p];
      else {
        const value = X[l + 1];
        for (let p = 0; p < T; p++) { const s = S[base + p]; if (s > TINY) for (const u of filled[l + 1][p]) out[base + u] += s * value[p * T + u]; }
      }
      const places = filled[l + 2][q];
      places.length = 0;
      for (let u = 0; u < T; u++) if (out[base + u] > TINY) places.push(u);
    }
    /* `depth` layers; the last one at token `query` only, where it is given. */
    stream(sequence, depth = this.L, query = null) {
      this.place(sequence);
      for (let l = 0; l < depth; l++) {
        if (l === depth - 1 && query !== null) this.column(l, query);
        else for (let q = 0; q < this.T; q++) this.column(l, q);
      }
    }
    /* What head h says at token q, from the blocks that `depth` layers have written. */
    logits(h, q, depth = this.L) {
      const {T, N, L, psi, X, seen} = this, made = new Float64Array(N);
      for (let b = 0; b < depth + 2; b++) {
        const at = (h * (L + 2) + b) * T;
        if (b < 2) for (let n = 0, u = b ? seen[q] : q; n < N; n++) made[n] += psi[(at + u) * N + n];
        else for (let u = 0; u < T; u++) { const x = X[b][q * T + u]; for (let n = 0; n < N; n++) made[n] += x * psi[(at + u) * N + n]; }
      }
      return made;
    }
    /* -log p of the label; `wrong` becomes softmax - one-hot. */
    cost(made, label, wrong) {
      const top = Math.max(...made);
      let total = 0;
      for (const v of made) total += Math.exp(v - top);
      if (wrong) for (let n = 0; n < made.length; n++) wrong[n] = Math.exp(made[n] - top) / total - (n === label ? 1 : 0);
      return Math.log(total) + top - made[label];
    }
    /* Adds the key-query gradient of the heads' losses at one token to gW; labels are those of all heads. Returns the loss. */
    learnKeys(sequence, query, labels, heads) {
      const {T, N, L, psi, dX} = this, depth = Math.max(...heads) + 1, wrong = new Float64Array(N);
      this.stream(sequence, depth, query);
      for (let b = 2; b < depth + 2; b++) dX[b].fill(0);
      let loss = 0;
      for (const h of heads) {
        loss += this.cost(this.logits(h, query, depth), labels[h], wrong);
        for (let b = 2; b < depth + 2; b++)
          for (let u = 0, at = (h * (L + 2) + b) * T; u < T; u++) {
            let sum = 0;
            for (let n = 0; n < N; n++) sum += psi[(at + u) * N + n] * wrong[n];
            dX[b][query * T + u] += sum;
          }
      }
      for (let l = depth - 1; l >= 0; l--) {
        if (l === depth - 1) this.back(l, query);
        else for (let q = 0; q < T; q++) this.back(l, q);
      }
      return loss;
    }
    /* The gradient that layer l receives at token q, into gW and into the blocks below. */
    back(l, q) {
      const {T, X, dX, seen, filled} = this, B = l + 2, W = this.W[l], g = this.gW[l], S = this.S[l], base = q * T, dB = dX[l + 2];
      const ds = new Float64Array(T), Y = new Float64Array(B * T), rows = this.rows[l], from = q * B * T;
      let mean = 0, most = 0;
      for (let u = 0; u < T; u++) most = Math.max(most, Math.abs(dB[base + u]));
      if (most < TINY) return;
      for (let p = 0; p < T; p++) {
        let sum = 0;
        const s = S[base + p];
        if (s < TINY) continue;
        if (l === 0) sum = dB[base + seen[p]];
        else {
          const value = X[l + 1], into = dX[l + 1];
          for (const u of filled[l + 1][p]) sum += value[p * T + u] * dB[base + u];
          for (let u = 0; u < T; u++) into[p * T + u] += s * dB[base + u];
        }
        ds[p] = sum;
        mean += s * sum;
      }
      most = 0;
      for (let p = 0; p < T; p++) { ds[p] = S[base + p] * (ds[p] - mean); most = Math.max(most, Math.abs(ds[p])); }
      if (most < TINY) return;
      for (let p = 0; p < T; p++) { Y[p] += ds[p]; Y[T + seen[p]] += ds[p]; }
      for (let a = 2; a < B; a++)
        for (let p = 0; p < T; p++) { const d = ds[p]; if (d !== 0) for (const u of filled[a][p]) Y[a * T + u] += X[a][p * T + u] * d; }
      for (let a = 0; a < B; a++)
        for (let u = 0; u < T; u++) {
          const y = Y[a * T + u];
          if (y === 0) continue;
          g[(a * B * T + u) * T + q] += y;
          g[((a * B + 1) * T + u) * T + seen[q]] += y;
          for (let b = 2; b < B; b++) { const x = X[b], at = ((a * B + b) * T + u) * T; for (const v of filled[b][q]) g[at + v] += y * x[base + v]; }
        }
      if (l === 0 || this.idle[l]) return;
      for (let a = 2; a < B; a++)
        for (let p = 0; p < T; p++) { const d = ds[p]; if (d !== 0) for (let u = 0; u < T; u++) dX[a][p * T + u] += rows[from + a * T + u] * d; }
      for (let b = 2; b < B; b++)
        for (let a = 0; a < B; a++)
          for (let u = 0; u < T; u++) {
            const y = Y[a * T + u];
            if (y !== 0) for (let v = 0, at = ((a * B + b) * T + u) * T; v < T; v++) dX[b][base + v] += W[at + v] * y;
          }
    }
    /* Adds the readouts' gradient of the heads' losses at one token to gPsi. Returns the loss. */
    learnReadouts(sequence, query, labels, heads) {
      const {T, N, L, X, seen, gPsi} = this, wrong = new Float64Array(N);
      this.stream(sequence, L, query);
      let loss = 0;
      for (const h of heads) {
        loss += this.cost(this.logits(h, query), labels[h], wrong);
        for (let b = 0; b < L + 2; b++) {
          const at = (h * (L + 2) + b) * T;
          if (b < 2) for (let n = 0, u = b ? seen[query] : query; n < N; n++) gPsi[(at + u) * N + n] += wrong[n];
          else for (let u = 0; u < T; u++) { const x = X[b][query * T + u]; if (x !== 0) for (let n = 0; n < N; n++) gPsi[(at + u) * N + n] += x * wrong[n]; }
        }
      }
      return loss;
    }
    /* One step on all key-query matrices (or all readouts) with the sums over `samples`; max |eta gradient| per layer. */
    take(rate, samples, readouts) {
      const size = rate / samples, moved = this.W.map(() => 0);
      if (readouts) for (let i = 0; i < this.psi.length; i++) this.psi[i] -= size * this.gPsi[i];
      else
        this.W.forEach((w, l) => {
          for (let i = 0; i < w.length; i++) { const step = size * this.gW[l][i]; moved[l] = Math.max(moved[l], Math.abs(step)); w[i] -= step; }
          if (moved[l] > 0) this.idle[l] = false;
        });
      this.clear();
      return moved;
    }
  }

  /* Loss, accuracy and attention on the right key of every head and layer, over all tokens of the sequences. */
  function evaluate(model, hidden, sequences) {
    const {L, T} = model, made = Array.from({length: L}, () => ({loss: 0, accuracy: 0, right: 0})), all = sequences.length * T;
    for (const sequence of sequences) {
      model.stream(sequence);
      for (let l = 0; l < L; l++) {
        const keys = rightKeys(hidden, sequence, l), labels = hop(hidden, sequence, 2 ** l);
        for (let q = 0; q < T; q++) {
          const said = model.logits(l, q);
          made[l].right += model.S[l][q * T + keys[q]] / all;
          made[l].loss += model.cost(said, labels[q]) / all;
          made[l].accuracy += (said.indexOf(Math.max(...said)) === labels[q] ? 1 : 0) / all;
        }
      }
    }
    return made;
  }

  // --- predictions -----------------------------------------------------------------------------------------------------------------

  /* The loss of a head whose layer is learned and whose readout is not yet. */
  const plateau = (N, beta0) => Math.log1p((N - 1) * Math.exp(-beta0));
  /* How far the right key stands above the others after a step, in standard deviations of their difference. */
  const marginOverNoise = (k, N, M, layer) => Math.sqrt(((N - 1) * M) / (2 * (layer + 1) ** 2 * k * N));
  /* The rate at which one step moves the right key's score by `logit`: eta beta0/(kN) times the largest entry (1-1/N)/(kN) of g. */
  const rateFor = (k, N, beta0, logit) => (logit * (k * N) ** 2) / (beta0 * (1 - 1 / N));

  stairwise.composition = {hop, rightKeys, drawSequence, Model, evaluate, plateau, marginOverNoise, rateFor};
})();
