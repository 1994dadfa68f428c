"use strict";
/* What the machines share: seeded draws, series of measurements, numbers as text. Nothing here touches the page. */
var stairwise = {machines: []};

(function () {
  /* A seeded generator (sfc32): uniform in [0, 1), with normals, whole numbers, signs, subsets and permutations. */
  function random(seed) {
    let a = 0x9e3779b9 ^ seed, b = 0x243f6a88, c = 0xb7e15162, n = 1, spare = null;
    function bits() {
      const t = (((a + b) | 0) + n) | 0;
      n = (n + 1) | 0;
      a = b ^ (b >>> 9);
      b = (c + (c << 3)) | 0;
      c = (((c << 21) | (c >>> 11)) + t) | 0;
      return t >>> 0;
    }
    for (let i = 0; i < 15; i++) bits();
    const self = {
      bits,
      uniform: () => bits() / 4294967296,
      below: (high) => Math.floor((bits() / 4294967296) * high),
      sign: () => (bits() & 1024 ? 1 : -1),
      normal() {
        if (spare !== null) { const kept = spare; spare = null; return kept; }
        let x, y, r;
        do { x = 2 * self.uniform() - 1; y = 2 * self.uniform() - 1; r = x * x + y * y; } while (r >= 1 || r === 0);
        const f = Math.sqrt((-2 * Math.log(r)) / r);
        spare = y * f;
        return x * f;
      },
      permutation(n) {
        const p = Array.from({length: n}, (_, i) => i);
        for (let i = n - 1; i > 0; i--) { const j = self.below(i + 1); [p[i], p[j]] = [p[j], p[i]]; }
        return p;
      },
      /* Floyd's algorithm: `size` different numbers below `n`. */
      subset(n, size) {
        const chosen = [];
        for (let top = n - size; top < n; top++) {
          const pick = self.below(top + 1);
          chosen.push(chosen.includes(pick) ? top : pick);
        }
        return chosen;
      },
    };
    return self;
  }

  /* Rows of measurements; beyond `most` rows every second one is dropped, so that drawing costs the same for ever. */
  class Series {
    constructor(most = 600) { this.rows = []; this.most = most; this.every = 1; this.seen = 0; this.last = null; }
    push(row) {
      this.last = row;
      if (this.seen++ % this.every === 0) this.rows.push(row);
      if (this.rows.length > this.most) {
        this.rows = this.rows.filter((_, i) => i % 2 === 0);
        this.every *= 2;
      }
    }
    points(x, y) {
      const rows = this.last && this.rows[this.rows.length - 1] !== this.last ? [...this.rows, this.last] : this.rows;
      return rows.map((row) => [row[x], row[y]]).filter((p) => Number.isFinite(p[0]) && Number.isFinite(p[1]));
    }
  }

  const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const raised = (n) => (n < 0 ? "⁻" : "") + String(Math.abs(n)).split("").map((c) => RAISED[c]).join("");

  /* Three significant digits, powers of ten as powers of ten. */
  function text(x) {
    if (!Number.isFinite(x)) return x > 0 ? "∞" : x < 0 ? "−∞" : "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (Number.isInteger(x) && size < 1e6) return x.toLocaleString("en").replace("-", "−");
    if (size >= 1e5 || size < 1e-3) {
      const power = Math.floor(Math.log10(size) + 1e-12), front = x / 10 ** power;
      const digits = Math.abs(Math.abs(front) - 1) < 5e-3 ? (x < 0 ? "−" : "") : `${front.toFixed(1).replace("-", "−")}·`;
      return `${digits}10${raised(power)}`;
    }
    return String(Number(x.toPrecision(3))).replace("-", "−");
  }

  Object.assign(stairwise, {random, Series, text});
})();
