// What the page shows now. A view subscribes to the parts that it draws; changes are drawn once per frame.

export const state = {
  profile: null,
  other: null,
  extras: {},
  range: null, // [start, end] in nanoseconds, or null for the whole recording
  view: null, // the visible part of the timeline
  operation: -1,
  span: -1,
  filter: "",
  sort: ["self", -1],
  flame: "left",
};

const listeners = [];
const derivations = [];
let pending = new Set();
let scheduled = false;

export function on(keys, draw) {
  listeners.push([keys.split(" "), draw]);
}

// Recomputes parts that depend on others before any view draws; `act` returns the parts that it changed.
export function derive(keys, act) {
  derivations.push([keys.split(" "), act]);
}

export function update(change) {
  for (const [key, value] of Object.entries(change)) {
    if (state[key] === value) continue;
    state[key] = value;
    touch(key);
  }
}

// Makes the views of a part draw again.
export function touch(key) {
  pending.add(key);
  if (scheduled) return;
  scheduled = true;
  // Hidden pages get no frames; the timer draws in them too.
  const run = () => scheduled && flush();
  requestAnimationFrame(run);
  setTimeout(run, 100);
}

export function flush() {
  scheduled = false;
  const keys = pending;
  pending = new Set();
  const started = performance.now();
  for (const [wanted, act] of derivations) if (wanted.some((key) => keys.has(key))) for (const key of act(keys)) keys.add(key);
  timed("summary", started, keys);
  for (const [wanted, draw] of listeners) {
    if (!wanted.some((key) => keys.has(key))) continue;
    const from = performance.now();
    draw(keys);
    timed(`draw ${wanted[0]} ${wanted[1] ?? ""}`, from, keys);
  }
  timed("flush", started, keys);
}

export function range() {
  return state.range ?? [0, state.profile.wall];
}

// Recorded for the browser's developer tools and for the test with a million spans.
function timed(name, start, keys) {
  if (keys.has("range") || keys.has("profile")) performance.measure(name, { start, end: performance.now() });
}
