// The entries of a page's own data: typed arrays, as src/columns.rs writes them.
export function decode(head, bytes) {
  const read = {};
  let at = 0;
  for (const [name, wide, length] of head.columns) {
    // A copy, because an array must start at a multiple of its element's size.
    const { buffer } = bytes.slice(at, at + length);
    read[name] = wide ? new Float64Array(buffer) : new Int32Array(buffer);
    at += length;
  }
  const { operation, lane, link, detail } = read;
  const quantum = head.quantum_ns;
  let steps = 0;
  return {
    operation, lane,
    start: new Float64Array(read.start).map((value) => (steps += value) * quantum),
    duration: new Float64Array(read.duration).map((value) => (value < 0 ? NaN : value * quantum)),
    parent: read.parent.length > 0 ? read.parent.map((back, i) => (back > 0 ? i - back : -1)) : new Int32Array(head.spans).fill(-1),
    // Most recordings have neither.
    link: link.length > 0 ? link : null, detail: detail.some((row) => row >= 0) ? detail : null,
  };
}
