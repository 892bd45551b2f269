// A profile in memory: entries as typed arrays, and the data that every view needs, computed once.
import { label } from "../base/format.js";

// `head` is the profile without entries and details; `entries` holds typed arrays; `details` {count, columns, args}.
export function build(head, entries, details) {
  const n = entries.operation.length;
  const profile = {
    ...head,
    ...entries,
    n,
    details,
    operations: (head.operations ?? []).map((one) => ({ ...one, kind: String(one.kind ?? "cpu"), name: String(one.name ?? "") })),
    lanes: (head.lanes ?? []).map((one) => ({ ...one, kind: String(one.kind ?? "thread"), name: String(one.name ?? "") })),
    totals: head.totals ?? [],
    tracks: head.tracks ?? [],
    wall: head.wall_ns ?? 0,
  };
  ends(profile);
  contexts(profile);
  rows(profile);
  return profile;
}

// The end of each entry; an open one ends with the recording.
function ends(profile) {
  const { n, start, duration } = profile;
  let last = profile.wall;
  if (!(last > 0)) {
    last = 0;
    for (let i = 0; i < n; i++) last = Math.max(last, start[i] + (duration[i] || 0));
    for (const total of profile.totals) last = Math.max(last, total.total_ns);
    // Never 0, because shares are divided by it.
    profile.wall = last || 1;
  }
  profile.elapsed = last;
  const end = (profile.end = new Float64Array(n));
  for (let i = 0; i < n; i++) {
    const own = duration[i];
    end[i] = own === own ? start[i] + own : Math.max(start[i], profile.wall);
  }
}

// The calling-context tree: the node of each entry. A node is an operation under a parent node.
function contexts(profile) {
  const { n, operation, parent } = profile;
  const width = profile.operations.length + 1;
  const known = new Map();
  const seen = new Uint8Array(width);
  const nodes = (profile.nodes = { operation: [], parent: [], repeated: [] });
  const node = (profile.node = new Int32Array(n));
  profile.nodeOf = (above, op) => {
    const key = (above + 1) * width + op;
    let found = known.get(key);
    if (found === undefined) {
      found = nodes.operation.length;
      known.set(key, found);
      nodes.operation.push(op);
      nodes.parent.push(above);
      // An operation without any node so far cannot be an ancestor; the search ends here in most deep trees.
      let outer = seen[op] ? above : -1;
      seen[op] = 1;
      while (outer >= 0 && nodes.operation[outer] !== op) outer = nodes.parent[outer];
      // True if the operation is also an ancestor of itself; its time counts once.
      nodes.repeated.push(outer >= 0);
    }
    return found;
  };
  let lastKey = -1;
  let lastNode = -1;
  for (let i = 0; i < n; i++) {
    const above = parent[i] < 0 ? -1 : node[parent[i]];
    const key = (above + 1) * width + operation[i];
    if (key !== lastKey) {
      lastNode = profile.nodeOf(above, operation[i]);
      lastKey = key;
    }
    node[i] = lastNode;
  }
  profile.totalNode = [];
  for (const total of profile.totals) {
    const above = total.parent >= 0 ? profile.totalNode[total.parent] : -1;
    profile.totalNode.push(profile.nodeOf(above ?? -1, total.operation));
  }
}

// Rows of the timeline. Entries of a row do not overlap: an entry that is not properly nested moves one row down.
function rows(profile) {
  const { n, lane, parent, start, end } = profile;
  const level = new Uint32Array(n);
  const busy = profile.lanes.map(() => []);
  for (let i = 0; i < n; i++) {
    const until = busy[lane[i]];
    let at = parent[i] < 0 ? 0 : level[parent[i]] + 1;
    while (at < until.length && until[at] > start[i]) at++;
    until[at] = end[i];
    level[i] = at;
  }
  profile.level = level;
  profile.levels = busy.map((until) => until.length);
  const first = [];
  let count = 0;
  for (const levels of profile.levels) {
    first.push(count);
    count += levels;
  }
  const offset = new Uint32Array(count + 1);
  for (let i = 0; i < n; i++) offset[first[lane[i]] + level[i] + 1]++;
  for (let row = 0; row < count; row++) offset[row + 1] += offset[row];
  const place = offset.slice();
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i++) order[place[first[lane[i]] + level[i]]++] = i;
  profile.rowsOf = (one, depth) => order.subarray(offset[first[one] + depth], offset[first[one] + depth + 1]);
}

export function detailOf(profile, i, field) {
  const row = profile.detail ? profile.detail[i] : -1;
  return row < 0 ? null : (profile.details.columns[field]?.[row] ?? null);
}

// The ancestors of an entry and the entry itself, outermost first.
export function pathOf(profile, i) {
  const path = [];
  for (let at = i; at >= 0; at = profile.parent[at]) path.push(at);
  return path.reverse();
}

// The file name and line of an operation, if an operation elsewhere in the source has the same name; otherwise empty.
export function placeOf(profile, at) {
  profile.ambiguous ??= ambiguous(profile.operations);
  const { name, file, line } = profile.operations[at];
  return file && profile.ambiguous.has(name) ? `${String(file).split(/[/\\]/).at(-1)}:${line}` : "";
}

// The name of an operation on one line, with its place if needed to distinguish it.
export function nameOf(profile, at, longest) {
  const place = placeOf(profile, at);
  return `${label(profile.operations[at].name, longest)}${place ? ` (${label(place, 30)})` : ""}`;
}

function ambiguous(operations) {
  const places = new Map();
  return new Set(operations.filter(({ name, file, line }) => {
    const place = `${file}:${line}`;
    if (!places.has(name)) places.set(name, place);
    return places.get(name) !== place;
  }).map(({ name }) => name));
}
