// Durations of one operation in bins of equal ratio, so that long tails stay visible.

const WANTED = 36;

export function bins(sorted, [low, high]) {
  const decades = Math.max(0.02, Math.log10(high / low));
  const perDecade = Math.max(6, Math.round(WANTED / decades));
  const place = (value) => Math.floor(Math.log10(value) * perDecade + 1e-9);
  const first = place(low);
  const count = place(high) - first + 1;
  const values = new Array(count).fill(0);
  for (const value of sorted) values[Math.min(count - 1, Math.max(0, place(value) - first))]++;
  const edge = (i) => 10 ** ((first + i) / perDecade);
  return { values, edges: Array.from({ length: count + 1 }, (_, i) => edge(i)) };
}

// The range of the positive durations in all given lists; null if there are none.
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
