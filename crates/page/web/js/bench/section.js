// One workload of a report: its results as a table, and its charts.
import { append, button, h, section as frame, select, table } from "../base/dom.js";
import { count, counted, label, percent, rate, significant } from "../base/format.js";
import { csv, markdown, save } from "../base/save.js";
import { bounds, chart, distributions, scaling, speedups } from "./charts.js";
import { bound, caseName, follows, human, interval, leading, measured, metric, plainValue, speedup, speedupEnds, speedupInterval } from "./model.js";
import { readings } from "./views.js";

export function workloadView(report, section, tables, look, redraws) {
  const rates = report.metrics.filter(({ id, unit }) => unit.endsWith("/s") && section.rows.some((row) => metric(row, id)));
  const facts = section.fixed.map(({ name, values }) => h("span", { class: "tag" }, `${name} ${plainValue(values[0])}`));
  const { element, body } = frame(`workload-${section.workload}`, section.workload, null, [
    button("CSV", () => exportRows("csv", section, rates), { "data-export": "csv" }), button("Markdown", () => exportRows("markdown", section, rates), { "data-export": "markdown" })]);
  append(body, facts.length > 0 && h("p", { class: "tags" }, facts), results(section, rates), readings(tables), h("div", { class: "grid" }, figures(section, look, redraws)),
    remarks(section));
  return element;
}

function heads(section, rates) {
  const names = rates.map(({ title, unit }) => (unit === "1/s" ? `${section.item ?? "items"}/s` : title[0].toUpperCase() + title.slice(1)));
  return ["Implementation", "Time", "95 % interval over slots", "Samples", ...names, "First run", "Speed-up", "Interval", "Of ceiling", "Bound by", "Status"];
}

function cells(row, rates) {
  const value = metric(row, "time");
  const { ratio: factor, is_baseline: base, unavailable } = row.speedup ?? {};
  const known = measured(row) && value;
  return [
    row.implementation, known ? `${bound(row)}${human(value.median, "s")}` : "–", known ? (interval(value, "s") ?? "–") : "", count(row.samples),
    ...rates.map(({ id, unit }) => (unit === "1/s" ? rate(metric(row, id)?.median, "") : human(metric(row, id)?.median, unit))), human(row.first_run_s, "s"),
    base ? "baseline" : factor > 0 ? speedup(row.speedup) : "–", !base && factor > 0 ? (speedupInterval(row.speedup) ?? "–") : (unavailable ?? ""),
    percent(metric(row, "roofline-fraction")?.median), row.diagnosis?.limit ?? "–", row.status.reason ? `${row.status.word}: ${row.status.reason}` : row.below_resolution ? "below timer resolution" : [row.status.word, row.held_up && `held up (${significant(row.held_up.busy, 3)} of ${significant(row.held_up.could_use, 3)} CPUs)`].filter(Boolean).join(", "),
  ];
}

function results(section, rates) {
  const head = heads(section, rates);
  const text = (i) => i === 0 || i >= head.length - 2;
  const lines = section.cases.flatMap((one) => {
    const rows = one.rows.map((i) => section.rows[i]);
    const title = caseName(section, rows[0]);
    return [section.swept.length > 0 && h("tr", { class: "case" }, h("th", { scope: "rowgroup", colspan: head.length }, title)), ...rows.map((row, place) => {
      const [name, ...rest] = cells(row, rates);
      return h("tr", { class: row.best ? "best" : null }, h("th", { scope: "row", title: row.what_ran }, label(name, 40), row.best ? h("span", { class: "tag strong" }, "fastest") : one.best.tied?.includes(one.rows[place]) && h("span", { class: "tag" }, "tied")),
        rest.map((value, i) => h("td", { class: text(i + 1) ? "text" : null, title: i === rest.length - 1 ? row.warnings.join("\n") : null }, label(value || " ", 60).replace("(no name)", ""))));
    })];
  });
  return table(`Results of ${section.workload}`, head, head.map((_, i) => i).filter(text), lines);
}

// The same names as in summary.csv.
const CSV_UNITS = { "1/s": "per_s", "B/s": "bytes_per_s", "FLOP/s": "flop_per_s" };

function exportRows(kind, section, rates) {
  const axes = section.swept.map(({ name }) => name);
  const rows = section.rows.map((row) => [...axes.map((name) => row.params[name]), ...cells(row, rates)]);
  if (kind === "markdown") return save(`${section.workload}.md`, markdown([...axes, ...heads(section, rates)], rows), "text/markdown");
  const raw = section.rows.map((row) => {
    const value = metric(row, "time");
    return [...axes.map((name) => row.params[name]), row.implementation, row.device, row.status.word, value?.median ?? "", value?.low ?? "", value?.high ?? "", row.samples, row.speedup?.ratio ?? "", ...speedupEnds(row.speedup).map((end) => end ?? ""), metric(row, "roofline-fraction")?.median ?? "", row.diagnosis?.limit ?? "", ...rates.map(({ id }) => metric(row, id)?.median ?? ""), row.first_run_s ?? ""];
  });
  save(`${section.workload}.csv`, csv([...axes, "implementation", "device", "status", "time_s", "low_s", "high_s", "samples", "speedup", "speedup_low", "speedup_high", "roofline_fraction", "bound_by", ...rates.map(({ id, unit }) => `${id}_${CSV_UNITS[unit] ?? unit}`), "first_run_s"], raw), "text/csv");
}

function figure(title, note, made, tool) {
  return h("figure", {}, h("figcaption", {}, title, tool), made.box, note && h("p", { class: "note" }, note));
}

function figures(section, look, redraws) {
  const made = [];
  const add = (box, draw) => {
    made.push(box);
    redraws.push(draw);
    draw();
  };
  const rowsOf = (at) => section.cases[at].rows.map((i) => section.rows[i]);
  // Charts of a single case share the case selector.
  const byCase = (title, note, draw, enough) => {
    let at = Math.max(0, section.cases.findIndex((_, i) => rowsOf(i).some(enough)));
    if (!section.cases[at] || !rowsOf(at).some(enough)) return;
    const one = chart(title, rowsOf(at).length);
    const again = () => draw(one, rowsOf(at));
    const chooser = section.cases.length > 1 && select("Case", section.cases.map((_, i) => [i, label(caseName(section, rowsOf(i)[0], leading(section)), 40)]), at, (value) => {
      at = Number(value);
      again();
    });
    add(figure(title, note, one, chooser), again);
  };
  byCase("Distribution", "Box: p10 to p90 with the median; whiskers: fastest and slowest sample.", (one, rows) => distributions(one, section, rows, look), measured);
  const axes = leading(section);
  for (const axis of axes.filter((one) => one.numeric)) {
    const following = section.swept.filter((one) => one !== axis && follows(section, one, axis));
    const groups = groupsOf(section, axis, axes.filter((one) => one !== axis && !following.includes(one)));
    let at = 0;
    const one = chart(`Scaling along ${axis.name}`, 6);
    const again = () => scaling(one, axis, following, groups[at].rows, look);
    const chooser = groups.length > 1 && select("Other axes", groups.map(({ name }, i) => [i, label(name, 50)]), 0, (value) => {
      at = Number(value);
      again();
    });
    if (groups.length > 0) add(figure(`Scaling along ${axis.name}`, "Medians with their intervals.", one, chooser), again);
  }
  if (section.rows.some((row) => row.speedup?.ratio > 0 && !row.speedup.is_baseline)) {
    const one = chart("Speed-ups", section.cases.length);
    add(figure("Speed-up", `Over ${section.baselines.join(", ") || "the baseline"}; blue is faster.`, one), () => speedups(one, section, look));
  }
  byCase("What it is bound by", "The longest bar is the binding limit; it does not explain the rest up to 100 %.", (one, rows) => bounds(one, rows), (row) => measured(row) && row.diagnosis?.parts?.length > 0);
  return made;
}

// Groups of rows that differ only along one axis and those that follow it; only groups with several values of the axis.
function groupsOf(section, axis, others) {
  const groups = new Map();
  for (const row of section.rows.filter(measured)) {
    const name = others.map((one) => `${one.name} ${plainValue(row.params[one.name])}`).join(", ");
    groups.set(name, [...(groups.get(name) ?? []), row]);
  }
  return [...groups].map(([name, rows]) => ({ name, rows })).filter(({ rows }) => rows.some((row) => row.params[axis.name] !== rows[0].params[axis.name]));
}

function remarks(section) {
  if (section.remarks.length === 0) return null;
  return h("details", {}, h("summary", {}, counted(section.remarks.length, "remark")), h("ul", { class: "plain" }, section.remarks.map((one) => h("li", {}, one.text, h("span", { class: "note" }, ` ${one.rows} of ${one.of} rows`)))));
}
