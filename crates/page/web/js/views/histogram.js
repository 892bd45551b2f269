// Durations of one operation in the range, with percentiles; with a second profile A over B.
import { button, empty, h, replace, section, select } from "../base/dom.js";
import { tokens } from "../base/color.js";
import { count, counted, time } from "../base/format.js";
import { csv, save } from "../base/save.js";
import { on, state, update } from "../base/state.js";
import { bins, extent } from "../calc/histogram.js";
import { sortedOf, summarize } from "../calc/summary.js";
import { nameOf } from "../data/model.js";
import { Chart, chartSvg } from "../draw/plot.js";
import { tickLabel, ticks } from "../draw/ticks.js";

export function histogramView() {
  const chooser = h("span");
  const chart = new Chart("Histogram of durations", 300);
  const { element, body } = section("histogram", "Durations of an operation", "The axis of time is logarithmic. Lines mark the median, p90 and p99.", [chooser,
    button("SVG", async () => chart.drawn && save("durations.svg", await chartSvg(chart), "image/svg+xml"), { "data-export": "svg" }),
    button("CSV", () => exportCsv(), { "data-export": "csv" })]);
  const facts = h("div", { id: "durations" });
  const hollow = h("div");
  body.append(hollow, chart.box, facts);
  on("profile summary operation other theme", () => draw({ chooser, chart, facts, hollow }));
  return element;
}

// The selected operation, or else the largest by self time.
function chosen() {
  if (state.operation >= 0) return state.operation;
  return state.summary.rows.reduce((best, row) => (row.self > (best?.self ?? -1) ? row : best), null)?.operation ?? -1;
}

const summaries = new WeakMap();

function otherRow(name) {
  const { other } = state;
  if (!other) return null;
  if (!summaries.has(other)) summaries.set(other, summarize(other, [0, other.wall]));
  return summaries.get(other).rows.find((row) => other.operations[row.operation].name === name) ?? null;
}

function draw({ chooser, chart, facts, hollow }) {
  const { profile, summary } = state;
  const op = chosen();
  const options = [...summary.rows].sort((a, b) => b.self - a.self).slice(0, 300).map((row) => [row.operation, nameOf(profile, row.operation, 50)]);
  if (op >= 0 && !options.some(([one]) => one === op)) options.unshift([op, nameOf(profile, op, 50)]);
  replace(chooser, op >= 0 && select("Operation", options, op, (value) => update({ operation: Number(value), span: -1 })));
  const row = summary.rows.find((one) => one.operation === op);
  const before = op >= 0 ? otherRow(profile.operations[op].name) : null;
  const lists = [before, row].filter((one) => one?.durations.length > 0).map(sortedOf);
  const span = extent(lists);
  const why = !row ? "No calls of this operation in the range." : row.durations.length === 0 ? "The calls of this operation were aggregated or are open, so their single durations are unknown." : span ? null : "Every call of this operation took 0 ns: below the resolution of the clock.";
  replace(hollow, why && empty(why));
  chart.box.hidden = Boolean(why);
  const aggregated = row?.aggregated.calls ?? 0;
  replace(facts, aggregated > 0 && row.durations.length > 0 && h("p", { class: "note" }, `Of ${counted(row.calls, "call")}, ${count(row.durations.length)} are kept as spans and drawn. The lines and the table know all of them.`),
    row && table(row, before));
  if (why) return;
  const t = tokens();
  const traces = [];
  if (before?.durations.length > 0) traces.push(bars(sortedOf(before), span, "A", "#9aa3ae"));
  traces.push(bars(row.sorted, span, before ? "B" : "calls", t.accent));
  const marks = [["p50", row.p50], ["p90", row.p90], ["p99", row.p99]].filter(([, value]) => value > 0);
  const axis = axisOf(span);
  const most = Math.max(...traces.flatMap((one) => one.y));
  // Near the right edge, text at a mark would be cut off on that side.
  const side = (value) => (Math.log10(value) - axis.range[0] > 0.88 * (axis.range[1] - axis.range[0]) ? { xanchor: "right", xshift: -4 } : { xanchor: "left", xshift: 4 });
  chart.set(traces, {
    barmode: "overlay", bargap: 0.04, showlegend: Boolean(before),
    xaxis: { type: "log", title: "Duration", ...axis, fixedrange: true }, yaxis: { title: before ? "Share of calls" : "Calls", fixedrange: true, tickformat: before ? ".0%" : "", ...(!before && most <= 5 && { dtick: 1 }) },
    shapes: marks.map(([, value]) => ({ type: "line", xref: "x", yref: "paper", x0: value, x1: value, y0: 0, y1: 1, line: { color: t.text, width: 1, dash: "dot" } })),
    annotations: marks.map(([name, value], i) => ({ x: Math.log10(value), y: 1 - i * 0.075, xref: "x", yref: "paper", text: `${name} ${time(value)}`, showarrow: false, ...side(value), yanchor: "top", font: { size: 11, color: t.muted } })),
  });
}

// A over B compares shapes, so both are drawn as shares of their calls.
function bars(sorted, span, name, color) {
  const { values, edges } = bins(sorted, span);
  const shares = state.other && name !== "calls";
  return {
    type: "bar", name, x: values.map((_, i) => Math.sqrt(edges[i] * edges[i + 1])), width: values.map((_, i) => edges[i + 1] - edges[i]),
    y: shares ? values.map((value) => value / sorted.length) : values, marker: { color, opacity: name === "A" ? 0.55 : 0.75 },
    hovertext: values.map((value, i) => `${name}: ${counted(value, "call")}<br>${time(edges[i])} to ${time(edges[i + 1])}`), hoverinfo: "text",
  };
}

function axisOf([low, high]) {
  if (high / low < 8) {
    // Below a decade, use round steps as on a linear axis.
    const { list, step } = ticks([low * 0.9, high * 1.1], 7);
    return { tickmode: "array", tickvals: list, ticktext: list.map((value) => tickLabel(value, step, high)), range: [Math.log10(low) - 0.03, Math.log10(high) + 0.05] };
  }
  const [from, to] = [Math.floor(Math.log10(low) - 0.15), Math.ceil(Math.log10(high) + 0.15)];
  const places = [];
  for (let power = from; power <= to; power++) for (const factor of to - from > 3 ? [1] : [1, 2, 5]) places.push(factor * 10 ** power);
  return { tickmode: "array", tickvals: places, ticktext: places.map((value) => time(value, 2)), range: [Math.log10(low) - 0.08, Math.log10(high) + 0.12] };
}

function table(row, before) {
  const columns = ["calls", "mean", "std", "min", "p50", "p90", "p99", "max"];
  const format = (key, value) => (key === "calls" ? count(value) : time(value));
  const line = (title, one) => h("tr", {}, h("th", { scope: "row" }, title), columns.map((key) => h("td", {}, format(key, one[key]))));
  return h("div", { class: "scroll" }, h("table", { class: "facts numbers" }, h("thead", {}, h("tr", {}, h("th", {}, ""), columns.map((key) => h("th", { scope: "col" }, key)))),
    h("tbody", {}, before && line("A", before), line(before ? "B" : "range", row))));
}

function exportCsv() {
  const op = chosen();
  const row = state.summary.rows.find((one) => one.operation === op);
  if (!row) return;
  save("durations.csv", csv(["duration_ns"], Array.from(sortedOf(row), (value) => [value])), "text/csv");
}
