// Views that a workload registered in the record: a curve of two readings, parts of one whole.
import { h, section } from "../base/dom.js";
import { percent } from "../base/format.js";
import { Chart } from "../draw/plot.js";
import { caseName, human, measured, metric, plain } from "./model.js";

export function domainViews(report, look, redraws) {
  return (report.views ?? []).map((view, i) => {
    const draw = { curve, parts }[view.kind];
    return draw ? draw(report, view, `view-${i}`, look, redraws) : null;
  }).filter(Boolean);
}

function reading(row, id) {
  const value = row.readings?.find((one) => one.id === id)?.value;
  return Number.isFinite(value) ? value : null;
}

// A point for each setting; a line for each value of the first axis of words.
function curve(report, view, id, look, redraws) {
  const series = new Map();
  for (const one of report.workloads.filter((part) => view.workloads.includes(part.workload))) {
    const axis = [...one.swept, ...one.fixed].find((part) => !part.numeric);
    for (const row of one.rows) {
      const [x, y] = [reading(row, view.x[0]), reading(row, view.y[0])];
      if (x === null || y === null) continue;
      const name = axis ? String(row.params[axis.name]) : one.workload;
      const points = series.get(name) ?? series.set(name, new Map()).get(name);
      points.set(`${x} ${y}`, { x, y, text: caseName(one, row) });
      if (!view.rival) continue;
      const [rx, ry] = [reading(row, view.rival[1]), reading(row, view.rival[2])];
      if (rx !== null && ry !== null) (series.get(view.rival[0]) ?? series.set(view.rival[0], new Map()).get(view.rival[0])).set(`${rx} ${ry}`, { x: rx, y: ry, text: view.rival[0] });
    }
  }
  if (series.size === 0) return null;
  const { element, body } = section(id, view.title, null, []);
  const chart = new Chart(view.title, 360);
  const draw = () => chart.set([...series].map(([name, points]) => {
    const list = [...points.values()].sort((a, b) => a.x - b.x);
    return { type: "scatter", mode: "lines+markers", name: plain(name), x: list.map((one) => one.x), y: list.map((one) => one.y), hovertext: list.map((one) => `${plain(name)}<br>${plain(one.text)}<br>${one.x}, ${one.y}`), hoverinfo: "text" };
  }), { xaxis: { title: plain(view.x[1]), fixedrange: true }, yaxis: { title: plain(view.y[1]), fixedrange: true }, showlegend: true, colorway: ["#0072b2", "#d97a00", "#008f67", "#b85c95", "#3f9bd1", "#c4521a"] });
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
