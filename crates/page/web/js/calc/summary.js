// The summary over a range, with the same definitions as the file's summary: over the whole recording the two agree.
//
// A call belongs to the range if they overlap. Total and self time count the part inside the range; mean, extremes and
// percentiles use whole durations. Resource use is known only for whole calls: a call that the range cuts counts in
// proportion to the part of its duration inside, as if its use were spread evenly. Open calls are counted, without
// times. docs/profile-format.md has the definitions.

import { costsOf, knowsCost, nestedCost } from "./cost.js";
import { deviceTimes } from "./device.js";
import { isOwn } from "./losses.js";
import { nth } from "./select.js";

// Sums over calls that are not nested in another call of the same operation.
const OUTER = ["cpu_ns", "allocations", "allocated_bytes"];
// Declared work of calls.
const WORK = ["bytes", "items", "flops"];
const scratch = { inner: new Float64Array(0), inside: new Uint8Array(0) };

function room(name, n) {
  if (scratch[name].length < n) scratch[name] = new scratch[name].constructor(n);
  return scratch[name];
}

// The share of an entry inside the range.
function within(start, end, from, to) {
  return end > start ? Math.max(0, Math.min(end, to) - Math.max(start, from)) / (end - start) : 1;
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
  const inner = coveredByChildren(profile, from, to);
  addEntries(profile, range, whole, inner, rows);
  if (whole) addTotals(profile, rows);
  const wall = to - from;
  for (const one of rows) finish(one, profile, wall);
  // The breakdown includes the time of the recorder's own spans.
  const listed = (one) => one.calls + one.open > 0 && !isOwn(profile.operations[one.operation]);
  return { wall, whole, rows: rows.filter(listed) };
}

function row(operation) {
  return {
    operation, calls: 0, open: 0, total: 0, self: 0, sum: 0, square: 0,
    min: Infinity, max: -Infinity, durations: null, sorted: null,
    device: 0, transfer: 0, overhead: 0, aggregated: { calls: 0, min: Infinity, max: -Infinity, bins: new Map() },
    cpu_ns: null, waiting_ns: null, allocations: null, allocated_bytes: null, bytes: null, items: null, flops: null, peak_bytes: null, declared: 0,
  };
}

// For each entry, the time within the range that its children on the same lane cover; of a child that ends later, only
// the part inside.
function coveredByChildren(profile, from, to) {
  const { n, parent, start, end, duration } = profile;
  const inner = room("inner", n).fill(0, 0, n);
  for (let i = 0; i < n; i++) {
    const above = parent[i];
    if (above < 0 || duration[i] !== duration[i]) continue;
    const part = Math.min(end[i], end[above], to) - Math.max(start[i], start[above], from);
    if (part > 0) inner[above] += part;
  }
  return inner;
}

function addEntries(profile, [from, to], whole, inner, rows) {
  const { n, operation, start, end, duration, node, nodes, wall } = profile;
  const operations = rows.length;
  const repeated = Uint8Array.from(nodes.repeated);
  const sums = {};
  for (const key of ["total", "self", "open", "overhead", "device", "transfer"]) sums[key] = new Float64Array(operations);
  const { total, self, open, overhead, device, transfer } = sums;
  const below = nestedCost(profile);
  const { empty } = costsOf(profile);
  const times = deviceTimes(profile, [from, to]);
  const host = Uint8Array.from(profile.lanes, (lane) => (lane.kind === "stream" ? 0 : 1));
  const lanes = profile.lane;
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
    const onHost = host[lanes[i]] === 1;
    const share = whole ? 1 : within(start[i], end[i], from, to);
    if (repeated[node[i]] === 0) {
      total[op] += part;
      // A span measures `empty` of its own cost; the rest falls into its parent.
      if (onHost) overhead[op] += (empty[op] + below[i]) * share;
      if (times !== null) {
        device[op] += times[0][i];
        transfer[op] += times[1][i];
      }
    }
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
    for (const key of Object.keys(sums)) rows[op][key] = sums[key][op];
    spread(rows[op], durations.subarray(closed[op], closed[op + 1]));
  }
  addDetails(profile, inside, whole ? null : [from, to], rows);
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

function addDetails(profile, inside, range, rows) {
  if (!profile.detail) return;
  const { n, detail, operation, start, end, duration, node, nodes } = profile;
  const { columns } = profile.details;
  const value = (field, at) => columns[field]?.[at] ?? null;
  for (let i = 0; i < n; i++) {
    const at = detail[i];
    if (at < 0 || inside[i] === 0) continue;
    const share = range ? within(start[i], end[i], ...range) : 1;
    addUsed(rows[operation[i]], (field) => value(field, at), duration[i], share, !nodes.repeated[node[i]]);
    if (duration[i] === duration[i] && WORK.some((field) => value(field, at) !== null)) rows[operation[i]].declared++;
  }
}

// Adds the resources that calls of `ns` nanoseconds used; `ns` is NaN for an open call. Values that include nested
// calls count only for outermost calls.
function addUsed(one, value, ns, share, outermost) {
  for (const field of WORK) {
    const work = value(field);
    if (work !== null) one[field] = (one[field] ?? 0) + work * share;
  }
  if (!outermost) return;
  for (const field of OUTER) {
    const amount = value(field);
    if (amount === null || (field === "cpu_ns" && ns !== ns)) continue;
    one[field] = (one[field] ?? 0) + amount * share;
    if (field === "cpu_ns") one.waiting_ns = (one.waiting_ns ?? 0) + Math.max(0, ns - amount) * share;
  }
  const peak = value("peak_bytes");
  if (peak !== null) one.peak_bytes = Math.max(one.peak_bytes ?? 0, peak);
}

// Calls aggregated while recording have no individual times, so they count only for the whole recording.
function addTotals(profile, rows) {
  const { totals } = profile;
  const { span, empty } = costsOf(profile);
  const inner = new Float64Array(totals.length);
  for (let i = totals.length - 1; i >= 0; i--) {
    const { parent, count, operation } = totals[i];
    if (parent >= 0 && parent < i) inner[parent] += count * span[operation] + inner[i];
  }
  const open = openTotals(profile);
  totals.forEach((total, i) => {
    const one = rows[total.operation];
    if (!one) return;
    const outermost = !profile.nodes.repeated[profile.totalNode[i]];
    one.open += total.open ?? 0;
    // Calls that did not end have no time, so calls aggregated inside them subtract nothing.
    one.self += open[i] ? Math.max(0, total.self_ns) : total.self_ns;
    if (outermost) {
      one.total += total.total_ns;
      one.overhead += total.count * empty[total.operation] + inner[i];
    }
    if (total.sums) addUsed(one, (field) => total.sums[field] ?? null, total.total_ns, 1, outermost);
    if (!(total.count > 0)) return;
    // Combines the deviations of two groups around their common mean.
    const mean = total.total_ns / total.count;
    const own = Math.max(0, (total.square_ns2 ?? 0) - total.total_ns * mean);
    const gap = one.calls > 0 ? one.sum / one.calls - mean : 0;
    one.square += own + (gap * gap * one.calls * total.count) / (one.calls + total.count);
    one.calls += total.count;
    one.sum += total.total_ns;
    one.min = Math.min(one.min, total.min_ns);
    one.max = Math.max(one.max, total.max_ns);
    const { aggregated } = one;
    aggregated.calls += total.count;
    aggregated.min = Math.min(aggregated.min, total.min_ns);
    aggregated.max = Math.max(aggregated.max, total.max_ns);
    for (const [power, count] of total.histogram ?? []) aggregated.bins.set(power, (aggregated.bins.get(power) ?? 0) + count);
  });
}

// For each total: true if a call of its path, kept or aggregated, had not ended. All calls on the path of an open call
// are open.
function openTotals({ totals, n, duration, parent, lane, operation }) {
  const open = totals.map((total) => total.open > 0);
  const places = new Map(totals.map((total, i) => [`${total.lane} ${total.parent} ${total.operation}`, i]));
  const totalOf = new Map([[-1, -1]]);
  for (let i = 0; totals.length > 0 && i < n; i++) {
    if (duration[i] === duration[i] || !totalOf.has(parent[i])) continue;
    const at = places.get(`${lane[i]} ${totalOf.get(parent[i])} ${operation[i]}`);
    if (at === undefined) continue;
    totalOf.set(i, at);
    open[at] = true;
  }
  return open;
}

function finish(one, profile, wall) {
  const none = one.calls === 0;
  one.mean = none ? null : one.sum / one.calls;
  one.std = none ? null : one.calls < 2 ? 0 : Math.sqrt(Math.max(0, one.square) / (one.calls - 1));
  if (none) one.min = one.max = null;
  [one.p50, one.p90, one.p99] = none ? [null, null, null] : one.aggregated.calls > 0 ? joined(one) : selected(one.durations);
  one.share = wall > 0 ? one.total / wall : null;
  one.self = Math.max(0, one.self);
  if (!knowsCost(profile)) one.overhead = null;
  // The work of calls that lost their details is unknown, and so is the rate. Aggregated calls lose nothing: their sums
  // include it.
  const lacks = profile.losses?.details > 0 && one.declared < one.durations.length;
  const speed = (work) => (work > 0 && one.total > 0 && !lacks ? work / one.total : null);
  one.gb_per_s = speed(one.bytes);
  one.gflop_per_s = speed(one.flops);
  one.items_per_s = speed(one.items * 1e9);
}

// The median (the mean of the middle two) and the nearest ranks. Selects from the top: after a selection, all smaller
// values precede it.
function selected(durations) {
  const n = durations.length;
  const rank = (part) => Math.max(1, Math.ceil(part * n)) - 1;
  const p99 = nth(durations, 0, n, rank(0.99));
  const p90 = nth(durations, 0, rank(0.99) + 1, rank(0.9));
  const half = n >> 1;
  const until = Math.max(rank(0.9), half) + 1;
  const upper = nth(durations, 0, until, half);
  const p50 = n % 2 === 1 ? upper : (upper + nth(durations, 0, half, half - 1)) / 2;
  return [p50, p90, p99];
}

// Aggregated calls count as the middle of their power of two, within their extremes.
function joined({ durations, aggregated }) {
  const values = Array.from(durations, (ns) => [ns, 1]);
  for (const [power, count] of aggregated.bins) values.push([Math.min(aggregated.max, Math.max(aggregated.min, 1.5 * 2 ** power)), count]);
  values.sort((a, b) => a[0] - b[0]);
  const all = values.reduce((sum, [, count]) => sum + count, 0);
  return [0.5, 0.9, 0.99].map((part) => {
    let left = Math.max(1, Math.ceil(part * all));
    for (const [ns, count] of values) {
      left -= count;
      if (left <= 0) return ns;
    }
    return null;
  });
}

// Operations by self time, largest first: the rank decides the colour.
export function rankOf(profile, summary) {
  const rank = new Array(profile.operations.length).fill(Infinity);
  [...summary.rows].sort((a, b) => b.self - a.self).forEach((one, i) => (rank[one.operation] = i));
  return rank;
}
