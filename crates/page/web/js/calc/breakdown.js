// Wall time in parts that add up, as `Trace::breakdown` defines them.
import { detailOf } from "../data/model.js";
import { costsOf } from "./cost.js";
import { lowerBound } from "./select.js";
import { NONE, ORDER, measured, stateOf, steps } from "./sweep.js";

const WAIT = ORDER.indexOf("wait");
export const PART_NAMES = ["cpu", "not-measured", "device", "transfer", "wait", "launch", "compile", "allocation", "instrumentation", "unexplained"];

// The time in each part of PART_NAMES within the range. The file's own breakdown applies to the whole recording.
export function breakdown(profile, range) {
  const [from, to] = range ?? [0, profile.wall];
  if (range === null && profile.breakdown?.parts) {
    const known = new Map(profile.breakdown.parts.map(({ part, ns }) => [part, ns]));
    return PART_NAMES.map((part) => ({ part, ns: known.get(part) ?? 0 }));
  }
  const sums = new Float64Array(NONE + 1);
  let cost = walk(steps(profile), from, to, sums);
  if (from <= 0 && to >= profile.wall) cost += fill(profile, sums);
  moveCost(sums, cost);
  const names = [...ORDER, "unexplained"];
  return PART_NAMES.map((part) => ({ part, ns: sums[names.indexOf(part)] }));
}

// Adds up the steps of the range; returns the cost of the spans that began there.
function walk({ at, state, share, next, cost }, from, to, sums) {
  let own = 0;
  const first = Math.max(0, lowerBound(at.length, (i) => at[i] <= from) - 1);
  for (let i = first; i < at.length && (at[i] < to || i === 0); i++) {
    const until = i + 1 < at.length ? at[i + 1] : Math.max(to, at[i]);
    const time = Math.min(to, until) - Math.max(from, at[i]);
    if (time < 0) continue;
    own += until > at[i] ? cost[i] * (time / (until - at[i])) : cost[i];
    if (state[i] === 0) {
      sums[0] += time * share[i];
      sums[next[i]] += time * (1 - share[i]);
    } else sums[state[i]] += time;
  }
  return own;
}

// Aggregated spans have no position in time: they fill unexplained time; each part gets as much as the lane with the
// most of it. Returns their cost.
function fill(profile, sums) {
  const { totals, operations, lanes } = profile;
  const { span } = costsOf(profile);
  const costs = new Map();
  const own = ORDER.map(() => new Map());
  const shares = computingTotals(profile);
  totals.forEach((one, i) => {
    costs.set(one.lane, (costs.get(one.lane) ?? 0) + one.count * span[one.operation]);
    const state = measured(stateOf(operations[one.operation].kind, lanes[one.lane]?.kind === "stream"), shares[i]);
    const add = (part, ns) => own[part].set(one.lane, (own[part].get(one.lane) ?? 0) + ns);
    if (state === NONE) return;
    const computing = state === 0 ? shares[i] : 1;
    add(state, one.self_ns * computing);
    if (computing < 1) add(WAIT, one.self_ns * (1 - computing));
  });
  const net = own.map((byLane) => [...byLane.values()].reduce((most, ns) => (Math.abs(ns) > Math.abs(most) ? ns : most), 0));
  const move = (from, to, ns) => {
    const given = Math.min(sums[from], ns);
    sums[from] -= given;
    sums[to] += given;
  };
  // Negative: that much of the time of kept spans belongs to aggregated spans inside them. Goes first, because it makes
  // room.
  net.forEach((ns, state) => ns < 0 && move(state, NONE, -ns));
  net.forEach((ns, state) => ns > 0 && move(NONE, state, ns));
  return Math.max(0, ...costs.values());
}

// The share of each total's self time in which its thread computes, by the same rule that `steps` uses for single
// entries.
function computingTotals(profile) {
  const { totals, operations } = profile;
  const timed = new Set(profile.lane.filter((_, i) => detailOf(profile, i, "cpu_ns") !== null));
  // A node without calls subtracts what its children used from kept spans; it has a share only if those have shares.
  const cpuOf = (one) => one.sums?.cpu_ns ?? (one.count === 0 && timed.has(one.lane) ? 0 : null);
  const known = totals.map(() => [0, 0]);
  for (const one of totals) {
    const { parent, operation, total_ns: ns } = one;
    const used = cpuOf(one) ?? (stateOf(operations[operation].kind, false) === WAIT ? 0 : null);
    if (used === null || !known[parent]) continue;
    known[parent][0] += ns;
    known[parent][1] += used;
  }
  const shares = [];
  totals.forEach((one, i) => {
    const cpu = cpuOf(one);
    const rest = one.total_ns - known[i][0];
    const split = rest > 0 || (rest < 0 && one.total_ns === 0);
    shares.push(cpu === null ? (shares[one.parent] ?? NaN) : split ? Math.max(0, Math.min(1, (cpu - known[i][1]) / rest)) : 1);
  });
  return shares;
}

// The cost of spans moves from the time of threads, then from unexplained time, to instrumentation.
function moveCost(sums, cost) {
  for (const from of [0, ORDER.indexOf("not-measured"), NONE]) {
    const moved = Math.min(cost, sums[from]);
    sums[from] -= moved;
    sums[ORDER.indexOf("instrumentation")] += moved;
    cost -= moved;
  }
}
