// The current view as a file: CSV, Markdown, SVG.
import { visible } from "./format.js";

export function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.dataset.saved = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Cells are text or numbers. A leading character that spreadsheets would take for a formula is preceded by a quote.
export function csv(head, rows) {
  const cell = (value) => {
    if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
    const text = String(value ?? "");
    const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function markdown(head, rows, rightFrom = 1) {
  const cell = (value) => visible(String(value)).replace(/\u00a0/g, " ").replace(/\|/g, "\\|").replace(/</g, "&lt;");
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, i) => (i < rightFrom ? "---" : "---:"));
  return [line(head.map(cell)), line(rule), ...rows.map((row) => line(row.map(cell)))].join("\n") + "\n";
}
