// Flame graphs: trees of frames with x and width as shares of the whole, in typed arrays or plain lists.
import { isOwn } from "./losses.js";
import { touches } from "./summary.js";

// Time of each context node within the range; `lane` limits it to one lane (-1: all).
export function nodeTimes(profile, range, lane) {
  const { n, node, nodes, start, end, duration, parent } = profile;
  const [from, to] = range;
  const whole = from <= 0 && to >= profile.wall;
  const size = nodes.operation.length;
  const total = new Float64Array(size);
  const calls = new Float64Array(size);
  for (let i = 0; i < n; i++) {
    if ((lane >= 0 && profile.lane[i] !== lane) || !touches(profile, range, i)) continue;
    // An open span lasts until the recording ends, as in the timeline.
    const part = Math.min(end[i], to) - Math.max(start[i], from);
    if (part > 0) total[node[i]] += part;
    if (duration[i] === duration[i]) calls[node[i]]++;
  }
  if (whole) {
    profile.totals.forEach((one, i) => {
      if (lane >= 0 && one.lane !== lane) return;
      total[profile.totalNode[i]] += one.total_ns;
      calls[profile.totalNode[i]] += one.count;
    });
  }
  return { total, calls };
}

// Frames {name, op, value, calls, children}. Aggregated calls may exceed the recorded part of their parent.
function tree(profile, times, order) {
  const { nodes } = profile;
  const frames = nodes.operation.map((op, i) => ({
    op, name: profile.operations[op].name, value: times.total[i], calls: times.calls[i], self: 0, children: [],
  }));
  const root = emptyFrame(-1, "all");
  frames.forEach((frame, i) => {
    if (frame.value > 0) (frames[nodes.parent[i]] ?? root).children.push(frame);
  });
  return settle(root, order);
}

function emptyFrame(op, name) {
  return { op, name, value: 0, calls: 0, self: 0, children: [] };
}

// Computes self times and makes every frame at least as wide as those below it; sorts children if there is an order.
function settle(root, order) {
  const frames = [root];
  for (let i = 0; i < frames.length; i++) for (const child of frames[i].children) frames.push(child);
  for (const frame of frames.reverse()) {
    let below = 0;
    for (const child of frame.children) below += child.value;
    frame.value = Math.max(frame.value, below);
    frame.self = frame.value - below;
    if (order) frame.children.sort(order);
  }
  return root;
}

const HEAVY = (a, b) => b.value - a.value || (a.name < b.name ? -1 : 1);

export function leftHeavy(profile, range, lane) {
  return tree(profile, nodeTimes(profile, range, lane), HEAVY);
}

// Calls in order of time; neighbouring calls of one operation under one parent are merged.
export function timeOrder(profile, range, lane) {
  const { n, parent, operation, start, end, duration } = profile;
  const root = emptyFrame(-1, "all");
  const frameOf = new Array(n);
  for (let i = 0; i < n; i++) {
    if ((lane >= 0 && profile.lane[i] !== lane) || !touches(profile, range, i)) continue;
    const part = Math.min(end[i], range[1]) - Math.max(start[i], range[0]);
    const above = (parent[i] >= 0 && frameOf[parent[i]]) || root;
    let frame = above.children[above.children.length - 1];
    if (!frame || frame.op !== operation[i] || (above === root && frame.lane !== profile.lane[i])) {
      frame = { ...emptyFrame(operation[i], profile.operations[operation[i]].name), lane: profile.lane[i] };
      above.children.push(frame);
    }
    frame.value += Math.max(0, part);
    if (duration[i] === duration[i]) frame.calls++;
    frameOf[i] = frame;
  }
  return settle(root);
}

// The callers of an operation and its callees: two trees that both start with it.
export function sandwich(profile, range, op) {
  const times = nodeTimes(profile, range, -1);
  const { nodes } = profile;
  const all = leftHeavy(profile, range, -1);
  const [callers, callees] = [0, 1].map(() => emptyFrame(op, profile.operations[op].name));
  const below = [];
  const find = [...all.children];
  for (let frame = find.pop(); frame; frame = find.pop()) {
    if (frame.op === op) below.push(frame);
    else find.push(...frame.children);
  }
  merge(callees, below);
  nodes.operation.forEach((one, i) => {
    if (one !== op || nodes.repeated[i] || !(times.total[i] > 0)) return;
    callers.value += times.total[i];
    callers.calls += times.calls[i];
    let at = callers;
    for (let up = nodes.parent[i]; up >= 0; up = nodes.parent[up]) {
      let frame = at.children.find((child) => child.op === nodes.operation[up]);
      if (!frame) {
        frame = emptyFrame(nodes.operation[up], profile.operations[nodes.operation[up]].name);
        at.children.push(frame);
      }
      frame.value += times.total[i];
      frame.calls += times.calls[i];
      at = frame;
    }
  });
  sortAll(callers);
  return { callers, callees };
}

// Merges the frames of one operation into one, child by child.
function merge(into, frames) {
  const work = [[into, frames]];
  for (let item = work.pop(); item; item = work.pop()) {
    const [target, sources] = item;
    const children = new Map();
    for (const source of sources) {
      target.value += source.value;
      target.calls += source.calls;
      target.self += source.self;
      for (const child of source.children) children.set(child.op, [...(children.get(child.op) ?? []), child]);
    }
    for (const [op, group] of children) {
      const frame = emptyFrame(op, group[0].name);
      target.children.push(frame);
      work.push([frame, group]);
    }
  }
  sortAll(into);
}

function sortAll(root) {
  const work = [root];
  for (let frame = work.pop(); frame; frame = work.pop()) {
    frame.children.sort(HEAVY);
    work.push(...frame.children);
  }
}

// The tree of B with the time of the same path in A (`base`; null if the path is new), and the paths that only A has.
export function difference(a, b) {
  const [before, after] = [leftHeavy(a, [0, a.wall], -1), leftHeavy(b, [0, b.wall], -1)];
  const gone = [];
  const work = [[after, before, []]];
  after.base = before.value;
  for (let item = work.pop(); item; item = work.pop()) {
    const [frame, old, path] = item;
    const left = new Map();
    // The recorder's own spans are not a change of the program.
    frame.children = frame.children.filter((child) => !isOwn(b.operations[child.op]));
    for (const child of (old?.children ?? []).filter((child) => !isOwn(a.operations[child.op]))) left.set(child.name, (left.get(child.name) ?? []).concat(child));
    for (const child of frame.children) {
      const match = left.get(child.name)?.shift() ?? null;
      child.base = match ? match.value : null;
      child.baseCalls = match ? match.calls : null;
      work.push([child, match, [...path, child.name]]);
    }
    for (const rest of left.values()) for (const one of rest) gone.push({ path: [...path, one.name], value: one.value, calls: one.calls });
  }
  gone.sort((x, y) => y.value - x.value);
  return { root: after, gone };
}
