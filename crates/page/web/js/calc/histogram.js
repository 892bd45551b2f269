// Durations of one operation in bins of equal ratio: long tails stay visible.

const PER_DECADE = 12;

export function bins(sorted, [low, high]) {
  const first = Math.floor(Math.log10(low) * PER_DECADE);
  const count = Math.max(1, Math.ceil(Math.log10(high) * PER_DECADE) - first + 1);
  const values = new Array(count).fill(0);
  for (const value of sorted) values[Math.min(count - 1, Math.max(0, Math.floor(Math.log10(value) * PER_DECADE) - first))]++;
  const edge = (i) => 10 ** ((first + i) / PER_DECADE);
  return { values, edges: Array.from({ length: count + 1 }, (_, i) => edge(i)) };
}

// The span of the durations above zero of all given lists; null if there are none.
export function extent(lists) {
  let low = Infinity;
  let high = 0;
  for (const list of lists) {
    let first = 0;
    while (first < list.length && !(list[first] > 0)) first++;
    if (first === list.length) continue;
    low = Math.min(low, list[first]);
    high = Math.max(high, list[list.length - 1]);
  }
  return high > 0 ? [low, high] : null;
}
