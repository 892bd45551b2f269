// The summary over a range, with the definitions of the summary in the file: over the whole recording both agree.
//
// A call belongs to the range if they overlap. Total and self time count the part inside the range; mean, extremes and
// percentiles (nearest rank) use whole durations. Open calls are counted, without times.

import { nth } from "./select.js";

const SUMS = ["cpu_ns", "allocations", "allocated_bytes", "bytes"];
const scratch = { inner: new Float64Array(0), inside: new Uint8Array(0) };

function room(name, n) {
  if (scratch[name].length < n) scratch[name] = new scratch[name].constructor(n);
  return scratch[name];
}

// True if a range of [from, to] touches an entry; the end of the recording belongs to the last range.
export function touches(profile, [from, to], i) {
  return touch(profile.start[i], profile.end[i], from, to, profile.wall);
}

function touch(start, end, from, to, wall) {
  return start < to ? end > from || start >= from : start === to && to === wall;
}

export function summarize(profile, range) {
  const [from, to] = range;
  const whole = from <= 0 && to >= profile.wall;
  const rows = profile.operations.map((_, operation) => row(operation));
  const inner = coveredByChildren(profile, from, to, whole);
  addEntries(profile, range, whole, inner, rows);
  if (whole) addTotals(profile, rows);
  const wall = to - from;
  const cost = profile.cost?.span_ns;
  for (const one of rows) finish(one, profile, wall, cost);
  return { wall, whole, rows: rows.filter((one) => one.calls + one.open > 0) };
}

function row(operation) {
  return {
    operation, calls: 0, open: 0, total: 0, self: 0, sum: 0, square: 0,
    min: Infinity, max: -Infinity, durations: null, sorted: null, histogram: null,
    cpu_ns: null, allocations: null, allocated_bytes: null, bytes: null, peak_bytes: null,
  };
}

// Time of each entry that its children on the same lane cover, inside the range.
function coveredByChildren(profile, from, to, whole) {
  const { n, parent, start, end, duration } = profile;
  const inner = room("inner", n).fill(0, 0, n);
  for (let i = 0; i < n; i++) {
    const above = parent[i];
    if (above < 0 || duration[i] !== duration[i]) continue;
    const part = whole ? duration[i] : Math.min(end[i], to) - Math.max(start[i], from);
    if (part > 0) inner[above] += part;
  }
  return inner;
}

function addEntries(profile, [from, to], whole, inner, rows) {
  const { n, operation, start, end, duration, node, nodes, wall } = profile;
  const operations = rows.length;
  const repeated = Uint8Array.from(nodes.repeated);
  const total = new Float64Array(operations);
  const self = new Float64Array(operations);
  const open = new Uint32Array(operations);
  const closed = new Uint32Array(operations + 1);
  const inside = room("inside", n);
  for (let i = 0; i < n; i++) {
    const counts = whole || touch(start[i], end[i], from, to, wall);
    inside[i] = counts ? 1 : 0;
    if (!counts) continue;
    const op = operation[i];
    const own = duration[i];
    if (own !== own) {
      open[op]++;
      continue;
    }
    closed[op + 1]++;
    const part = whole ? own : Math.min(end[i], to) - Math.max(start[i], from);
    if (repeated[node[i]] === 0) total[op] += part;
    const rest = part - inner[i];
    if (rest > 0) self[op] += rest;
  }
  for (let op = 0; op < operations; op++) closed[op + 1] += closed[op];
  const place = closed.slice(0, operations);
  const durations = new Float64Array(closed[operations]);
  for (let i = 0; i < n; i++) {
    const own = duration[i];
    if (inside[i] === 1 && own === own) durations[place[operation[i]]++] = own;
  }
  for (let op = 0; op < operations; op++) {
    const one = rows[op];
    one.total = total[op];
    one.self = self[op];
    one.open = open[op];
    spread(one, durations.subarray(closed[op], closed[op + 1]));
  }
  addDetails(profile, inside, rows);
}

// Sums and extremes of the durations; percentiles select in them, and only a histogram sorts them.
function spread(one, durations) {
  one.calls = durations.length;
  one.durations = durations;
  let sum = 0;
  let min = Infinity;
  let max = -Infinity;
  for (let i = 0; i < durations.length; i++) {
    const value = durations[i];
    sum += value;
    if (value < min) min = value;
    if (value > max) max = value;
  }
  const mean = sum / durations.length;
  let square = 0;
  for (let i = 0; i < durations.length; i++) square += (durations[i] - mean) * (durations[i] - mean);
  Object.assign(one, { sum, min, max, square });
}

export function sortedOf(row) {
  row.sorted ??= row.durations.slice().sort();
  return row.sorted;
}

function addDetails(profile, inside, rows) {
  if (!profile.detail) return;
  const { n, detail, operation } = profile;
  const { columns } = profile.details;
  const fields = SUMS.filter((field) => columns[field]);
  const peak = columns.peak_bytes;
  for (let i = 0; i < n; i++) {
    const at = detail[i];
    if (at < 0 || inside[i] === 0) continue;
    const one = rows[operation[i]];
    for (const field of fields) {
      const value = columns[field][at];
      if (value !== null) one[field] = (one[field] ?? 0) + value;
    }
    if (peak && peak[at] !== null) one.peak_bytes = Math.max(one.peak_bytes ?? 0, peak[at]);
  }
}

// What was aggregated while recording has no times of its calls, so it counts only in the whole recording.
function addTotals(profile, rows) {
  profile.totals.forEach((total, i) => {
    const one = rows[total.operation];
    if (!one) return;
    const before = one.calls;
    one.open += total.open ?? 0;
    if (!(total.count > 0)) return;
    // Deviations of two groups join around their common mean.
    const mean = total.total_ns / total.count;
    const own = Math.max(0, (total.square_ns2 ?? 0) - total.total_ns * mean);
    const gap = before > 0 ? one.sum / before - mean : 0;
    one.square += own + (gap * gap * before * total.count) / (before + total.count);
    one.calls += total.count;
    one.sum += total.total_ns;
    if (!profile.nodes.repeated[profile.totalNode[i]]) one.total += total.total_ns;
    one.self += total.self_ns;
    one.min = Math.min(one.min, total.min_ns);
    one.max = Math.max(one.max, total.max_ns);
    one.histogram ??= new Map();
    for (const [power, count] of total.histogram ?? []) {
      one.histogram.set(power, (one.histogram.get(power) ?? 0) + count);
    }
  });
}

function finish(one, profile, wall, cost) {
  const { kind } = profile.operations[one.operation];
  const none = one.calls === 0;
  one.mean = none ? null : one.sum / one.calls;
  one.std = none ? null : Math.sqrt(Math.max(0, one.square) / one.calls);
  if (none) one.min = one.max = null;
  // From the top: after a selection, all smaller values lie before it.
  one.p99 = percentile(one, 0.99, one.calls);
  one.p90 = percentile(one, 0.9, rankAt(one, 0.99));
  one.p50 = percentile(one, 0.5, rankAt(one, 0.9));
  one.share = wall > 0 ? one.total / wall : null;
  one.device = kind === "kernel" ? one.self : 0;
  one.transfer = kind.includes("-to-") ? one.self : 0;
  one.overhead = cost > 0 ? cost * (one.calls + one.open) : null;
  one.gb_per_s = one.bytes !== null && one.total > 0 ? one.bytes / one.total : null;
}

function rankAt(one, part) {
  return Math.max(1, Math.ceil(part * one.calls));
}

// The nearest rank; with aggregated calls the upper edge of the bin that holds it, never above the maximum.
function percentile(one, part, until) {
  if (one.calls === 0) return null;
  const rank = rankAt(one, part);
  if (!one.histogram) return nth(one.durations, 0, until, rank - 1);
  const bins = new Map(one.histogram);
  for (const value of one.durations) {
    const power = value < 1 ? 0 : Math.floor(Math.log2(value));
    bins.set(power, (bins.get(power) ?? 0) + 1);
  }
  let seen = 0;
  for (const power of [...bins.keys()].sort((a, b) => a - b)) {
    seen += bins.get(power);
    if (seen >= rank) return Math.min(one.max, Math.max(one.min, 2 ** (power + 1)));
  }
  return one.max;
}

// Operations by self time, largest first: the rank decides the colour.
export function rankOf(profile, summary) {
  const rank = new Array(profile.operations.length).fill(Infinity);
  [...summary.rows].sort((a, b) => b.self - a.self).forEach((one, i) => (rank[one.operation] = i));
  return rank;
}
