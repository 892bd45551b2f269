// The origin of the profile, the cost of recording it, and what was lost.
import { empty, h, replace, section } from "../base/dom.js";
import { count, label, significant, time, visible, when } from "../base/format.js";
import { on, state } from "../base/state.js";
import { lossesOf } from "../calc/losses.js";

export function environmentView() {
  const { element, body } = section("environment", "Environment and cost", null, []);
  on("profile other", () => draw(body));
  return element;
}

function draw(body) {
  const { profile, other } = state;
  const [clock, cost, losses] = [profile.clock ?? {}, profile.cost ?? {}, profile.losses ?? {}];
  const missing = lossesOf(profile);
  const recorded = [
    ["started", when(profile.started_unix_ns)],
    ["clock", clock.kind],
    ["tick", clock.ns_per_tick ? `${significant(clock.ns_per_tick, 4)} ns` : null],
    ["error of the clock", clock.relative_error ? `${(clock.relative_error * 1e6).toPrecision(2)} ppm` : null],
    ["a span costs", ns(cost.span_ns)],
    ["a span while off costs", ns(cost.off_ns)],
    ["an empty span measures", ns(cost.empty_ns)],
  ];
  const lost = [
    ["spans, buffer full", profile.losses ? missing.lost : undefined], ["spans, only in totals", missing.aggregated || undefined], ["spans of ending threads", losses.ending_threads], ["details", losses.details],
    ["open at the end", losses.open], ["skipped by sampling", losses.sampled_out],
  ].map(([name, number]) => [name, number === undefined ? null : count(number)]);
  replace(body, h("div", { class: "columns" },
    facts("Machine and program", environmentRows(profile, other), other !== null),
    facts("Recording", recorded.map(([name, value]) => [name, value]), false),
    facts("Not in the profile", lost, false)));
}

// With two profiles, A's value is shown where it differs.
function environmentRows(profile, other) {
  const [mine, theirs] = [profile.environment ?? {}, other?.environment ?? {}];
  const text = (value) => (value === undefined || value === null ? null : typeof value === "object" ? JSON.stringify(value) : String(value));
  const names = [...new Set([...Object.keys(mine), ...Object.keys(theirs)])];
  return names.map((name) => [name, text(mine[name]), other && text(mine[name]) !== text(theirs[name]) ? (text(theirs[name]) ?? "unknown") : null]);
}

function ns(value) {
  return value > 0 ? time(value) : null;
}

function facts(title, rows, compared) {
  const known = rows.filter(([, value, before]) => value !== null && value !== undefined || before);
  return h("div", {}, h("h3", {}, title), known.length === 0 ? empty("The profile does not say.") : h("table", { class: "facts" },
    compared && h("thead", {}, h("tr", {}, h("th", {}, ""), h("th", {}, "this (B)"), h("th", {}, "A, if different"))),
    h("tbody", {}, known.map(([name, value, before]) => h("tr", {}, h("th", { scope: "row" }, label(name, 40)),
      h("td", { title: visible(String(value ?? "")).slice(0, 2000) }, value === null || value === undefined ? "unknown" : label(value, 90)), compared && h("td", {}, before ? label(before, 60) : ""))))));
}
