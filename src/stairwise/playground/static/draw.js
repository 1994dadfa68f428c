"use strict";
/* Charts, maps and marks on a canvas. Colours come from the page's style, so that dark mode is one place. */
(function () {
  const text = stairwise.text;

  function theme() {
    const style = getComputedStyle(document.documentElement), made = {};
    for (const name of ["ink", "soft", "line", "card", "a", "b", "c", "d", "e", "good", "bad"])
      made[name] = style.getPropertyValue(`--${name}`).trim();
    made.font = (size, weight = 400) => `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
    return made;
  }

  function ticksLinear(low, high, most = 5) {
    const span = high - low || 1, raw = span / most, unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((f) => f * unit).find((s) => s >= raw);
    const found = [];
    for (let x = Math.ceil(low / step - 1e-9) * step; x <= high + 1e-9 * span; x += step) found.push(Math.abs(x) < 1e-12 * span ? 0 : x);
    return found;
  }
  function ticksLog(low, high, most = 6) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    const every = Math.max(1, Math.ceil((last - first + 1) / most)), found = [];
    for (let p = first; p <= last; p += every) found.push(10 ** p);
    return found.length > 1 ? found : ticksLinear(low, high, 4).filter((x) => x > 0);
  }
  function ticksTwo(low, high) {
    const first = Math.ceil(Math.log2(low) - 1e-9), last = Math.floor(Math.log2(high) + 1e-9), every = Math.ceil((last - first + 1) / 6), found = [];
    for (let p = last; p >= first; p -= every) found.push(2 ** p);
    return found;
  }

  /* A chart: axes {x, y} with {low, high, log, two, label}, lines [{points, color, dash, width, name}], marks [{x|y, name, color}],
     dots [{points, color, size}]. Returns the two scales, for more to be drawn on top. */
  function chart(ctx, w, h, t, {x, y, lines = [], marks = [], dots = [], legend = true}) {
    const named = legend ? [...lines, ...dots].filter((l) => l.name) : [];
    ctx.font = t.font(12);
    let rows = named.length ? 1 : 0, at = 0;
    const places = named.map((l) => {
      const width = ctx.measureText(l.name).width + 38;
      if (at + width > w - 46 && at > 0) { at = 0; rows++; }
      const place = [at, rows - 1];
      at += width;
      return place;
    });
    const box = {left: 50, right: w - 18, top: 10 + 19 * rows, bottom: h - (x.label ? 36 : 22)};
    const scale = (axis, from, to) => {
      const f = axis.log || axis.two ? Math.log : (v) => v, low = f(axis.low), span = f(axis.high) - low || 1;
      return (v) => from + ((f(v) - low) / span) * (to - from);
    };
    const sx = scale(x, box.left, box.right), sy = scale(y, box.bottom, box.top);
    const ticks = (axis, most) => axis.ticks || (axis.two ? ticksTwo(axis.low, axis.high) : axis.log ? ticksLog(axis.low, axis.high, most) : ticksLinear(axis.low, axis.high, most));

    ctx.lineWidth = 1;
    ctx.textBaseline = "middle";
    for (const v of ticks(y, Math.max(2, Math.floor((box.bottom - box.top) / 38)))) {
      const p = Math.round(sy(v)) + 0.5;
      ctx.strokeStyle = t.line;
      ctx.beginPath(); ctx.moveTo(box.left, p); ctx.lineTo(box.right, p); ctx.stroke();
      ctx.fillStyle = t.soft; ctx.textAlign = "right";
      ctx.fillText(y.show ? y.show(v) : text(v), box.left - 7, p);
    }
    ctx.textAlign = "center"; ctx.textBaseline = "top"; ctx.fillStyle = t.soft;
    for (const v of ticks(x, Math.max(2, Math.floor((box.right - box.left) / 62)))) ctx.fillText(x.show ? x.show(v) : text(v), sx(v), box.bottom + 6);
    if (x.label) ctx.fillText(x.label, (box.left + box.right) / 2, box.bottom + 21);
    ctx.strokeStyle = t.soft;
    ctx.beginPath(); ctx.moveTo(box.left, box.bottom + 0.5); ctx.lineTo(box.right, box.bottom + 0.5); ctx.stroke();

    ctx.save();
    ctx.beginPath(); ctx.rect(box.left, box.top - 4, box.right - box.left + 6, box.bottom - box.top + 5); ctx.clip();
    for (const mark of marks) {
      ctx.strokeStyle = mark.color || t.soft; ctx.setLineDash([2, 4]); ctx.lineWidth = 1.5;
      ctx.beginPath();
      if (mark.x !== undefined) { const p = sx(mark.x); ctx.moveTo(p, box.top); ctx.lineTo(p, box.bottom); }
      else { const p = sy(mark.y); ctx.moveTo(box.left, p); ctx.lineTo(box.right, p); }
      ctx.stroke(); ctx.setLineDash([]);
      if (mark.name) {
        ctx.fillStyle = mark.color || t.soft; ctx.font = t.font(12, 600);
        if (mark.x !== undefined) {
          const p = sx(mark.x), right = p > (box.left + box.right) / 2;
          ctx.textAlign = right ? "right" : "left"; ctx.textBaseline = "top";
          ctx.fillText(mark.name, p + (right ? -5 : 5), box.top + (mark.lower || 0));
        } else {
          ctx.textAlign = mark.left ? "left" : "right"; ctx.textBaseline = "bottom";
          ctx.fillText(mark.name, mark.left ? box.left + 6 : box.right - 2, sy(mark.y) - 2);
        }
      }
    }
    for (const line of lines) {
      if (!line.points.length) continue;
      ctx.strokeStyle = line.color; ctx.lineWidth = line.width || 2.2; ctx.lineJoin = "round"; ctx.setLineDash(line.dash || []);
      ctx.globalAlpha = line.alpha || 1;
      ctx.beginPath();
      for (const [a, b] of line.points) ctx.lineTo(sx(a), sy(y.log ? Math.max(b, y.low / 10) : b));
      ctx.stroke(); ctx.setLineDash([]);
      if (line.head) {
        const [a, b] = line.points[line.points.length - 1];
        ctx.fillStyle = line.color;
        ctx.beginPath(); ctx.arc(sx(a), sy(y.log ? Math.max(b, y.low) : b), 4, 0, 7); ctx.fill();
      }
      ctx.globalAlpha = 1;
    }
    for (const group of dots) {
      ctx.fillStyle = group.color;
      for (const [a, b] of group.points) { ctx.beginPath(); ctx.arc(sx(a), sy(b), group.size || 3.5, 0, 7); ctx.fill(); }
    }
    ctx.restore();

    ctx.font = t.font(12); ctx.textAlign = "left"; ctx.textBaseline = "middle";
    named.forEach((l, i) => {
      const px = 46 + places[i][0], py = 9 + 19 * places[i][1];
      ctx.strokeStyle = ctx.fillStyle = l.color; ctx.lineWidth = 3;
      if (l.size) { ctx.beginPath(); ctx.arc(px + 11, py, 4, 0, 7); ctx.fill(); }
      else { ctx.setLineDash(l.dash ? [5, 4] : []); ctx.beginPath(); ctx.moveTo(px + 2, py); ctx.lineTo(px + 20, py); ctx.stroke(); ctx.setLineDash([]); }
      ctx.fillStyle = t.ink;
      ctx.fillText(l.name, px + 25, py);
    });
    return {sx, sy, box};
  }

  /* Numbers as colours: negative one hue, positive the other, zero the card. */
  function mixer(t) {
    const rgb = (c) => {
      const m = /^#(..)(..)(..)$/.exec(c);
      return [1, 2, 3].map((i) => parseInt(m[i], 16));
    };
    const zero = rgb(t.card), high = rgb(t.a), low = rgb(t.b);
    return (v) => {
      const s = Math.min(1, Math.abs(v)), end = v < 0 ? low : high;
      return zero.map((z, i) => Math.round(z + (end[i] - z) * s));
    };
  }

  /* A matrix of values(row, column) in -1..1 as an image scaled to a box. */
  const scratch = typeof document === "undefined" ? null : document.createElement("canvas");
  function heat(ctx, t, rows, columns, value, left, top, width, height) {
    const mix = mixer(t), table = [];
    for (let i = 0; i <= 128; i++) table.push(mix(i / 64 - 1));
    if (scratch.width !== columns || scratch.height !== rows) { scratch.width = columns; scratch.height = rows; }
    const c = scratch.getContext("2d"), image = c.createImageData(columns, rows);
    for (let r = 0, p = 0; r < rows; r++)
      for (let k = 0; k < columns; k++, p += 4) {
        const v = value(r, k), colour = table[Number.isFinite(v) ? Math.round((Math.max(-1, Math.min(1, v)) + 1) * 64) : 64];
        image.data[p] = colour[0]; image.data[p + 1] = colour[1]; image.data[p + 2] = colour[2]; image.data[p + 3] = 255;
      }
    c.putImageData(image, 0, 0);
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(scratch, left, top, width, height);
  }

  function label(ctx, t, what, x, y, {size = 12, align = "left", base = "middle", color, weight} = {}) {
    ctx.font = t.font(size, weight); ctx.fillStyle = color || t.ink; ctx.textAlign = align; ctx.textBaseline = base;
    ctx.fillText(what, x, y);
  }

  stairwise.draw = {theme, chart, heat, label};
})();
