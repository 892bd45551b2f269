// Shared by the views of a report: names of cases, colours of implementations, values of metrics.
import { dark } from "../base/color.js";
import { bytes, percent, rate, ratio, significant, time } from "../base/format.js";

const COLOURS = {
  light: ["#0072b2", "#d97a00", "#008f67", "#b85c95", "#3f9bd1", "#c4521a", "#a89a00", "#5a6572"],
  dark: ["#5ab0e6", "#f0a83a", "#35c297", "#dd8cbb", "#8fd0f5", "#ef8350", "#e3d64a", "#9aa5b1"],
};
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon"];

// An implementation looks the same in every chart; a view of the record may fix the order.
export function looks(report) {
  const fixed = (report.views ?? []).filter((view) => view.kind === "implementations").flatMap((view) => view.looks ?? []);
  const names = [...new Set([...fixed, ...report.workloads.flatMap((section) => section.implementations)])].filter(Boolean);
  const place = new Map(names.map((name, i) => [name, i]));
  const of = (list, name) => list[(place.get(name) ?? 7) % 8];
  return { colour: (name) => of(dark() ? COLOURS.dark : COLOURS.light, name), symbol: (name) => of(SYMBOLS, name) };
}

// The value of an axis, as the command line takes it.
export function plainValue(value) {
  return typeof value === "boolean" ? (value ? "on" : "off") : value;
}

// True if `other` has one value for each value of `axis`, as the axes of named sizes do.
export function follows(section, other, axis) {
  const values = new Map();
  for (const { params } of section.rows) values.set(params[axis.name], (values.get(params[axis.name]) ?? new Set()).add(params[other.name]));
  return [...values.values()].every((one) => one.size === 1);
}

// The first of the axes that vary together.
export function leading(section) {
  const together = (a, b) => follows(section, a, b) && follows(section, b, a);
  return section.swept.filter((one, i) => !section.swept.slice(0, i).some((known) => together(known, one)));
}

// The name of a case: the axes that vary in its section, without those that `leading` leaves out, which follow from the
// others.
export function caseName(section, row, axes = section.swept) {
  const parts = axes.map(({ name }) => `${name} ${plainValue(row.params[name])}`);
  return parts.length > 0 ? parts.join(", ") : "the only case";
}

export function metric(row, id) {
  const value = row.metrics?.[id];
  return value && Number.isFinite(value.median) ? value : null;
}

// The sign of a time that is only a bound, because other programs held the row up.
export function bound(row) {
  return row.held_up ? "≤" : "";
}

// A speed-up as printed: a bound is the end of its interval; without an interval it is no bound.
export function shownSpeedup(speedup) {
  return (speedup.bound && speedupEnds(speedup).find(Number.isFinite)) || speedup.ratio;
}

// A speed-up with the sign of its bound, if other programs held up one of the two.
export function speedup(speedup) {
  const bound = speedupEnds(speedup).some(Number.isFinite) ? speedup.bound : speedup.bound && "disturbed";
  return `${{ "at-least": "≥", "at-most": "≤", disturbed: "~" }[bound] ?? ""}${ratio(shownSpeedup(speedup))}`;
}

// The ends of a speed-up's interval that hold even without other programs: a bound has one, two held-up rows have none.
export function speedupEnds({ low, high, bound } = {}) {
  return [["at-most", "disturbed"].includes(bound) ? null : low, ["at-least", "disturbed"].includes(bound) ? null : high];
}

export function speedupInterval(speedup) {
  const [low, high] = speedupEnds(speedup);
  if (!Number.isFinite(low) && !Number.isFinite(high)) return null;
  return Number.isFinite(low) ? (Number.isFinite(high) ? interval(speedup, "x") : `from ${human(low, "x")}`) : `to ${human(high, "x")}`;
}

export function measured(row) {
  return row.status.word === "measured" && metric(row, "time") !== null;
}

// A value in the report's unit: seconds, rates, shares.
export function human(value, unit, digits) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (unit === "s") return time(value * 1e9, digits);
  if (unit === "B") return bytes(value);
  if (unit === "1") return percent(value);
  if (unit === "x") return ratio(value, digits);
  if (unit.endsWith("/s")) return rate(value, unit === "1/s" ? "/s" : unit);
  return `${significant(value, 4)}${unit ? ` ${unit}` : ""}`;
}

// The interval of a value as text, or null, as in rows of few samples. Ends that would read the same get up to 6
// digits.
export function interval({ low, high }, unit) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return null;
  const ends = (digits) => [low, high].map((end) => human(end, unit, digits));
  const [from, to] = [3, 4, 5, 6].map(ends).find(([from, to]) => from !== to) ?? ends(3);
  return `${from} to ${to}`;
}
