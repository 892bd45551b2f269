// Views that a workload registered in the record: a curve of two readings, parts of one whole.
import { h, section } from "../base/dom.js";
import { percent } from "../base/format.js";
import { Chart } from "../draw/plot.js";
import { human, measured, metric, plain } from "./model.js";

export function domainViews(report, look, redraws) {
  const wholes = (report.views ?? []).filter((view) => view.kind === "parts").map((view, i) => parts(report, view, `parts-${i}`, look, redraws));
  return (report.curves ?? []).map((one, i) => curve(one, `curve-${i}`, redraws)).concat(wholes).filter(Boolean);
}

// A point for each setting, and the line that no point can exceed.
function curve(one, id, redraws) {
  const { element, body } = section(id, `${plain(one.workload)}: ${plain(one.title)}`, null, []);
  const chart = new Chart(one.title, 360);
  const text = (series, point) => [series.name, point.label].filter(Boolean).map(plain).concat(`${human(point.x, "")}, ${human(point.y, "")}`).join("<br>");
  const draw = () => chart.set(one.series.map((series) => ({
    type: "scatter", mode: series.joined ? "lines" : "markers", marker: { size: 9 }, name: plain(series.name), x: series.points.map((point) => point.x), y: series.points.map((point) => point.y), hovertext: series.points.map((point) => text(series, point)), hoverinfo: "text",
  })), { xaxis: { title: plain(one.x), fixedrange: true }, yaxis: { title: plain(one.y), fixedrange: true }, showlegend: true, colorway: ["#0072b2", "#d97a00", "#008f67", "#b85c95", "#3f9bd1", "#c4521a"] });
  redraws.push(draw);
  draw();
  body.append(chart.box);
  return element;
}

// Parts measured separately, with the share of each in the sum of their times: one bar for each implementation.
function parts(report, view, id, look, redraws) {
  const sections = view.parts.map(([workload, title]) => [report.workloads.find((one) => one.workload === workload), title]);
  if (sections.some(([one]) => !one)) return null;
  const names = sections[0][0].implementations.filter((name) => sections.every(([one]) => one.rows.some((row) => row.implementation === name && measured(row))));
  if (names.length === 0) return null;
  const { element, body } = section(id, view.title, "Medians of parts that were measured separately; their sum is an estimate of the whole.", []);
  const chart = new Chart(view.title, 110 + names.length * 44);
  const of = (one, name) => metric(one.rows.find((row) => row.implementation === name && measured(row)), "time").median;
  const all = (name) => sections.reduce((sum, [one]) => sum + of(one, name), 0);
  const draw = () => chart.set(sections.map(([one, title]) => ({
    type: "bar", orientation: "h", name: plain(title), y: names.map((_, i) => i), x: names.map((name) => of(one, name) * 1e3),
    hovertext: names.map((name) => `${plain(title)}, ${plain(name)}<br>${human(of(one, name), "s")} (${percent(of(one, name) / all(name))})`), hoverinfo: "text",
  })), { barmode: "stack", showlegend: true, xaxis: { title: "ms", fixedrange: true }, yaxis: { tickmode: "array", tickvals: names.map((_, i) => i), ticktext: names.map(plain), autorange: "reversed", fixedrange: true },
    colorway: ["#4f94c4", "#e69f00", "#2fa884", "#cc79a7", "#7cc4ee", "#dd7a3c", "#e3d64a", "#8b95a1"] });
  redraws.push(draw);
  draw();
  body.append(chart.box);
  return element;
}
