// The page of a trend: a value by commit with its intervals, the means between changes, and a table of the runs.
import { dark } from "../base/color.js";
import { append, empty, footer, h, section } from "../base/dom.js";
import { label, plain, ratio, sentence, shortCases, visible } from "../base/format.js";
import { payload } from "../data/inflate.js";
import { Chart } from "../draw/plot.js";
import { human, interval } from "./model.js";
import { LONGEST, drawSoon, link, tools } from "./tools.js";

const INTERVAL = "95 % interval between processes";

export async function startHistory(app) {
  const { head: trend } = await payload("data");
  if (!Array.isArray(trend.lines)) throw new Error("the trend has no lines; expected the JSON that `ellwand history trend --format json` prints");
  const redraws = [];
  const caseOf = (line) => line.case ?? line.name;
  const short = shortCases(trend.lines.map(caseOf));
  const sections = trend.lines.map((line, i) => {
    const name = short.get(caseOf(line));
    // Without the machine, the lines of several machines would have the same name.
    const machine = trend.machines > 1 && line.machines?.length === 1 ? ` · ${line.machines[0].slice(0, 8)}` : "";
    return lineView(line, line.case ? `${name}:${line.implementation}${machine}` : name, `line-${i}`, redraws);
  });
  document.title = `${trend.title} · Ellwand`;
  append(app, h("header", { class: "top" },
    h("div", { class: "title" }, h("h1", {}, label(trend.title, LONGEST)), h("p", { class: "note" }, "Medians with 95 % intervals between processes; for a run of one process, of its slots.")), tools(redraws),
    h("nav", { "aria-label": "Sections" }, sections.map(link))),
  h("main", {}, sections.length > 0 ? sections : empty("No run has such a measurement."),
    trend.machines > 1 && h("p", { class: "note" }, "Times of different machines are never joined, because a slower machine would look like slower code.")),
  footer());
  drawSoon();
}

function lineView(line, name, id, redraws) {
  const title = label(name, LONGEST);
  const { element, body } = section(id, title, title === visible(line.name) ? line.place : `${visible(line.name)} · ${line.place}`, []);
  const shown = line.points.map((point, at) => ({ at, point, value: line.reference ? point.ratio : { value: point.seconds, low: point.low, high: point.high } })).filter(({ value }) => value);
  const unit = line.reference ? "x" : "s";
  const chart = new Chart(`${line.name} by commit`, 380);
  const draw = () => chart.set([points(shown, unit), ...means(line, shown)], layout(line, shown));
  draw();
  redraws.push(draw);
  const changes = line.changes.map((one) => h("li", {}, `${change(one)} at ${line.points[one.point].label}: ${ratio(one.before)} to ${ratio(one.after)}`));
  append(body, h("figure", {}, chart.box), changes.length > 0 && h("ul", { class: "plain" }, changes), [...(line.remarks ?? []), line.unchanged].filter(Boolean).map((text) => h("p", { class: "note" }, sentence(text))), table(line));
  return element;
}

function change({ before, after }) {
  const percent = 100 * (after / before - 1);
  return `${percent > 0 ? "+" : ""}${percent.toFixed(1)} %`;
}

function points(shown, unit) {
  const colour = dark() ? "#5ab0e6" : "#0072b2";
  const values = shown.map(({ value }) => value);
  return {
    type: "scatter", mode: "markers", name: "runs", x: shown.map((_, i) => i), y: values.map((one) => one.value), marker: { color: colour, size: 7 },
    error_y: { type: "data", symmetric: false, array: values.map((one) => (one.high ?? one.value) - one.value), arrayminus: values.map((one) => one.value - (one.low ?? one.value)), color: colour, thickness: 1, width: 2 },
    hovertext: shown.map(({ point, value }) => `${plain(point.label)}<br>${plain(point.date)}<br>${human(value.value, unit)}${value.low > 0 ? ` (${interval(value, unit)})` : ""}`), hoverinfo: "text",
  };
}

// The mean of each segment, as steps.
function means(line, shown) {
  if (line.changes.length === 0) return [];
  const starts = line.changes.map((one) => shown.findIndex(({ at }) => at >= one.point));
  const [x, y] = [[-0.5], [line.changes[0].before]];
  line.changes.forEach((one, i) => { x.push(starts[i] - 0.5, starts[i] - 0.5); y.push(y.at(-1), one.after); });
  return [{ type: "scatter", mode: "lines", name: "mean between changes", x: [...x, shown.length - 0.5], y: [...y, y.at(-1)], line: { color: "#8b95a1", width: 2 }, hoverinfo: "skip" }];
}

function layout(line, shown) {
  const every = Math.max(1, Math.ceil(shown.length / 10));
  const ticks = shown.map((_, i) => i).filter((i) => i % every === 0);
  return {
    xaxis: { title: "Commits by date", tickmode: "array", tickvals: ticks, ticktext: ticks.map((i) => plain(shown[i].point.label)), showgrid: false, zeroline: false },
    yaxis: { title: line.reference ? plain(`Ratio to ${line.reference}`) : "Time of an iteration (s)", zeroline: false },
    showlegend: true,
  };
}

function table(line) {
  const several = line.machines?.length > 1;
  const head = ["commit", "date", "run", ...(several ? ["machine"] : []), "time", INTERVAL, ...(line.reference ? [`ratio to ${label(line.reference, 40)}`, INTERVAL] : [])];
  const cells = (point) => [point.label, point.date, point.run, ...(several ? [point.machine.slice(0, 8)] : []), human(point.seconds, "s"), interval(point, "s") ?? "–",
    ...(line.reference ? [point.ratio ? ratio(point.ratio.value) : "–", interval(point.ratio ?? {}, "x") ?? "–"] : [])];
  return h("details", {}, h("summary", {}, line.points.length === 1 ? "1 run" : `${line.points.length} runs`), h("div", { class: "scroll" }, h("table", { class: "facts" },
    h("thead", {}, h("tr", {}, head.map((one) => h("th", { scope: "col", title: one === INTERVAL ? "Student's interval over the processes; for a run of one process, the sign test over its slots" : null }, one)))),
    h("tbody", {}, line.points.map((point) => h("tr", {}, cells(point).map((one) => h("td", {}, label(one, 60)))))))));
}
