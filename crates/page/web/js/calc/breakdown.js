// Wall time by what the host and the devices did: parts that add up. At each moment the busiest state of all lanes
// counts: a device or a transfer only while no host thread works.

// A state that comes first wins.
const ORDER = ["cpu", "compile", "allocation", "instrumentation", "launch", "device", "transfer", "wait"];
const STATE = {
  cpu: 0, compile: 1, allocation: 2, instrumentation: 3, launch: 4, kernel: 5,
  "host-to-device": 6, "device-to-host": 6, "device-to-device": 6, wait: 7, sync: 7,
};
export const PART_NAMES = ["cpu", "device", "transfer", "wait", "launch", "compile", "allocation", "instrumentation", "unexplained"];

// Steps of time: from at[i] until at[i + 1] the recording is in state[i]; ORDER.length is unexplained.
function steps(profile) {
  if (profile.steps) return profile.steps;
  const cursors = profile.lanes.map((_, lane) => segments(profile, lane)).filter((one) => one.at.length > 0);
  const size = cursors.reduce((sum, one) => sum + one.at.length, 2);
  const at = new Float64Array(size);
  const state = new Uint8Array(size);
  const active = new Int32Array(ORDER.length + 1);
  active[ORDER.length] = cursors.length + 1;
  const now = cursors.map(() => ORDER.length);
  const next = cursors.map(() => 0);
  const heap = heapOf(cursors);
  let count = 1;
  state[0] = ORDER.length;
  while (heap.length > 0) {
    const lane = heap.top();
    const cursor = cursors[lane];
    const i = next[lane]++;
    active[now[lane]]--;
    now[lane] = cursor.state[i];
    active[now[lane]]++;
    let first = 0;
    while (active[first] === 0) first++;
    const time = Math.max(0, cursor.at[i]);
    if (time === at[count - 1]) state[count - 1] = first;
    else if (first !== state[count - 1]) {
      at[count] = time;
      state[count++] = first;
    }
    heap.sink(next[lane] < cursor.at.length ? cursor.at[next[lane]] : Infinity);
  }
  profile.steps = { at: at.subarray(0, count), state: state.subarray(0, count) };
  return profile.steps;
}

// When the innermost span of a lane changes, and the state from then on.
function segments(profile, lane) {
  const { operation, start, end, parent } = profile;
  const kinds = Uint8Array.from(profile.operations, (one) => STATE[one.kind] ?? 0);
  const [first, last] = laneBounds(profile, lane);
  const at = new Float64Array(2 * (last - first));
  const state = new Uint8Array(2 * (last - first));
  // Entries that are open at this point, the innermost last.
  const stack = new Int32Array(profile.levels[lane] + 1);
  let depth = 0;
  let count = 0;
  const set = (time, value) => {
    if (count > 0 && at[count - 1] >= time) state[count - 1] = value;
    else if (count === 0 || state[count - 1] !== value) {
      at[count] = time;
      state[count++] = value;
    }
  };
  for (let i = first; i <= last; i++) {
    const until = i < last ? start[i] : Infinity;
    while (depth > 0 && end[stack[depth - 1]] <= until) {
      const ended = end[stack[--depth]];
      set(ended, depth > 0 ? kinds[operation[stack[depth - 1]]] : ORDER.length);
    }
    if (i === last) break;
    // Overlapping spans of one lane: the one that began last counts.
    if (parent[i] < 0 && depth > 0 && end[stack[0]] <= end[i]) depth = 0;
    if (depth === stack.length) depth--;
    stack[depth++] = i;
    set(start[i], kinds[operation[i]]);
  }
  return { at: at.subarray(0, count), state: state.subarray(0, count) };
}

// Entries are sorted by lane; the entries of one lane are [first, last).
export function laneBounds(profile, lane) {
  const find = (wanted) => {
    let low = 0;
    let high = profile.n;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (profile.lane[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return [find(lane), find(lane + 1)];
}

// Lanes by the time of their next change: a binary heap.
function heapOf(cursors) {
  const lanes = cursors.map((_, lane) => lane).sort((a, b) => cursors[a].at[0] - cursors[b].at[0]);
  const keys = lanes.map((lane) => cursors[lane].at[0]);
  return {
    get length() {
      return lanes.length;
    },
    top: () => lanes[0],
    // Gives the top a new key; Infinity removes it.
    sink(key) {
      let moving = lanes[0];
      if (key === Infinity) {
        moving = lanes.pop();
        key = keys.pop();
        if (lanes.length === 0) return;
      }
      let at = 0;
      for (;;) {
        let child = 2 * at + 1;
        if (child >= lanes.length) break;
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

// The time in each part of PART_NAMES within the range; they add up to its length.
export function breakdown(profile, [from, to]) {
  const { at, state } = steps(profile);
  const sums = new Float64Array(ORDER.length + 1);
  for (let i = firstStep(at, from); i < at.length && at[i] < to; i++) {
    const begin = Math.max(from, at[i]);
    const end = Math.min(to, i + 1 < at.length ? at[i + 1] : to);
    if (end > begin) sums[state[i]] += end - begin;
  }
  const names = [...ORDER, "unexplained"];
  return PART_NAMES.map((name) => ({ part: name, ns: sums[names.indexOf(name)] }));
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
