// Numbers as people read them. A missing value is a dash, never zero.

const DASH = "–";
// Keeps a number and its unit on one line.
const SPACE = "\u00a0";

// A title as the start of a line.
export function sentence(text) {
  return text && text[0].toUpperCase() + text.slice(1);
}

export function significant(value, digits = 3) {
  if (!Number.isFinite(value)) return DASH;
  if (value === 0) return "0";
  // Rounded first, because rounding can change the decade: 9.996 becomes 10.0, not 10.00.
  const rounded = Math.abs(Number(value.toPrecision(digits)));
  return fixed(value, Math.min(12, Math.max(0, digits - 1 - Math.floor(Math.log10(rounded) + 1e-12))));
}

// Half to even, as the command line rounds; toFixed rounds half away from zero.
export function fixed(value, decimals) {
  const exact = value.toFixed(decimals + 1);
  // Only a multiple of this power of two can be exactly in the middle.
  const middle = Math.abs(value) < 1e21 && Number.isInteger(value * 2 ** (decimals + 1)) && exact.endsWith("5");
  const down = exact.slice(0, -1).replace(/\.$/, "");
  return middle && Number(down.at(-1)) % 2 === 0 ? down : value.toFixed(decimals);
}

// A value with its unit; `steps` are [factor, unit], largest first.
function scaled(value, steps, digits) {
  if (value === null || value === undefined || !Number.isFinite(value)) return DASH;
  const size = Math.abs(value);
  // 999.96 with three digits would print as 1000 of the smaller unit.
  const [factor, unit] = steps.find(([factor]) => size >= factor * 0.9995) ?? steps[steps.length - 1];
  return `${significant(value / factor, digits)}${SPACE}${unit}`;
}

const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const RATES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

// The unit that suits a time, in nanoseconds, and its name.
export function timeUnit(ns) {
  return TIMES.find(([factor]) => ns >= factor) ?? [1, "ns"];
}

export function time(ns, digits = 3) {
  // No clock resolves a thousandth of a nanosecond; a smaller value is the rounding error between equal times.
  if (ns !== null && Math.abs(ns) < 1e-3) return `0${SPACE}ns`;
  if (ns !== null && Math.abs(ns) < 1) return `${significant(ns, 2)}${SPACE}ns`;
  return scaled(ns, TIMES, digits);
}

export function bytes(value, digits = 3) {
  if (value !== null && Math.abs(value) < 1024) return Number.isFinite(value) ? `${Math.round(value)}${SPACE}B` : DASH;
  return scaled(value, BYTES, digits);
}

export function rate(value, unit) {
  return scaled(value, RATES, 3).trim() + unit;
}

export function count(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return DASH;
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

// A number and its noun: "1 span", "2 spans".
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function percent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return DASH;
  if (share !== 0 && Math.abs(share) < 0.0005) return `<${SPACE}0.1${SPACE}%`;
  return `${(share * 100).toFixed(1)}${SPACE}%`;
}

export function ratio(value, digits = 3) {
  return Number.isFinite(value) ? `${significant(value, digits)}×` : DASH;
}

// Names on one line: control characters visible, long names shortened in the middle.
export function label(name, longest = 80) {
  const text = visible(name.length > 4 * longest ? name.slice(0, 2 * longest) + "…" + name.slice(-longest) : name);
  if (text.length <= longest) return text;
  const head = Math.ceil(longest * 0.65);
  return `${text.slice(0, head)}…${text.slice(head - longest + 1)}`;
}

// Case names with only those axes that differ within a workload, as on the terminal. A single case keeps all.
export function shortCases(cases) {
  // A value may hold a comma; the next axis starts with its name.
  const parts = (name) => name.slice(name.indexOf("/") + 1).split(/,(?=[^,=]+=)/);
  const axis = (part) => part.split("=", 1)[0];
  const workloads = new Map();
  for (const one of new Set(cases)) {
    const name = one.slice(0, Math.max(0, one.indexOf("/")));
    workloads.set(name, [...(workloads.get(name) ?? []), one]);
  }
  const short = new Map();
  for (const [name, group] of workloads) {
    const counts = new Map();
    for (const part of group.flatMap(parts)) counts.set(part, (counts.get(part) ?? 0) + 1);
    const differing = new Set([...counts].filter(([, count]) => count < group.length).map(([part]) => axis(part)));
    for (const one of group) {
      const kept = parts(one).filter((part) => differing.has(axis(part)));
      short.set(one, name === "" || group.length === 1 ? one : kept.length > 0 ? `${name}/${kept.join(",")}` : name);
    }
  }
  return short;
}

export function visible(name) {
  if (name === "") return "(no name)";
  const shown = (c) => ({ "\n": "\\n", "\r": "\\r", "\t": "\\t" })[c] ?? `\\x${c.charCodeAt(0).toString(16).padStart(2, "0")}`;
  // Bidirectional marks would reorder what follows them.
  return name.replace(/[\u0000-\u001f\u007f\u202a-\u202e\u2066-\u2069]/g, shown);
}

export function quantity(value, unit) {
  if (unit === "B" || unit === "bytes") return bytes(value);
  if (unit === "ns") return time(value);
  return `${significant(value, 4)}${unit ? ` ${unit}` : ""}`;
}

export function when(unixNs) {
  if (!unixNs) return null;
  return new Date(unixNs / 1e6).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");
}

// Escapes text for Plotly and SVG, which interpret a few tags.
export function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}
