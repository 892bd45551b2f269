// One pass over all lanes in order of time: how each moment is spent, as `Trace::breakdown` defines it.
import { costsOf } from "./cost.js";
import { lowerBound } from "./select.js";

// The states by priority, highest first.
export const ORDER = ["cpu", "compile", "allocation", "launch", "instrumentation", "not-measured", "device", "transfer", "wait"];
export const NONE = ORDER.length;
const [DEVICE, TRANSFER, WAIT] = ["device", "transfer", "wait"].map((part) => ORDER.indexOf(part));
const STATE = {
  cpu: 0, compile: 1, allocation: 2, launch: 3, instrumentation: 4, kernel: DEVICE,
  "host-to-device": TRANSFER, "device-to-host": TRANSFER, "device-to-device": TRANSFER, wait: WAIT, sync: WAIT,
  "in-flight": NONE,
};

// The state of an operation on a lane; operations in flight occupy none. On a stream only kernels and copies are work.
export function stateOf(kind, stream) {
  const state = STATE[kind] ?? 0;
  return stream && state !== DEVICE && state !== TRANSFER ? NONE : state;
}

// An operation whose share of computing is unknown counts as not measured instead of computing.
export function measured(state, share) {
  return state === 0 && Number.isNaN(share) ? ORDER.indexOf("not-measured") : state;
}

// Entries are sorted by lane; those of one lane are [first, last).
export function laneBounds(profile, lane) {
  const find = (wanted) => lowerBound(profile.n, (i) => profile.lane[i] < wanted);
  return [find(lane), find(lane + 1)];
}

// The changes of a lane's innermost span: the time, the entry from then on (-1: none), and whether an entry begins.
function changes(profile, lane) {
  const { start, end, wall } = profile;
  const [first, last] = laneBounds(profile, lane);
  const size = 2 * (last - first);
  const walk = { lane, at: new Float64Array(size), entry: new Int32Array(size), begins: new Uint8Array(size), next: 0 };
  const stack = [];
  let now = 0;
  for (let i = first, count = 0; count < size; count++) {
    const top = stack.length > 0 ? Math.min(wall, end[stack[stack.length - 1]]) : Infinity;
    const begin = i < last ? Math.max(0, Math.min(wall, start[i])) : Infinity;
    const begins = stack.length === 0 || begin < top;
    now = Math.max(now, begins ? begin : top);
    if (begins) stack.push(i++);
    else stack.pop();
    walk.at[count] = now;
    walk.entry[count] = stack.length > 0 ? stack[stack.length - 1] : -1;
    walk.begins[count] = begins ? 1 : 0;
  }
  return walk;
}

// The share of each entry's self time in which its thread computes: its CPU time minus the known part of its
// children's. An entry without CPU time takes the share of its parent, or NaN if it has none. Null if no CPU time was
// recorded.
function computing(profile) {
  const cpu = profile.details?.columns?.cpu_ns;
  if (!cpu || !profile.detail) return null;
  const { n, detail, duration, parent, operation, operations } = profile;
  const used = (i) => {
    const own = detail[i] >= 0 ? cpu[detail[i]] : null;
    return own ?? (STATE[operations[operation[i]].kind] === WAIT ? 0 : null);
  };
  const [known, knownCpu] = [new Float64Array(n), new Float64Array(n)];
  for (let i = 0; i < n; i++) {
    const value = used(i);
    if (value === null || parent[i] < 0) continue;
    known[parent[i]] += duration[i] || 0;
    knownCpu[parent[i]] += value;
  }
  const shares = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    const own = detail[i] >= 0 ? cpu[detail[i]] : null;
    const rest = duration[i] - known[i];
    if (own === null || duration[i] !== duration[i]) shares[i] = parent[i] < 0 ? NaN : shares[parent[i]];
    else shares[i] = rest > 0 ? Math.max(0, Math.min(1, (own - knownCpu[i]) / rest)) : 1;
  }
  return shares;
}

// Steps of time: from at[i] on, the recording is in state[i]; a cpu step computes for share[i] and leaves the rest to
// next[i]. cost[i] is the estimated cost of the spans that began in the step.
export function steps(profile) {
  profile.steps ??= sweep(profile);
  return profile.steps;
}

function sweep(profile) {
  const walks = profile.lanes.map((_, lane) => changes(profile, lane)).filter((walk) => walk.at.length > 0);
  const stream = walks.map((walk) => profile.lanes[walk.lane].kind === "stream");
  const states = walks.map((_, i) => Uint8Array.from(profile.operations, (one) => stateOf(one.kind, stream[i])));
  const shares = computing(profile);
  const size = walks.reduce((sum, walk) => sum + walk.at.length, 1);
  const out = { at: new Float64Array(size), state: new Uint8Array(size), share: new Float32Array(size), next: new Uint8Array(size), cost: new Float64Array(size) };
  out.state[0] = NONE;
  const active = new Int32Array(NONE + 1);
  const now = new Uint8Array(walks.length).fill(NONE);
  const share = new Float32Array(walks.length);
  const { span } = costsOf(profile);
  const heap = heapOf(walks);
  let busy = 0;
  let count = 1;
  while (heap.size() > 0) {
    const lane = heap.top();
    const walk = walks[lane];
    const i = walk.next++;
    const entry = walk.entry[i];
    const before = now[lane];
    const computes = shares && !stream[lane] && entry >= 0 ? shares[entry] : NaN;
    const after = entry < 0 ? NONE : measured(states[lane][profile.operation[entry]], computes);
    if (after !== before) {
      active[before]--;
      active[after]++;
      busy += (before === NONE ? 1 : 0) - (after === NONE ? 1 : 0);
      now[lane] = after;
    }
    share[lane] = computes;
    if (after !== before || shares) {
      let first = 0;
      while (first < NONE && active[first] <= 0) first++;
      let [part, next] = [1, WAIT];
      if (first === 0 && shares) {
        part = 0;
        for (let other = 0; other < walks.length; other++) if (now[other] === 0 && share[other] > part) part = share[other];
        for (next = 1; next < NONE && active[next] <= 0; ) next++;
        if (next === NONE) next = WAIT;
      }
      const last = count - 1;
      if (walk.at[i] === out.at[last]) {
        out.state[last] = first;
        out.share[last] = part;
        out.next[last] = next;
      } else if (first !== out.state[last] || Math.fround(part) !== out.share[last] || next !== out.next[last]) {
        out.at[count] = walk.at[i];
        out.state[count] = first;
        out.share[count] = part;
        out.next[count++] = next;
      }
    }
    if (walk.begins[i] && !stream[lane]) out.cost[count - 1] += span[profile.operation[entry]] / Math.max(1, busy);
    heap.sink(walk.next < walk.at.length ? walk.at[walk.next] : Infinity);
  }
  for (const key of Object.keys(out)) out[key] = out[key].slice(0, count);
  return out;
}

// Lanes by the time of their next change: a binary heap.
function heapOf(walks) {
  const lanes = walks.map((_, lane) => lane).sort((a, b) => walks[a].at[0] - walks[b].at[0]);
  const keys = lanes.map((lane) => walks[lane].at[0]);
  return {
    size: () => lanes.length,
    top: () => lanes[0],
    // Changes the key of the top; Infinity removes it.
    sink(key) {
      let moving = lanes[0];
      if (key === Infinity) {
        moving = lanes.pop();
        key = keys.pop();
        if (lanes.length === 0) return;
      }
      let at = 0;
      for (let child = 1; child < lanes.length; child = 2 * at + 1) {
        if (child + 1 < lanes.length && keys[child + 1] < keys[child]) child++;
        if (keys[child] >= key) break;
        keys[at] = keys[child];
        lanes[at] = lanes[child];
        at = child;
      }
      keys[at] = key;
      lanes[at] = moving;
    },
  };
}
