// Components inside implementations, from separate runs with spans: the columns and words of `ellwand report`.
import { append, empty, h, section, table } from "../base/dom.js";
import { count, percent, significant } from "../base/format.js";
import { human } from "./model.js";

const seconds = (value) => human(value, "s");
const number = (value) => (Number.isInteger(value) ? count(value) : significant(value, 3));

// The last name of the path, with its source location if several components share the path.
function nameOf(spans, row) {
  const same = (other) => other.calling === row.calling && other.path.join("\u0000") === row.path.join("\u0000");
  const file = row.at.split(/[/\\]/).at(-1);
  const name = row.path.at(-1) ?? "";
  return spans.rows.filter(same).length > 1 && file ? `${name} (${file})` : name;
}

function threads({ calling, threads: n }) {
  return calling ? "caller" : n === 0 ? "device" : n === 1 ? "1 other" : `${n} others`;
}

function rates(row) {
  const known = [[row.bandwidth, "B/s"], [row.flop_rate, "FLOP/s"], [row.item_rate, "1/s"]].filter(([value]) => value > 0);
  return known.map(([value, unit]) => human(value, unit)).join(", ");
}

// For each column: title, cell of a component, cell of the time in no span.
function columns(spans) {
  const any = (test) => spans.rows.some(test);
  return [
    ["calls", (row) => number(row.calls), ""],
    ["time", (row) => seconds(row.time_s), seconds(spans.outside_s)],
    ["share", (row) => percent(row.share), percent(spans.outside_share)],
    ["self", (row) => seconds(row.self_s), seconds(spans.outside_s)],
    ["median call", (row) => seconds(row.call_median_s), ""],
    any((row) => Number.isFinite(row.call_p99_s)) && ["p99 call", (row) => seconds(row.call_p99_s), ""],
    any((row) => !row.calling) && ["threads", threads, "caller"],
    any((row) => rates(row) !== "") && ["declared", rates, ""],
  ].filter(Boolean);
}

function results(spans) {
  const shown = columns(spans);
  const line = (name, depth, cells) => h("tr", {}, h("th", { scope: "row", style: { "padding-left": `${8 + 16 * depth}px` } }, name), cells.map((text) => h("td", {}, text)));
  return table(`Components of ${spans.implementation}`, ["component", ...shown.map(([title]) => title)], [0],
    [...spans.rows.map((row) => line(nameOf(spans, row), row.path.length - 1, shown.map(([, cell]) => cell(row)))), line("(in no span)", 0, shown.map(([, , outside]) => outside))]);
}

// Time of an iteration and the conditions of the recording.
function terms(spans) {
  const of = spans.left_out.length > 0 ? ` of ${spans.iterations}` : "";
  const added = Number.isFinite(spans.overhead_share) ? ` (${percent(spans.overhead_share)} of it)` : "";
  return [
    `${spans.iterations - spans.left_out.length}${of} iterations with spans on, ${seconds(spans.iteration_s)} each (mean; median ${seconds(spans.iteration_median_s)}): not a benchmark`,
    Number.isFinite(spans.span_cost_s) && `${number(spans.spans_per_iteration)} ${spans.spans_per_iteration === 1 ? "span" : "spans"} per iteration at ${seconds(spans.span_cost_s)} per span${added}`,
    spans.rows.some((row) => !row.calling && row.threads > 0) && "times of other threads are summed over threads and overlap the caller's",
    spans.rows.some((row) => !row.calling && row.threads === 0) && "times on the device overlap those of the caller, which waits for the device",
  ].filter(Boolean).join(" · ");
}

export function spansViews(report) {
  return (report.spans ?? []).map((spans, i) => {
    const run = report.runs.length > 1 && `run ${spans.run + 1}`;
    const title = [`Inside ${spans.implementation}`, spans.workload, spans.place, run].filter(Boolean).join(" · ");
    const { element, body } = section(`spans-${i}`, title, [spans.what_ran, spans.fixed, "From a separate run with spans; its times are never the headline."].filter(Boolean).join(" · "), []);
    const reason = spans.status.reason && `${spans.status.word}: ${spans.status.reason}`;
    append(body, spans.rows.length > 0 ? [results(spans), h("p", { class: "note" }, terms(spans))] : empty(reason || "No spans."),
      spans.notes.length > 0 && h("ul", { class: "plain" }, spans.notes.map((one) => h("li", {}, one))));
    return element;
  });
}
