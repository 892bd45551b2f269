// The headline figures.
import { h, replace } from "../base/dom.js";
import { bytes, count, counted, label, percent, time } from "../base/format.js";
import { on, state, update } from "../base/state.js";
import { breakdown } from "../calc/breakdown.js";
import { peakOf } from "../calc/memory.js";
import { knowsCost } from "../calc/cost.js";

export function cardsView() {
  const box = h("div", { class: "cards", id: "cards" });
  on("profile summary", () => draw(box));
  return box;
}

function draw(box) {
  const { profile, summary } = state;
  const range = state.range ?? [0, profile.wall];
  const calls = summary.rows.reduce((sum, row) => sum + row.calls, 0);
  const open = summary.rows.reduce((sum, row) => sum + row.open, 0);
  const top = summary.rows.reduce((best, row) => (row.self > (best?.self ?? 0) ? row : best), null);
  const parts = Object.fromEntries(breakdown(profile, state.range).map(({ part, ns }) => [part, ns]));
  const streams = profile.lanes.filter((lane) => lane.kind === "stream").length;
  const heap = profile.tracks.find((track) => track.unit === "B");
  const peak = heap && peakOf(heap, range);
  const name = top && profile.operations[top.operation].name;
  const threads = threadsOf(profile);
  replace(box,
    card("wall", state.range ? "Range" : "Wall time", time(state.range ? summary.wall : profile.elapsed), state.range ? `${percent(summary.wall / profile.wall)} of ${time(profile.wall)}` : "of the recording"),
    card("calls", "Calls", count(calls), `${counted(summary.rows.length, "operation")}${open ? `, ${count(open)} open` : ""}`),
    card("lanes", "Threads", count(threads), streams ? `and ${count(streams)} device ${streams === 1 ? "stream" : "streams"}` : "no device stream"),
    hostCard(parts, summary.wall, profile.breakdown?.cpu_is_least),
    streams > 0 && card("device", "Device alone", percent(parts.device / summary.wall), `transfers alone ${percent(parts.transfer / summary.wall)}`),
    card("top", "Largest self time", top ? time(top.self) : "–", top ? h("button", { type: "button", class: "link", onclick: () => update({ operation: top.operation }) }, label(name, 28)) : "no calls"),
    peak && card("peak", `Peak of ${label(heap.name, 28)}`, bytes(peak.value), `at ${time(peak.at)}`),
    card("cost", "Profiler's own cost", knowsCost(profile) ? percent(parts.instrumentation / summary.wall) : "unknown", profile.cost?.span_ns ? `${time(profile.cost.span_ns)} a span` : "not measured"));
}

// Threads of the host. Spans that overlap others of their thread have a separate lane (crates/trace), and so have those
// in flight.
function threadsOf({ lanes, lane, operation, operations, n }) {
  const [flying, working] = [new Set(), new Set()];
  for (let i = 0; i < n; i++) (operations[operation[i]].kind === "in-flight" ? flying : working).add(lane[i]);
  return lanes.filter(({ kind, name }, i) => kind !== "stream" && !/ \(overlap \d+\)$/.test(name) && (working.has(i) || !flying.has(i))).length;
}

// Threads without CPU time may work or wait. A few such microseconds, as in an open span, leave the rest known. The
// moments at which a thread computes within its span are unknown, so the CPU time of several threads may be a lower
// bound.
function hostCard(parts, wall, isLeast) {
  const least = parts.cpu + parts.compile + parts.allocation + parts.launch + parts.instrumentation;
  const unknown = parts["not-measured"];
  if (unknown > 0.01 * wall) return card("host", "Host works", `≤ ${percent((least + unknown) / wall)}`, `at least ${percent(least / wall)}; CPU time not measured`);
  if (isLeast) return card("host", "Host works", `≥ ${percent(least / wall)}`, `waits at most ${percent(parts.wait / wall)}`);
  return card("host", "Host works", percent(least / wall), `waits ${percent(parts.wait / wall)}`);
}

function card(id, title, value, note) {
  return h("div", { class: "card", "data-card": id }, h("h3", {}, title), h("p", { class: "value" }, value), h("p", { class: "note" }, note));
}
