// The roofline: achieved rate over operations per byte, under the machine's measured ceilings.
import { tokens } from "../base/color.js";
import { plain, rate, significant } from "../base/format.js";
import { caseName, human, measured, metric } from "./model.js";

const MEMORY = new Set(["read", "copy", "triad", "fill"]);

export function hasRoofline(report, section) {
  return points(section).length > 0 && ceilings(report, section).compute.length > 0;
}

function points(section) {
  return section.rows.filter((row) => measured(row) && row.work.flops > 0 && moved(row) > 0 && metric(row, "compute"));
}

function moved(row) {
  return row.work.bytes_read + row.work.bytes_written;
}

// The best measured ceiling for each level and number of threads.
function ceilings(report, section) {
  const [memory, compute] = [new Map(), new Map()];
  const rows = points(section);
  const devices = new Set(rows.map((row) => row.device));
  const threads = new Set(rows.map((row) => row.parallelism));
  for (const run of new Set(rows.map((row) => row.run))) {
    for (const one of report.runs[run].environment.ceilings ?? []) {
      if (!devices.has(one.device) || !(one.value > 0) || !threads.has(one.parallelism)) continue;
      const into = one.kind === "fma" ? compute : MEMORY.has(one.kind) && one.level ? memory : null;
      const key = `${one.device} ${one.level} ${one.parallelism}`;
      if (into && !(into.get(key)?.value > one.value)) into.set(key, one);
    }
  }
  return { memory: [...memory.values()], compute: [...compute.values()] };
}

// The sign of the rate of a row that other programs held up.
function bound(row) {
  return row.held_up ? "≥" : "";
}

export function roofline(chart, report, section, look) {
  const t = tokens();
  const rows = points(section);
  const { memory, compute } = ceilings(report, section);
  const intensity = (row) => row.work.flops / moved(row);
  const xs = rows.map(intensity);
  const peak = Math.max(...compute.map((one) => one.value));
  // The axis extends far enough to show where the ceilings meet: memory limits on the left, compute on the right.
  const ridges = memory.map((one) => Math.min(...compute.map((other) => other.value)) / one.value);
  const [low, high] = [Math.min(...xs, ...ridges) / 4, Math.max(...xs, ...ridges) * 4];
  const roof = (one) => {
    const threads = one.parallelism === "single" ? "1 thread" : "all threads";
    const limit = compute.find((c) => c.device === one.device && c.parallelism === one.parallelism)?.value ?? peak;
    const slope = one.kind !== "fma";
    const x = slope ? [low, Math.min(high, limit / one.value)] : [Math.max(low, Math.min(...memory.filter((m) => m.parallelism === one.parallelism).map((m) => one.value / m.value), high)), high];
    return {
      type: "scatter", mode: "lines", x, y: slope ? x.map((at) => at * one.value) : x.map(() => one.value), line: { color: t.faint, width: 1.25, dash: one.parallelism === "single" ? "solid" : "dash" },
      hovertext: x.map(() => `${plain(one.kind)} ${plain(one.level)}, ${threads}<br>${rate(one.value, slope ? "B/s" : "FLOP/s")} (measured)`), hoverinfo: "text", showlegend: false,
    };
  };
  // Ceilings of nearly the same height share the label of the first; tooltips show the rest.
  const taken = [];
  const free = (one) => {
    const at = [one.kind === "fma", Math.log10(one.value)];
    const clear = taken.every(([slope, y]) => slope !== at[0] || Math.abs(y - at[1]) > 0.16);
    if (clear) taken.push(at);
    return clear;
  };
  const labels = [...memory, ...compute].sort((a, b) => (a.parallelism === "single" ? -1 : 1) - (b.parallelism === "single" ? -1 : 1)).filter(free).map((one) => {
    const slope = one.kind !== "fma";
    const y = slope ? low * one.value : one.value;
    const angle = slope ? { xshift: 6, yshift: 2 } : {};
    return { ...angle, x: Math.log10(slope ? low : high), y: Math.log10(y), text: plain(`${slope ? one.level : "multiply-add"}${one.parallelism === "single" ? "" : ", all threads"}`), showarrow: false, xanchor: slope ? "left" : "right", yanchor: "bottom", font: { size: 10, color: t.muted } };
  });
  const names = [...new Set(rows.map((row) => row.implementation))];
  const traces = names.map((name) => {
    const mine = rows.filter((row) => row.implementation === name);
    return {
      type: "scatter", mode: "markers+text", name: plain(name), text: mine.map(bound), textposition: "middle right", x: mine.map(intensity), y: mine.map((row) => metric(row, "compute").median), marker: { color: look.colour(name), symbol: look.symbol(name), size: 10, line: { color: t.panel, width: 1 } },
      hovertext: mine.map((row) => `${plain(name)}, ${plain(caseName(section, row))}<br>${bound(row)}${rate(metric(row, "compute").median, "FLOP/s")} at ${significant(intensity(row), 3)} FLOP/B<br>${human(metric(row, "roofline-fraction")?.median, "1")} of the ceiling`), hoverinfo: "text",
    };
  });
  const values = [...rows.map((row) => metric(row, "compute").median), peak, ...memory.map((one) => one.value * low)];
  const [bottom, top] = [Math.min(...values), Math.max(...values)];
  chart.set([...memory.map(roof), ...compute.map(roof), ...traces], {
    xaxis: { type: "log", title: "Operations per byte (FLOP/B)", range: [Math.log10(low), Math.log10(high)], fixedrange: true, ...powers(low, high, (value) => significant(value, 1)) },
    yaxis: { type: "log", title: "FLOP/s", range: [Math.log10(bottom) - 0.2, Math.log10(top) + 0.3], fixedrange: true, ...powers(bottom / 2, top * 2, (value) => rate(value, "")) },
    annotations: labels, showlegend: true,
  });
}

function powers(low, high, text) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) ticks.push(10 ** power);
  return { tickmode: "array", tickvals: ticks, ticktext: ticks.map(text) };
}
