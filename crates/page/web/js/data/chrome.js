// Chrome traces, as browsers, PyTorch and many other programs write them: complete (X), begin/end (B, E) and async events
// (b, n, e) become entries, counters (C) tracks, flows links.
import { build } from "./model.js";

// As the reader of `ellwand view` (category.rs): the last name of a list is for what no pattern matches.
const CALL = [[/synchronize|streamwait|eventwait/i, "sync"], [/malloc|memalloc|free|hostalloc|hostregister/i, "allocation"],
  [/moduleload|libraryload|nvrtc|linkcreate|linkadd/i, "compile"], [/launch|memcpy|memset|eventrecord/i, "launch"], [/^/, "cpu"]];
const COPY = [[/htod|host to device/i, "host-to-device"], [/dtoh|device to host/i, "device-to-host"], [/^/, "device-to-device"]];
const KERNEL = [[/^/, "kernel"]];
const KINDS = {
  kernel: KERNEL, gpu_memset: KERNEL, gpu_memcpy: COPY, cuda_runtime: CALL, cuda_driver: CALL, hip_runtime: CALL, hip_driver: CALL,
  xpu_runtime: CALL, mtia_runtime: CALL, privateuse1_runtime: CALL, overhead: [[/^/, "instrumentation"]],
};
const ASYNC = ["b", "n", "e", "S", "F"];
// Ranges and marks of the device that repeat what the calls of the host show.
const REPEATED = new Set(["gpu_user_annotation", "cuda_sync"]);

function kind(category, name) {
  const rules = Object.hasOwn(KINDS, category) ? KINDS[category] : [];
  return rules.find(([pattern]) => pattern.test(name))?.[1] ?? "cpu";
}

export function isChrome(document) {
  return Array.isArray(document) || Array.isArray(document?.traceEvents);
}

export function fromChrome(document) {
  const events = Array.isArray(document) ? document : document.traceEvents;
  const lanes = new Map();
  const operations = new Map();
  const tracks = new Map();
  const list = { extent: { from: Infinity, to: -Infinity }, flows: new Map() };
  const laneOf = (event, tasks = false) => {
    const name = tasks ? `tasks: ${category(event)}` : `${event.pid}/${event.tid}`;
    const key = `${event.pid}\u0000${tasks ? name : event.tid}`;
    if (!lanes.has(key)) lanes.set(key, { name, kind: "thread", spans: [], open: [], tasks: new Map(), arrows: [] });
    return lanes.get(key);
  };
  for (const event of events) if (event && typeof event === "object") take(event, laneOf, tracks, list);
  const kept = [...lanes.values()].filter((lane) => lane.spans.length > 0);
  if (kept.length === 0) throw new Error("the trace has no complete, begin/end or async events; expected at least one with \"ph\" X, B or b");
  return build(...assemble(kept, operations, tracks, list, document));
}

function take(event, laneOf, tracks, { extent, flows }) {
  const at = Number(event.ts) * 1000;
  const name = String(event.name ?? "");
  const lane = () => laneOf(event);
  if (event.ph === "X" && Number.isFinite(at)) {
    const duration = Number(event.dur ?? 0) * 1000;
    // The profiler's own range covers the recording; a span of it would cover everything.
    if (category(event) === "Trace") {
      extent.from = Math.min(extent.from, at);
      extent.to = Math.max(extent.to, at + (duration || 0));
    } else if (!REPEATED.has(category(event))) lane().spans.push(span(event, name, at, duration));
  } else if (event.ph === "B" && Number.isFinite(at)) {
    const opened = span(event, name, at, NaN);
    lane().spans.push(opened);
    lane().open.push(opened);
  } else if (event.ph === "E") {
    const opened = lane().open.pop();
    if (opened) opened.duration = at - opened.start;
  } else if (ASYNC.includes(event.ph) && Number.isFinite(at) && name !== "[memory]") task(event, name, at, laneOf(event, true));
  else if (event.ph === "M" && event.name === "thread_name" && event.args?.name) lane().name = String(event.args.name);
  else if (event.ph === "C") {
    for (const [key, value] of Object.entries(event.args ?? {})) {
      if (!Number.isFinite(value)) continue;
      const title = key === "value" || key === name ? name : `${name}: ${key}`;
      if (!tracks.has(title)) tracks.set(title, []);
      tracks.get(title).push([at, value]);
    }
  } else if (event.ph === "s" || event.ph === "f" || event.ph === "t") {
    const link = flows.get(event.id) ?? flows.set(event.id, []).get(event.id);
    link.push([lane(), at]);
  }
}

// Async events, also of the older phases S and F: no thread runs them, and those with the same identity and name belong together.
function task(event, name, at, lane) {
  const key = JSON.stringify([event.cat, event.scope, event.id, event.id2, name]);
  if (event.ph === "e" || event.ph === "F") {
    const opened = lane.tasks.get(key)?.pop();
    if (opened) opened.duration = Math.max(0, at - opened.start);
    return;
  }
  const begun = { ...span(event, name, at, event.ph === "n" ? 0 : NaN), kind: "in-flight" };
  lane.spans.push(begun);
  if (event.ph !== "n") (lane.tasks.get(key) ?? lane.tasks.set(key, []).get(key)).push(begun);
}

function category(event) {
  return String(event.cat ?? "").split(",")[0];
}

function span(event, name, start, duration) {
  const args = event.args && typeof event.args === "object" ? event.args : null;
  return { name: name.replace(/^ProfilerStep#.*/, "ProfilerStep"), kind: kind(category(event), name), start, duration: Math.max(0, duration), args, link: 0 };
}

// Gives each arrow to the innermost span around its end. Both are in order of time, so that one pass suffices.
function place({ spans, arrows }) {
  const open = [];
  let next = 0;
  for (const { at, link } of arrows.sort((a, b) => a.at - b.at)) {
    while (next < spans.length && spans[next].start <= at) open.push(spans[next++]);
    while (open.length > 0 && open[open.length - 1].start + open[open.length - 1].duration < at) open.pop();
    if (open.length > 0) open[open.length - 1].link = link;
  }
}

function assemble(lanes, operations, tracks, { extent, flows }, document) {
  let first = extent.from;
  let last = 0;
  for (const lane of lanes) {
    for (const one of lane.spans) first = Math.min(first, one.start);
    lane.spans.sort((a, b) => a.start - b.start || (b.duration || Infinity) - (a.duration || Infinity));
    if (lane.spans.some((one) => one.kind === "kernel" || one.kind.includes("-to-"))) lane.kind = "stream";
  }
  [...flows.values()].forEach((ends, flow) => {
    for (const [lane, at] of ends) lane.arrows.push({ at, link: flow + 1 });
  });
  for (const lane of lanes) place(lane);
  last = Math.max(last, extent.to - first);
  const n = lanes.reduce((sum, lane) => sum + lane.spans.length, 0);
  const entries = {
    operation: new Uint32Array(n), lane: new Uint32Array(n), parent: new Int32Array(n).fill(-1),
    start: new Float64Array(n), duration: new Float64Array(n), link: new Int32Array(n), detail: new Int32Array(n).fill(-1),
  };
  const args = {};
  let details = 0;
  let i = 0;
  lanes.forEach((lane, number) => {
    const stack = [];
    for (const one of lane.spans) {
      const start = one.start - first;
      const end = Number.isNaN(one.duration) ? Infinity : start + one.duration;
      last = Math.max(last, end === Infinity ? start : end);
      // A nanosecond of slack: the format rounds to decimals of a microsecond.
      while (stack.length > 0 && (stack[stack.length - 1][1] <= start || stack[stack.length - 1][1] < end - 1)) stack.pop();
      if (stack.length > 0) entries.parent[i] = stack[stack.length - 1][0];
      stack.push([i, end]);
      const key = `${one.kind}\u0000${one.name}`;
      if (!operations.has(key)) operations.set(key, { name: one.name, kind: one.kind, number: operations.size });
      entries.operation[i] = operations.get(key).number;
      entries.lane[i] = number;
      entries.start[i] = start;
      entries.duration[i] = one.duration;
      entries.link[i] = one.link;
      if (one.args && Object.keys(one.args).length > 0) {
        args[details] = one.args;
        entries.detail[i] = details++;
      }
      i++;
    }
  });
  const head = {
    name: "Chrome trace",
    partial: true,
    wall_ns: last,
    operations: [...operations.values()],
    lanes: lanes.map(({ name, kind }) => ({ name, kind })),
    tracks: [...tracks].map(([name, points]) => {
      points.sort((a, b) => a[0] - b[0]);
      return { name, unit: /byte|memory|heap/i.test(name) ? "B" : "", at_ns: points.map(([at]) => at - first), value: points.map(([, value]) => value) };
    }),
    environment: document.otherData ?? {},
  };
  return [head, entries, { count: details, columns: {}, args }];
}
