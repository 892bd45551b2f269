// Charts of one workload: distributions, scaling along an axis, speed-ups, and what limits each implementation.
import { tokens } from "../base/color.js";
import { percent, plain, time } from "../base/format.js";
import { Chart } from "../draw/plot.js";
import { bound, caseName, human, interval, leading, measured, metric, shownSpeedup, speedup, speedupInterval } from "./model.js";

const seconds = { type: "log", exponentformat: "none", fixedrange: true };

// Ticks of a logarithmic time axis, with labels.
export function timeTicks(values) {
  // Zero and missing values have no place on a logarithmic axis.
  const known = values.filter((value) => value > 0);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const [from, to] = [Math.floor(Math.log10(low)) - 1, Math.ceil(Math.log10(high)) + 1];
  const factors = to - from > 5 ? [1] : high / low > 8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  const ticks = [];
  for (let power = from; power <= to; power++) for (const factor of factors) ticks.push(factor * 10 ** power);
  return { ...seconds, tickmode: "array", tickvals: ticks, ticktext: ticks.map((s) => time(s * 1e9, 2)), range: [Math.log10(low) - 0.1, Math.log10(high) + 0.1] };
}

// Five numbers for each row of a case: the box is p10 to p90, the line the median, the whiskers the extremes.
export function distributions(chart, section, rows, look) {
  const shown = rows.filter(measured);
  const values = shown.flatMap((row) => [metric(row, "time").min, metric(row, "time").max]);
  chart.set(shown.map((row, i) => {
    const { min, p10, median, p90, max } = metric(row, "time");
    return {
      type: "box", orientation: "h", name: plain(row.implementation), y: [i], q1: [p10], median: [median], q3: [p90], lowerfence: [min], upperfence: [max],
      marker: { color: look.colour(row.implementation) }, line: { width: 1.5 }, width: 0.5, hoverinfo: "skip",
    };
  }).concat([{
    type: "scatter", mode: "markers", x: shown.map((row) => metric(row, "time").median), y: shown.map((_, i) => i), marker: { size: 18, opacity: 0 }, hoverinfo: "text",
    hovertext: shown.map((row) => { const { min, p10, median, p90, max } = metric(row, "time"); return `${plain(row.implementation)}<br>median ${bound(row)}${human(median, "s")}<br>p10 ${human(p10, "s")}, p90 ${human(p90, "s")}<br>min ${human(min, "s")}, max ${human(max, "s")}`; }),
  }]), {
    xaxis: { ...timeTicks(values), title: "Time of an iteration" },
    yaxis: { tickmode: "array", tickvals: shown.map((_, i) => i), ticktext: shown.map((row) => plain([name(row, shown), bound(row)].filter(Boolean).join(" "))), autorange: "reversed", showgrid: false, zeroline: false, fixedrange: true },
  });
}

function name(row, rows) {
  const devices = new Set(rows.map((one) => one.device));
  return devices.size > 1 ? `${row.implementation} (${row.device})` : row.implementation;
}

// Median and interval over a numeric axis, with the axes that follow it: one line per implementation.
export function scaling(chart, axis, following, rows, look) {
  const title = [axis.unit && axis.unit !== axis.name ? `${axis.name} (${axis.unit})` : axis.name, following.length > 0 && `with ${following.map((one) => one.name).join(", ")}`].filter(Boolean).join(", ");
  const lines = new Map();
  for (const row of rows.filter(measured)) {
    const key = `${row.implementation}\u0000${row.device}`;
    lines.set(key, [...(lines.get(key) ?? []), row]);
  }
  const at = (row) => Number(row.params[axis.name]);
  const all = rows.filter(measured);
  const positive = all.every((row) => at(row) > 0);
  chart.set([...lines.values()].map((line) => {
    line.sort((a, b) => at(a) - at(b));
    const times = line.map((row) => metric(row, "time"));
    const colour = look.colour(line[0].implementation);
    return {
      type: "scatter", mode: "lines+markers+text", name: plain(name(line[0], all)), text: line.map(bound), textposition: "middle right", x: line.map(at), y: times.map((one) => one.median), line: { color: colour, width: 2 },
      marker: { color: colour, symbol: look.symbol(line[0].implementation), size: 8 },
      error_y: { type: "data", symmetric: false, array: times.map((one) => (one.high ?? NaN) - one.median), arrayminus: times.map((one) => one.median - (one.low ?? NaN)), color: colour, thickness: 1, width: 3 },
      hovertext: line.map((row, i) => `${plain(row.implementation)}, ${plain(axis.name)} ${at(row)}<br>${bound(row)}${human(times[i].median, "s")} (${interval(times[i], "s") ?? "no interval"})`), hoverinfo: "text",
    };
  }), {
    xaxis: { title: plain(title), type: positive ? "log" : "linear", tickmode: "array", tickvals: axis.values.map(Number), ticktext: axis.values.map(plain), fixedrange: true },
    yaxis: { ...timeTicks(all.flatMap((row) => { const { low, median, high } = metric(row, "time"); return [low, median, high]; })), title: "Median time" }, showlegend: true,
  });
}

// Ratio to the baseline for each case and implementation; blue is faster, orange slower, white equal.
export function speedups(chart, section, look) {
  const rows = section.rows.filter((row) => row.speedup?.ratio > 0);
  const axes = leading(section);
  const cases = [...new Set(rows.map((row) => caseName(section, row, axes)))];
  const names = section.implementations.filter((one) => rows.some((row) => row.implementation === one));
  const find = (y, x) => rows.find((row) => caseName(section, row, axes) === cases[y] && row.implementation === names[x]);
  const z = cases.map((_, y) => names.map((_, x) => { const row = find(y, x); return row ? Math.log2(shownSpeedup(row.speedup)) : null; }));
  const most = Math.max(0.5, ...z.flat().map((value) => Math.abs(value ?? 0)));
  const t = tokens();
  const text = cases.map((_, y) => names.map((_, x) => { const row = find(y, x); return row ? speedup(row.speedup) : ""; }));
  chart.set([{
    type: "heatmap", x: names.map((_, i) => i), y: cases.map((_, i) => i), z, zmin: -most, zmax: most, xgap: 2, ygap: 2, showscale: false,
    colorscale: [[0, "#d97a3c"], [0.5, t.line], [1, "#4f94c4"]], text, texttemplate: "%{text}", textfont: { color: t.text, size: 12 },
    hovertext: cases.map((_, y) => names.map((_, x) => hover(section, find(y, x)))), hoverinfo: "text",
  }], {
    xaxis: { tickmode: "array", tickvals: names.map((_, i) => i), ticktext: names.map(plain), side: "top", showgrid: false, zeroline: false, fixedrange: true },
    yaxis: { tickmode: "array", tickvals: cases.map((_, i) => i), ticktext: cases.map(plain), autorange: "reversed", showgrid: false, zeroline: false, fixedrange: true },
  });
  return cases.length;
}

function hover(section, row) {
  if (!row) return "";
  return `${plain(caseName(section, row))}<br>${plain(row.implementation)} over ${plain(row.speedup.baseline)}<br>${speedup(row.speedup)} (${speedupInterval(row.speedup) ?? "no interval"})`;
}

const LIMITS = { compute: "#4f94c4", memory: "#e69f00", overhead: "#b868a0", transfer: "#2fa884", latency: "#dd7a3c", instructions: "#7a6fc0", issue: "#7a6fc0", dependency: "#a15b8f" };
// These have no part of the time.
const UNKNOWN = ["unexplained", "above-ceiling"];

// The share of the measured time that each limit explains: computed from a ceiling or, for limits such as instructions,
// what the computed ones leave.
export function bounds(chart, rows) {
  const shown = rows.filter((row) => measured(row) && row.diagnosis?.parts?.length > 0);
  const parts = (row) => {
    const { parts, limit, share, time_s } = row.diagnosis;
    const computed = new Map(parts.map((one) => [one.limit, one.seconds / time_s]));
    return computed.has(limit) || UNKNOWN.includes(limit) ? computed : computed.set(limit, share);
  };
  const limits = [...new Set(shown.flatMap((row) => [...parts(row).keys()]))];
  const share = (row, limit) => parts(row).get(limit) ?? 0;
  chart.set(limits.map((limit) => ({
    type: "bar", orientation: "h", name: plain(limit), y: shown.map((_, i) => i), x: shown.map((row) => share(row, limit)), marker: { color: LIMITS[limit] ?? "#8b95a1" },
    hovertext: shown.map((row) => `${plain(row.implementation)}<br>${plain(limit)}: ${percent(share(row, limit))} of the time`), hoverinfo: "text",
  })), {
    barmode: "group", showlegend: true, bargap: 0.3,
    xaxis: { title: "Share of the measured time that the limit explains", tickformat: ".0%", range: [0, 1.05], fixedrange: true, tickvals: [0, 0.25, 0.5, 0.75, 1] },
    yaxis: { tickmode: "array", tickvals: shown.map((_, i) => i), ticktext: shown.map((row) => plain(row.implementation)), autorange: "reversed", showgrid: false, zeroline: false, fixedrange: true },
  });
  return shown.length;
}

export function chart(note, rows) {
  return new Chart(note, Math.max(220, 110 + rows * 34));
}
