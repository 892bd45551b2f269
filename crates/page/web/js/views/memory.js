// Quantities over time, with the peak in the range and the spans that were open at that moment.
import { button, empty, h, replace, section } from "../base/dom.js";
import { tokens } from "../base/color.js";
import { bytes, label, quantity, time } from "../base/format.js";
import { csv, save } from "../base/save.js";
import { on, range, state, update } from "../base/state.js";
import { openAt, peakOf, thin } from "../calc/memory.js";
import { detailOf } from "../data/model.js";
import { Chart, chartSvg } from "../draw/plot.js";
import { tickLabel, ticks } from "../draw/ticks.js";

export function memoryView() {
  const { element, body } = section("memory", "Memory over time", "A value holds until the next one; the mark is the peak of the range.", [
    button("SVG", async () => charts[0] && save("memory.svg", await chartSvg(charts[0]), "image/svg+xml"), { "data-export": "svg" }),
    button("CSV", () => exportCsv(), { "data-export": "csv" })]);
  let charts = [];
  let tracks = [];
  const rebuild = () => {
    const { profile } = state;
    const isFlat = (track) => track.value.every((value) => value === 0);
    tracks = profile.tracks.filter((track) => !isFlat(track));
    const flat = profile.tracks.filter(isFlat).map((track) => label(track.name, 60));
    charts = tracks.map((track) => new Chart(`${label(track.name, 60)} over time`, 240));
    replace(body, profile.tracks.length === 0
      ? empty("This profile has no memory track. With the allocator `ellwand_profile::alloc::Counting` and `Measures::MEMORY` in the options, the heap is drawn here.")
      : charts.map((chart, i) => h("div", {}, h("h3", {}, label(tracks[i].name, 60)), chart.box, h("div", { class: "peak", "data-track": i }))),
    flat.length > 0 && h("p", { class: "note" }, `0 throughout: ${flat.join("; ")}`));
    draw();
  };
  const draw = () => charts.forEach((chart, i) => drawTrack(chart, body.querySelector(`[data-track="${i}"]`), tracks[i]));
  on("profile", rebuild);
  on("range theme", () => state.profile && draw());
  return element;
}

function drawTrack(chart, box, track) {
  const span = range();
  const t = tokens();
  const peak = peakOf(track, span);
  const { x, y } = thin(track, 6000);
  const [xs, ys] = [[...x, state.profile.wall], [...y, y[y.length - 1]]];
  const most = y.reduce((best, value) => Math.max(best, value), 0);
  const steps = ticks(span, 8);
  const values = track.unit === "B" ? byteTicks(most) : {};
  chart.set([
    { type: "scatter", mode: "lines", line: { shape: "hv", width: 1.5, color: t.accent }, fill: "tozeroy", fillcolor: `${t.accent}33`, x: xs, y: ys, hovertext: xs.map((at, i) => `${quantity(ys[i], track.unit)} at ${time(at)}`), hoverinfo: "text" },
    ...(peak ? [{ type: "scatter", mode: "markers", x: [peak.at], y: [peak.value], marker: { color: t.warn, size: 9, symbol: "diamond" }, hovertext: [`peak: ${quantity(peak.value, track.unit)}`], hoverinfo: "text" }] : []),
  ], {
    xaxis: { range: span, tickmode: "array", tickvals: steps.list, ticktext: steps.list.map((at) => tickLabel(at, steps.step, span[1])), fixedrange: true },
    yaxis: { rangemode: "tozero", fixedrange: true, ...values, title: track.unit === "B" ? "" : track.unit },
    annotations: peak ? [{ x: peak.at, y: peak.value, text: quantity(peak.value, track.unit), ax: peak.at > (span[0] + span[1]) / 2 ? -40 : 40, ay: -18, arrowcolor: t.muted, font: { size: 12, color: t.text } }] : [],
    margin: { l: 8, r: 12, t: 26, b: 8 },
  });
  replace(box, peak && atPeak(peak, track));
}

function byteTicks(most) {
  const unit = 2 ** (10 * Math.max(0, Math.floor(Math.log2(Math.max(1, most)) / 10)));
  const step = ticks([0, most / unit], 5);
  return { tickmode: "array", tickvals: step.list.map((value) => value * unit), ticktext: step.list.map((value) => (value === 0 ? "0" : bytes(value * unit))) };
}

function atPeak(peak, track) {
  const { profile } = state;
  const open = openAt(profile, peak.at);
  const known = open.some((i) => detailOf(profile, i, "allocated_bytes") !== null);
  const rows = open.slice(0, 40).map((i) => {
    const operation = profile.operation[i];
    const name = profile.operations[operation].name;
    return h("tr", {}, h("th", { scope: "row" }, button(label(name, 50), () => update({ span: i, operation }), { class: "link", style: { "padding-left": `${Math.min(profile.level[i], 12) * 12}px` } })),
      h("td", {}, label(profile.lanes[profile.lane[i]].name, 30)), h("td", {}, time(profile.duration[i])),
      known && h("td", {}, bytes(detailOf(profile, i, "allocated_bytes"))), known && h("td", {}, bytes(detailOf(profile, i, "peak_bytes"))));
  });
  return [
    h("p", {}, h("strong", {}, `Peak ${quantity(peak.value, track.unit)}`), ` at ${time(peak.at, 4)}. `, rows.length > 0 ? "Open at that moment:" : "No span was open at that moment."),
    rows.length > 0 && h("div", { class: "scroll" }, h("table", { class: "facts" }, h("thead", {}, h("tr", {}, ["Span", "Lane", "Duration", known && "Allocated", known && "Peak"].filter(Boolean).map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows))),
    open.length > 40 && h("p", { class: "note" }, `and ${open.length - 40} more`),
  ];
}

function exportCsv() {
  const rows = state.profile.tracks.flatMap((track) => track.at_ns.map((at, i) => [track.name, at, track.value[i], track.unit]));
  save("tracks.csv", csv(["track", "at_ns", "value", "unit"], rows), "text/csv");
}
