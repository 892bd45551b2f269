// Where the time went: by part of the wall time, by operation, and split by what each operation did.
import { button, choice, empty, h, replace, section } from "../base/dom.js";
import { colours, part, PARTS, tokens } from "../base/color.js";
import { count, percent, plain, time, timeUnit } from "../base/format.js";
import { csv, save } from "../base/save.js";
import { on, range, state, update } from "../base/state.js";
import { breakdown } from "../calc/breakdown.js";
import { costsOf } from "../calc/cost.js";
import { nameOf as placedName } from "../data/model.js";
import { Chart, chartSvg } from "../draw/plot.js";

const MOST = 12;
const MEASURES = { self: "Self time", total: "Total time", mean: "Mean of a call", calls: "Calls" };

export function chartsView() {
  let measure = "self";
  const chooser = choice("Measure", Object.entries(MEASURES), measure, (one) => {
    measure = one;
    draw();
  });
  const { element, body } = section("time", "Where the time went", "Bars and pie show the operations of the range; click one to select it.", [chooser,
    button("SVG", async () => save("operations.svg", await chartSvg(bars), "image/svg+xml"), { "data-export": "svg" }),
    button("CSV", () => exportParts(), { "data-export": "csv" })]);
  const wall = h("div", { class: "breakdown", id: "breakdown" });
  const bars = new Chart("Bars: time by operation", 340);
  const pie = new Chart("Pie: share of the time by operation", 340);
  const stack = new Chart("Stacked bars: host, device, transfer and overhead by operation", 340);
  const bottlenecks = h("div", { id: "bottlenecks" });
  const none = h("div");
  const grid = h("div", { class: "grid" },
    figure("By operation", bars), figure("Shares of self time, or of calls", pie),
    figure("Host, device, transfer, own cost", stack),
    h("figure", {}, h("figcaption", {}, "Bottlenecks"), bottlenecks));
  body.append(h("h3", {}, "Wall time"), wall, none, grid);
  const draw = () => {
    drawBreakdown(wall);
    const rows = state.summary.rows;
    replace(none, rows.length === 0 && empty("No calls in this range."));
    grid.hidden = rows.length === 0;
    if (rows.length === 0) return;
    drawBars(bars, rows, measure);
    // Only self times and calls add up to a whole: total times contain one another.
    drawPie(pie, rows, measure === "calls" ? "calls" : "self");
    drawStack(stack, rows);
    drawBottlenecks(bottlenecks, rows);
  };
  on("summary theme operation", draw);
  for (const chart of [bars, pie, stack]) clickable(chart);
  return element;
}

function figure(title, chart) {
  return h("figure", {}, h("figcaption", {}, title), chart.box);
}

// Plotly adds `on` to the box with the first drawing.
function clickable(chart) {
  const wait = new MutationObserver(() => {
    if (!chart.box.on) return;
    wait.disconnect();
    chart.box.on("plotly_click", ({ points: [point] }) => {
      const op = point.customdata?.[0] ?? point.customdata ?? -1;
      if (op >= 0) update({ operation: op, span: -1 });
    });
  });
  wait.observe(chart.box, { attributes: true, childList: true });
}

// One bar whose parts add up to the wall time, with a legend that is a table.
function drawBreakdown(box) {
  const [from, to] = range();
  const parts = breakdown(state.profile, state.range).filter(({ ns }) => ns > 0);
  const wall = to - from;
  replace(box,
    h("div", { class: "stack", role: "img", "aria-label": parts.map(({ part: name, ns }) => `${PARTS[name][0]} ${percent(ns / wall)}`).join(", ") },
      parts.map(({ part: name, ns }) => h("i", { style: { width: `${(100 * ns) / wall}%`, background: part(name) }, title: `${PARTS[name][0]}: ${time(ns)}` }))),
    h("ul", { class: "legend" }, parts.map(({ part: name, ns }) =>
      h("li", { "data-part": name, "data-value": ns }, h("i", { class: "dot", style: { background: part(name) } }), PARTS[name][0], h("b", {}, time(ns)), h("span", { class: "note" }, percent(ns / wall))))),
    h("p", { class: "note" }, "The parts add up to the wall time. A device or a transfer counts only while no host thread works."));
}

function exportParts() {
  const rows = breakdown(state.profile, state.range).map(({ part: name, ns }) => [name, ns]);
  save("breakdown.csv", csv(["part", "ns"], rows), "text/csv");
}

function largest(rows, key) {
  return [...rows].filter((row) => row[key] > 0).sort((a, b) => b[key] - a[key]).slice(0, MOST);
}

const nameOf = ({ operation }, longest) => placedName(state.profile, operation, longest);

// Equal shortened names would share a bar, so positions are numbers, labelled with the names.
function categories(rows) {
  const axis = { tickmode: "array", tickvals: rows.map((_, i) => i), ticktext: rows.map((row) => plain(nameOf(row, 26))), autorange: "reversed", showgrid: false, zeroline: false, fixedrange: true };
  return { axis, positions: rows.map((_, i) => i) };
}

function drawBars(chart, rows, measure) {
  const top = largest(rows, measure);
  const paint = colours(state.profile);
  const { axis, positions } = categories(top);
  const [factor, unit] = measure === "calls" ? [1, ""] : timeUnit(top[0]?.[measure] ?? 1);
  const format = measure === "calls" ? count : time;
  chart.set([{
    type: "bar", orientation: "h", y: positions, x: top.map((row) => row[measure] / factor), customdata: top.map((row) => row.operation),
    marker: { color: top.map((row) => paint[row.operation]), opacity: top.map((row) => (state.operation < 0 || state.operation === row.operation ? 1 : 0.3)) },
    text: top.map((row) => format(row[measure])), textposition: "outside", cliponaxis: false, textfont: { color: tokens().muted }, hovertext: top.map((row) => `${plain(nameOf(row, 60))}<br>${format(row[measure])}`), hoverinfo: "text",
  }], { yaxis: axis, xaxis: { title: `${MEASURES[measure]}${unit ? ` (${unit})` : ""}`, rangemode: "tozero", fixedrange: true, nticks: 6 }, margin: { l: 8, r: 56, t: 8, b: 8 } });
}

function drawPie(chart, rows, measure) {
  const all = rows.reduce((sum, row) => sum + row[measure], 0);
  // As many slices as there are colours, and none too thin for its label.
  const top = largest(rows, measure).slice(0, 7).filter((row) => row[measure] >= 0.015 * all);
  const paint = colours(state.profile);
  const rest = all - top.reduce((sum, row) => sum + row[measure], 0);
  const slices = [...top.map((row) => [nameOf(row, 26), row[measure], paint[row.operation], row.operation])];
  if (rest > all * 1e-6) slices.push([`${rows.length - top.length} more`, rest, part("unexplained"), -1]);
  chart.set([{
    type: "pie", hole: 0.55, sort: false, direction: "clockwise", labels: slices.map((_, i) => String(i)), values: slices.map(([, value]) => value), marker: { colors: slices.map(([, , colour]) => colour) },
    text: slices.map(([name]) => plain(name)), texttemplate: "%{text}<br>%{percent}", customdata: slices.map(([, , , op]) => op), textposition: "outside", automargin: true,
    hovertext: slices.map(([name, value]) => `${plain(name)}<br>${measure === "calls" ? count(value) : time(value)}`), hoverinfo: "text+percent",
    insidetextorientation: "horizontal",
  }], { margin: { l: 8, r: 8, t: 28, b: 28 }, annotations: [{ text: measure === "calls" ? count(all) : time(all), showarrow: false, font: { size: 18 } }], uniformtext: { minsize: 10, mode: "hide" } });
}

function drawStack(chart, rows) {
  const all = rows.map((row) => ({ ...row, all: isDevice(row) ? row.self : row.self + row.device + row.transfer }));
  const top = largest(all, "all");
  const { axis, positions } = categories(top);
  const [factor, unit] = timeUnit(top[0]?.all ?? 1);
  const kinds = [
    ["Host", (row) => (isDevice(row) ? 0 : Math.max(0, row.self - own(row))), part("cpu")],
    ["Device", (row) => row.device, part("device")],
    ["Transfer", (row) => row.transfer, part("transfer")],
    ["Own cost", own, part("instrumentation")],
  ];
  chart.set(kinds.map(([name, of, color]) => ({
    type: "bar", orientation: "h", name, y: positions, x: top.map((row) => of(row) / factor), customdata: top.map((row) => row.operation), marker: { color },
    hovertext: top.map((row) => `${plain(nameOf(row, 60))}<br>${name}: ${time(of(row))}`), hoverinfo: "text",
  })), { barmode: "stack", showlegend: true, yaxis: axis, xaxis: { title: `Own time of the host, and device work that it started (${unit})`, fixedrange: true, nticks: 6 }, margin: { l: 8, r: 16, t: 8, b: 8 } });
}

function isDevice(row) {
  const { kind } = state.profile.operations[row.operation];
  return kind === "kernel" || kind.includes("-to-");
}

// The profiler's own cost within the operation itself; the cost inside nested spans belongs to them.
function own(row) {
  return isDevice(row) ? 0 : Math.min(costsOf(state.profile).span[row.operation] * row.calls, row.self);
}

function drawBottlenecks(box, rows) {
  const wall = state.summary.wall;
  const list = (by, title) => h("div", {}, h("h4", {}, title), h("ol", {}, largest(rows, by).slice(0, 5).map((row) =>
    h("li", {}, button(nameOf(row, 30), () => update({ operation: row.operation, span: -1 }), { class: "link", title: nameOf(row, 200) }),
      h("b", {}, time(row[by])), h("span", { class: "note" }, percent(row[by] / wall))))));
  replace(box, h("div", { class: "pairs" }, list("self", "By self time"), list("total", "By total time")));
}
