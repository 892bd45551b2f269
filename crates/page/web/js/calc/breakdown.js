// Wall time in parts that add up, as `Trace::breakdown` defines them.
import { NONE, ORDER, stateOf, steps } from "./sweep.js";

export const PART_NAMES = ["cpu", "device", "transfer", "wait", "launch", "compile", "allocation", "instrumentation", "unexplained"];

// The time in each part of PART_NAMES within the range. The file's own breakdown is that of the whole recording.
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
  for (let i = firstStep(at, from); i < at.length && (at[i] < to || i === 0); i++) {
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

// Aggregated spans have no position: they fill unexplained time, each part as much as the lane with the most of it.
// Returns their cost.
function fill(profile, sums) {
  const { totals, operations, lanes } = profile;
  const spans = new Map();
  const own = ORDER.map(() => new Map());
  for (const one of totals) {
    spans.set(one.lane, (spans.get(one.lane) ?? 0) + one.count);
    const state = stateOf(operations[one.operation].kind, lanes[one.lane]?.kind === "stream");
    if (state !== NONE) own[state].set(one.lane, (own[state].get(one.lane) ?? 0) + one.self_ns);
  }
  own.forEach((byLane, state) => {
    const given = Math.min(sums[NONE], Math.max(0, ...byLane.values()));
    sums[NONE] -= given;
    sums[state] += given;
  });
  return Math.max(0, ...spans.values()) * (profile.cost?.span_ns > 0 ? profile.cost.span_ns : 0);
}

// The cost of spans moves from computing, then from unexplained time, to instrumentation.
function moveCost(sums, cost) {
  for (const from of [0, NONE]) {
    const moved = Math.min(cost, sums[from]);
    sums[from] -= moved;
    sums[ORDER.indexOf("instrumentation")] += moved;
    cost -= moved;
  }
}

function firstStep(at, time) {
  let low = 0;
  let high = at.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
