/* Frames as an animated GIF, for talks: a fixed palette of the maps' colours and greys, LZW as GIF89a asks for it. */
(function () {
  const BITS = 8, CLEAR = 1 << BITS, END = CLEAR + 1, MOST = 4095;

  /* Bytes that grow. */
  function writer() {
    const bytes = [];
    const short = (value) => bytes.push(value & 255, value >> 8);
    return { bytes, put: (...values) => bytes.push(...values), short, text: (letters) => bytes.push(...[...letters].map((letter) => letter.charCodeAt(0))) };
  }

  /* Places of colours as codes of growing width, in blocks of at most 255 bytes. */
  function compress(pixels, out) {
    let block = [], bits = 0, held = 0, width = BITS + 1, known = new Map(), next = END + 1;
    const flush = () => { if (block.length) out.put(block.length, ...block); block = []; };
    const emit = (code) => {
      held |= code << bits;
      bits += width;
      while (bits >= 8) { block.push(held & 255); held >>>= 8; bits -= 8; if (block.length === 255) flush(); }
    };
    out.put(BITS);
    emit(CLEAR);
    let prefix = pixels[0];
    for (let k = 1; k < pixels.length; k++) {
      const key = prefix << BITS | pixels[k], code = known.get(key);
      if (code !== undefined) { prefix = code; continue; }
      emit(prefix);
      prefix = pixels[k];
      if (next > MOST) { emit(CLEAR); known = new Map(); next = END + 1; width = BITS + 1; continue; }
      known.set(key, next);
      if (next++ === 1 << width) width++;
    }
    emit(prefix);
    emit(END);
    if (bits) block.push(held & 255);
    flush();
    out.put(0);
  }

  /* The place of the nearest colour; near colours share an answer. */
  function nearest(palette) {
    const known = new Int16Array(1 << 18).fill(-1);
    return (red, green, blue) => {
      const key = red >> 2 << 12 | green >> 2 << 6 | blue >> 2;
      if (known[key] < 0) {
        let best = Infinity;
        palette.forEach(([r, g, b], k) => {
          const far = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
          if (far < best) { best = far; known[key] = k; }
        });
      }
      return known[key];
    };
  }

  /* frames: ImageData of one size; palette: up to 256 colours; delay in milliseconds, the last frame stays longer. */
  stairwise.gif = function (frames, palette, delay) {
    const { width, height } = frames[0], out = writer(), find = nearest(palette);
    out.text("GIF89a");
    out.short(width);
    out.short(height);
    out.put(0xf0 | BITS - 1, 0, 0);
    for (let k = 0; k < 256; k++) out.put(...(palette[k] || [0, 0, 0]));
    out.put(0x21, 0xff, 11);
    out.text("NETSCAPE2.0");
    out.put(3, 1, 0, 0, 0);
    frames.forEach(({ data }, number) => {
      out.put(0x21, 0xf9, 4, 4);
      out.short(Math.round((number === frames.length - 1 ? 4 : 1) * delay / 10));
      out.put(0, 0, 0x2c, 0, 0, 0, 0);
      out.short(width);
      out.short(height);
      out.put(0);
      const pixels = new Uint8Array(width * height);
      for (let k = 0; k < pixels.length; k++) pixels[k] = find(data[4 * k], data[4 * k + 1], data[4 * k + 2]);
      compress(pixels, out);
    });
    out.put(0x3b);
    return Uint8Array.from(out.bytes);
  };

  /* Hands bytes to the reader as a file. */
  stairwise.save = function (bytes, name, type) {
    const address = URL.createObjectURL(new Blob([bytes], { type }));
    const link = stairwise.make("a", { href: address, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
})();
