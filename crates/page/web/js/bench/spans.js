// Components inside implementations, from separate runs with spans: the columns and words of `ellwand report`.
import { append, empty, h, section, textTable } from "../base/dom.js";

export function spansViews(report) {
  return (report.spans ?? []).map((spans, i) => {
    const run = report.runs.length > 1 && `run ${spans.run + 1}`;
    const title = [`Inside ${spans.implementation}`, spans.workload, spans.place, run].filter(Boolean).join(" · ");
    const { element, body } = section(`spans-${i}`, title, [spans.what_ran, spans.fixed, "From a separate run with spans; its times are never the headline."].filter(Boolean).join(" · "), []);
    const reason = spans.status.reason && `${spans.status.word}: ${spans.status.reason}`;
    const { columns, terms } = report.span_tables[i];
    append(body, spans.rows.length > 0 ? [textTable(`Components of ${spans.implementation}`, columns), h("p", { class: "note" }, terms)] : empty(reason || "No spans."),
      spans.notes.length > 0 && h("ul", { class: "plain" }, spans.notes.map((one) => h("li", {}, one))));
    return element;
  });
}
