// Spans without an entry in the profile: those that are only in totals, and those that are lost.

// `aggregated` of a lane counts the dropped spans that its totals include. Earlier versions did not write it: if a lane
// aggregated by its mode, all of the dropped ones count as lost; in most such files they are fewer than the aggregated
// ones.
export function lossesOf({ losses = {}, lanes, totals }) {
  const held = lanes.map(() => 0);
  for (const { lane, count, open = 0 } of totals) if (lane in held) held[lane] += count + open;
  // Programs that do not know which lane lost spans still report the total number.
  const named = lanes.reduce((sum, { dropped = 0 }) => sum + dropped, 0);
  const rest = Math.max(0, (losses?.spans ?? 0) - named);
  const dropped = lanes.map((lane, i) => (lane.dropped ?? 0) + (i === 0 ? rest : 0));
  const all = dropped.length > 0 ? dropped.reduce((sum, one) => sum + one, 0) : rest;
  const overflowed = dropped.map((one, i) => Math.min(one, lanes[i].aggregated ?? (one >= held[i] ? held[i] : 0)));
  const aggregated = overflowed.reduce((sum, one) => sum + one, 0);
  // A device's buffer is not ours: spans that its lanes dropped had impossible times.
  const refused = dropped.reduce((sum, one, i) => sum + (lanes[i].kind === "stream" ? one - overflowed[i] : 0), 0);
  return { aggregated, refused, lost: all - aggregated - refused };
}

// The number of spans kept of each thread, if only the last ones were kept and a thread has that many; otherwise 0.
export function lastSpans({ environment, lanes, lane, n }) {
  const last = environment?.["last spans of a thread"];
  if (!(last > 0)) return 0;
  const kept = lanes.map(() => 0);
  for (let i = 0; i < n; i++) kept[lane[i]]++;
  return lanes.some(({ kind }, i) => kind !== "stream" && kept[i] >= last) ? last : 0;
}

// The recorder's own spans, which make room, are not an operation of the program.
export function isOwn({ kind, name }) {
  return kind === "instrumentation" && name === "(room for spans)";
}

// Entries of the program itself.
export function entriesOf({ operation, operations, n }) {
  const own = operations.findIndex(isOwn);
  return own < 0 ? n : operation.reduce((sum, one) => sum + (one === own ? 0 : 1), 0);
}

// Calls without an entry, and so without a place in a drawing; of one operation, or of all.
export function withoutEntry({ totals }, operation = -1) {
  return totals.reduce((sum, total) => sum + (operation < 0 || total.operation === operation ? total.count + (total.open ?? 0) : 0), 0);
}
