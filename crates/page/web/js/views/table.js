// Statistics by operation over the range: sortable, filtered by a regular expression; a click on a row selects its
// operation.
import { breakable, button, empty, h, replace, section } from "../base/dom.js";
import { bytes, count, counted, label, percent, rate, significant, time, visible } from "../base/format.js";
import { csv, markdown, save } from "../base/save.js";
import { withoutEntry } from "../calc/losses.js";
import { colours } from "../base/color.js";
import { on, state, update } from "../base/state.js";
import { nameOf, placeOf } from "../data/model.js";

// Key, title, explanation, format, value; a column without any value is omitted.
export const COLUMNS = [
  ["calls", "Calls", "Calls that ended, in the range", count],
  ["total", "Total", "Time inside, without calls nested in the same operation", time],
  ["self", "Self", "Total minus the time in nested spans of the same lane", time],
  ["share", "Of wall", "Total divided by the length of the range", percent],
  ["mean", "Mean", "Mean duration of a call", time],
  ["min", "Min", "Shortest call", time],
  ["p50", "Median", "Median call", time],
  ["p90", "p90", "90th percentile (nearest rank)", time],
  ["p99", "p99", "99th percentile (nearest rank)", time],
  ["max", "Max", "Longest call", time],
  ["std", "Std dev", "Standard deviation of the calls (n - 1)", time],
  ["cpu_ns", "CPU", "CPU time of the thread, where it was recorded", time],
  ["waiting_ns", "Waiting", "Elapsed minus CPU time, where CPU time was recorded", time],
  ["device", "Device", "Kernels that the operation is, or that it started", time],
  ["transfer", "Transfer", "Copies that the operation is, or that it started", time],
  ["allocations", "Allocs", "Allocations, where they were counted", count],
  ["allocated_bytes", "Allocated", "Bytes allocated, where they were counted", bytes],
  ["peak_bytes", "Peak", "Most bytes held at once by a call", bytes],
  ["gb_per_s", "GB/s", "Declared bytes divided by total time", (value) => significant(value, 3)],
  ["gflop_per_s", "GFLOP/s", "Declared floating-point operations divided by total time", (value) => significant(value, 3)],
  ["items_per_s", "Items/s", "Declared items divided by total time", (value) => rate(value, "")],
  ["overhead", "Own cost", "Estimated part of the total that the profiler itself took", time],
  ["open", "Open", "Calls that had not ended", count],
];
const OPTIONAL = new Set(["cpu_ns", "waiting_ns", "device", "transfer", "allocations", "allocated_bytes", "peak_bytes", "gb_per_s", "gflop_per_s", "items_per_s", "overhead", "open"]);
// Sums of declared work, for CSV.
const WORK = ["bytes", "items", "flops"];
// Rows shown at first, so that the charts below stay in reach; and most rows.
const FEW = 40;
const MOST = 400;

export function matcher(filter) {
  try {
    const pattern = new RegExp(filter, "i");
    return { test: (name) => pattern.test(name), error: null };
  } catch (error) {
    return { test: (name) => name.includes(filter), error: error.message };
  }
}

export function shownRows() {
  const { profile, summary } = state;
  const { test } = matcher(state.filter);
  const [key, direction] = state.sort;
  const name = (row) => profile.operations[row.operation].name;
  const value = (row) => row[key] ?? -Infinity;
  const order = key === "name"
    ? (a, b) => direction * (name(a) < name(b) ? -1 : name(a) > name(b) ? 1 : a.operation - b.operation)
    : (a, b) => direction * (value(a) - value(b)) || b.self - a.self || a.operation - b.operation;
  return summary.rows.filter((row) => test(name(row))).sort(order);
}

function shownColumns() {
  const { rows } = state.summary;
  return COLUMNS.filter(([key]) => !OPTIONAL.has(key) || rows.some((row) => row[key] !== null && row[key] !== 0));
}

function exportTable(kind) {
  const { profile } = state;
  const columns = shownColumns();
  const rows = shownRows();
  const name = (row) => profile.operations[row.operation].name;
  if (kind === "csv") {
    const work = WORK.filter((key) => rows.some((row) => row[key] > 0));
    const head = ["operation", ...[...columns, ...work.map((key) => [key])].map(([key]) => (/^(total|self|mean|min|max|std|p\d+|overhead|device|transfer)$/.test(key) ? `${key}_ns` : key))];
    save("statistics.csv", csv(head, rows.map((row) => [name(row), ...[...columns.map(([key]) => key), ...work].map((key) => row[key] ?? "")])), "text/csv");
  } else {
    const head = ["Operation", ...columns.map(([, title]) => title)];
    save("statistics.md", markdown(head, rows.map((row) => [nameOf(profile, row.operation), ...columns.map(([key, , , format]) => shown(row, key, format))])), "text/markdown");
  }
}

export function tableView() {
  const search = h("input", {
    type: "search", id: "filter", placeholder: "Filter by regular expression  ( / )", spellcheck: "false", "aria-label": "Filter operations by regular expression",
    oninput: () => update({ filter: search.value }),
  });
  const { element, body } = section("statistics", "Statistics", null, [
    search,
    button("CSV", () => exportTable("csv"), { "data-export": "csv" }),
    button("Markdown", () => exportTable("markdown"), { "data-export": "markdown" }),
  ]);
  let most = FEW;
  const redraw = () => {
    if (search.value !== state.filter) search.value = state.filter;
    draw(body, search, most, () => {
      most = MOST;
      redraw();
    });
  };
  on("profile summary filter sort operation theme", redraw);
  return element;
}

function draw(body, search, limit, showAll) {
  const { profile } = state;
  const columns = shownColumns();
  const rows = shownRows();
  const { error } = matcher(state.filter);
  search.setAttribute("aria-invalid", String(Boolean(error)));
  search.title = error ? `${error}; matching as plain text` : "";
  if (state.summary.rows.length === 0) return replace(body, empty("No calls in this range. Select a longer one in the timeline, or press Esc there."));
  if (rows.length === 0) return replace(body, empty(`No operation matches ${label(state.filter, 40)}. Clear the filter to see all ${state.summary.rows.length}.`));
  const paint = colours(profile);
  const most = Math.max(...rows.map((row) => row.self), 1);
  const head = h("tr", {}, heading("name", "Operation", "Name of the operation"), columns.map(([key, title, about]) => heading(key, title, about)));
  const shown = rows.filter((row, i) => i < limit || row.operation === state.operation);
  const lines = shown.map((row) => line(row, columns, profile, paint, most));
  replace(body, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Statistics by operation" },
    h("table", { class: "statistics" }, h("thead", {}, head), h("tbody", {}, lines))),
  rows.length > limit && h("p", { class: "note" }, `The first ${limit} of ${count(rows.length)} operations. The filter narrows them; CSV holds all. `,
    limit < MOST && button(`Show ${count(Math.min(rows.length, MOST))}`, showAll, { id: "more-rows" })),
  !state.summary.whole && h("p", { class: "note", id: "cut" }, cutNote(profile)));
}

// Percentiles with aggregated calls are estimates.
function isEstimate(row, key) {
  return row.aggregated.calls > 0 && /^p\d+$/.test(key);
}

function shown(row, key, format) {
  return `${isEstimate(row, key) ? "~" : ""}${format(row[key])}`;
}

// How a range affects numbers that are known only for whole calls.
function cutNote(profile) {
  const used = profile.detail ? "CPU time, allocations and bytes of a call that the range cuts count in proportion to its duration inside. " : "";
  const missing = withoutEntry(profile);
  return `${used}Mean, extremes and percentiles use whole calls.${missing > 0 ? ` The range lacks ${counted(missing, "aggregated call")}, whose places are unknown.` : ""}`;
}

function heading(key, title, about) {
  const [current, direction] = state.sort;
  const sorted = current === key ? (direction > 0 ? "ascending" : "descending") : "none";
  const first = key === "name" ? 1 : -1;
  return h("th", { scope: "col", "aria-sort": sorted, class: key === "name" ? "name" : null },
    button(title, () => update({ sort: [key, current === key ? -direction : first] }), { title: about, "data-sort": key }));
}

function line(row, columns, profile, paint, most) {
  const operation = profile.operations[row.operation];
  const selected = state.operation === row.operation;
  const choose = () => update({ operation: selected ? -1 : row.operation, span: -1 });
  const place = operation.file ? `${operation.file}:${operation.line}` : "";
  const shared = placeOf(profile, row.operation);
  const cells = columns.map(([key, , , format]) => {
    const bar = key === "self" && row.self > 0 ? h("i", { class: "bar", style: { width: `${(100 * row.self) / most}%` } }) : null;
    const title = isEstimate(row, key) ? "An estimate within a factor of 1.5: only the power of two of each aggregated call's duration is known" : null;
    return h("td", { "data-key": key, "data-value": row[key] ?? "", class: row[key] === 0 ? "zero" : null, title }, bar, h("span", {}, shown(row, key, format)));
  });
  return h("tr", { "aria-selected": String(selected), "data-operation": row.operation, onclick: choose },
    h("th", { scope: "row", class: "name", title: `${visible(operation.name.slice(0, 2000))}${place ? `\n${place}` : ""}` },
      h("i", { class: "dot", style: { background: paint[row.operation] } }),
      button(breakable(label(operation.name, 48)), (event) => { event.stopPropagation(); choose(); }, { "aria-pressed": String(selected) }),
      shared && h("span", { class: "note" }, ` (${visible(shared)})`)),
    cells);
}
