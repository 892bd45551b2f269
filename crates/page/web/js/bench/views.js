// The views in the record: targets, curves of two readings, components of a whole, tables of readings.
import { tokens } from "../base/color.js";
import { append, h, prose, section, table, textTable } from "../base/dom.js";
import { percent, plain, rate, sentence, significant } from "../base/format.js";
import { Chart } from "../draw/plot.js";
import { human } from "./model.js";

export function domainViews(report, look, redraws) {
  const byTitle = (list = []) => [...new Set(list.map((one) => one.title))].map((title) => [title, list.filter((one) => one.title === title)]);
  return [
    ...byTitle(report.targets).map(([title, all], i) => targets(title, all, `targets-${i}`)), ...(report.curves ?? []).map((one, i) => curve(one, `curve-${i}`, look, redraws)),
    ...byTitle(report.components).map(([title, all], i) => components(title, all, `components-${i}`, redraws)),
  ];
}

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "5px,3px"];

// A point for each setting, and a line that no point can exceed; or rows below the roofs of a machine, which have a unit
// and logarithmic axes.
function curve(one, id, look, redraws) {
  const { element, body } = section(id, one.workload ? `${plain(one.workload)}: ${plain(one.title)}` : sentence(one.title),
    one.workload ? null : "Lines are ceilings measured on this machine. Bytes and operations are those that the mathematics requires.", []);
  const chart = new Chart(one.title, one.unit ? 480 : 360);
  const value = (point) => `${human(point.x, "")}, ${point.sign ?? ""}${human(point.y, one.unit ?? "")}`;
  const text = (series, point) => [series.name, point.label].filter(Boolean).map(plain).concat(value(point)).join("<br>");
  const looks = (series) => (one.unit ? { line: { color: tokens().faint, width: 1.5, dash: DASHES[series.roof % DASHES.length] }, marker: { size: 9, color: look.colour(series.name), symbol: look.symbol(series.name) } } : { marker: { size: 9 } });
  const axis = (title, of, text) => ({ title: plain(title), fixedrange: true, ...(one.unit && logarithmic(one.series.flatMap((series) => series.points.map((point) => point[of])), text)) });
  const draw = () => chart.set(one.series.map((series) => ({
    type: "scatter", mode: series.joined ? "lines" : "markers+text", ...looks(series), name: plain(series.name), x: series.points.map((point) => point.x), y: series.points.map((point) => point.y),
    text: series.points.map((point) => point.sign ?? ""), textposition: "middle right", hovertext: series.points.map((point) => text(series, point)), hoverinfo: "text",
  })), { xaxis: axis(one.x, "x", (value) => significant(value, 1)), yaxis: axis(one.y, "y", (value) => rate(value, one.unit)), showlegend: true, colorway: ["#0072b2", "#d97a00", "#008f67", "#b85c95", "#3f9bd1", "#c4521a"] });
  redraws.push(draw);
  draw();
  body.append(chart.box);
  return element;
}

// A logarithmic axis with a tick for each power of ten, or more ticks if it shows few powers.
function logarithmic(values, text) {
  const [low, high] = [Math.log10(Math.min(...values)) - 0.2, Math.log10(Math.max(...values)) + 0.2];
  const factors = high - low > 2 ? [1] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(low); power <= high; power++) for (const factor of factors) ticks.push(factor * 10 ** power);
  return { type: "log", range: [low, high], tickmode: "array", tickvals: ticks, ticktext: ticks.map(text) };
}

// Parts measured separately, with the share of each in the sum of their times: a bar and a table for each case and implementation.
function components(title, groups, id, redraws) {
  const words = groups.map((one) => one.case.split(", ").filter(Boolean));
  const common = words[0].filter((word) => words.every((all) => all.includes(word)));
  const runs = new Set(groups.map((one) => one.run)).size > 1;
  const name = (i) => [runs && `run ${groups[i].run + 1}`, ...words[i].filter((word) => !common.includes(word)), groups[i].implementation].filter(Boolean).map(plain).join(", ");
  const { element, body } = section(id, sentence(title), "Medians of parts that were measured separately; their sum is an estimate of the whole.", []);
  const chart = new Chart(title, 110 + groups.length * 44);
  const parts = [...new Set(groups.flatMap((one) => one.parts.map((part) => part.title)))];
  const of = (one, part) => one.parts.find((known) => known.title === part);
  const draw = () => chart.set(parts.map((part) => ({
    type: "bar", orientation: "h", name: plain(part), y: groups.map((_, i) => i), x: groups.map((one) => (of(one, part)?.time_s ?? 0) * 1e3),
    hovertext: groups.map((one, i) => `${plain(part)}<br>${name(i)}<br>${human(of(one, part)?.time_s, "s")} (${percent(of(one, part)?.share)})`), hoverinfo: "text",
  })), { barmode: "stack", showlegend: true, xaxis: { title: "ms", fixedrange: true }, yaxis: { tickmode: "array", tickvals: groups.map((_, i) => i), ticktext: groups.map((_, i) => name(i)), autorange: "reversed", fixedrange: true },
    colorway: ["#4f94c4", "#e69f00", "#2fa884", "#cc79a7", "#7cc4ee", "#dd7a3c", "#e3d64a", "#8b95a1"] });
  redraws.push(draw);
  draw();
  const heads = ["Component", "Time", "Share", "Bound by", "Of compute", "Of bandwidth", "Recommendation"];
  const line = (first, cells) => h("tr", {}, h("th", { scope: "row" }, first), cells.map((cell, i) => h("td", { class: [2, 5].includes(i) ? "text" : null }, cell)));
  const rows = groups.flatMap((one, i) => [
    h("tr", { class: "case" }, h("th", { scope: "rowgroup", colspan: heads.length }, name(i))),
    ...one.parts.map((part) => line(part.title, [human(part.time_s, "s"), percent(part.share), part.limit ?? "–", percent(part.of_compute), percent(part.of_bandwidth), prose(part.recommendation ?? "")])),
    line("total", [human(one.total_s, "s"), percent(1), "", "", "", ""]), h("tr", {}, h("td", { class: "text", colspan: heads.length }, prose(`${one.summary}.`)))]);
  append(body, common.length > 0 && h("p", { class: "tags" }, common.map((word) => h("span", { class: "tag" }, word))), chart.box, table(title, heads, [0, 3, 6], rows));
  return element;
}

// The targets of the workloads.
function targets(title, all, id) {
  const { element, body } = section(id, sentence(title), null, []);
  const heads = ["Workload", "Target", "Measured", "", "By", "At"];
  body.append(table(title, heads, [0, 1, 3, 4, 5], all.map((one) => h("tr", {}, h("th", { scope: "row" }, one.workload),
    h("td", { class: "text" }, one.target), h("td", {}, one.measured), h("td", { class: "text" }, one.verdict), h("td", { class: "text" }, one.implementation), h("td", { class: "text" }, one.place)))));
  return element;
}

// Readings of a workload, as text tables.
export function readings(blocks) {
  return (blocks ?? []).map((block) => h("details", { open: true }, h("summary", {}, block.title), block.fixed.length > 0 && h("p", { class: "note" }, `Equal in all cases: ${block.fixed.join(", ")}`),
    block.columns.length > 0 && textTable(block.title, block.columns)));
}
