// The entries of a page's own data: columns of varints, as src/columns.rs writes them.

class Varints {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  next() {
    let byte = this.bytes[this.at++];
    let value = byte & 127;
    // Bit operations would lose bits above 2^28, so the rest is added as numbers.
    for (let shift = 7; byte > 127 && shift < 28; shift += 7) {
      byte = this.bytes[this.at++];
      value |= (byte & 127) << shift;
    }
    for (let factor = 2 ** 28; byte > 127; factor *= 128) {
      byte = this.bytes[this.at++];
      value += (byte & 127) * factor;
    }
    return value;
  }

  signed() {
    const value = this.next();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

export function decode(head, bytes) {
  const readers = {};
  let at = 0;
  for (const [name, length] of head.columns) {
    readers[name] = new Varints(bytes.subarray(at, at + length));
    at += length;
  }
  const n = head.spans;
  const entries = {
    operation: numbers(readers.operation, new Uint32Array(n)),
    lane: numbers(readers.lane, new Uint32Array(n)),
    start: new Float64Array(n),
    duration: new Float64Array(n),
    parent: new Int32Array(n).fill(-1),
    link: sparse(readers.link, n, 0),
    detail: sparse(readers.detail, n, -1),
  };
  const { start, duration, parent } = entries;
  const quantum = head.quantum_ns;
  for (let i = 0, steps = 0; i < n; i++) {
    steps += readers.start.signed();
    start[i] = steps * quantum;
  }
  for (let i = 0; i < n; i++) {
    const value = readers.duration.next();
    duration[i] = value === 0 ? NaN : (value - 1) * quantum;
  }
  if (readers.parent.bytes.length > 0) {
    for (let i = 0; i < n; i++) {
      const back = readers.parent.next();
      if (back > 0) parent[i] = i - back;
    }
  }
  return entries;
}

function numbers(reader, values) {
  for (let i = 0; i < values.length; i++) values[i] = reader.next();
  return values;
}

// Values that most entries lack; null if all do.
function sparse(reader, n, none) {
  if (reader.bytes.length === 0) return null;
  const values = new Int32Array(n).fill(none);
  let any = false;
  for (let i = 0, last = 0; i < n; i++) {
    const value = reader.next();
    if (value === 0) continue;
    const zigzag = value - 1;
    last += zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2;
    values[i] = last;
    any = true;
  }
  return any ? values : null;
}
