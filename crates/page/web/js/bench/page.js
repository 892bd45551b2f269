// The page of a report: what ran, the results, and how far to trust them.
import { append, empty, footer, h, prose, section } from "../base/dom.js";
import { bytes, count, counted, label, percent, ratio, significant } from "../base/format.js";
import { payload } from "../data/inflate.js";
import { human, looks, measured, shownSpeedup, speedup } from "./model.js";
import { workloadView } from "./section.js";
import { spansViews } from "./spans.js";
import { LONGEST, drawSoon, link, tools } from "./tools.js";
import { verdictsView } from "./verdicts.js";
import { domainViews } from "./views.js";

export async function startRun(app) {
  const { head: report } = await payload("data");
  if (!Array.isArray(report.workloads) || !Array.isArray(report.runs)) throw new Error("the report has no workloads and runs; expected the JSON that `ellwand report --format json` prints");
  const redraws = [];
  const look = looks(report);
  const sections = [
    findings(report), verdictsView(report, redraws), ...domainViews(report, look, redraws),
    ...report.workloads.map((one, i) => workloadView(report, one, report.readings?.[i], look, redraws)), ...spansViews(report), trust(report), machine(report),
  ].filter(Boolean);
  append(app, header(report, sections, redraws), warnings(report), h("main", {}, cards(report), sections), footer());
  drawSoon();
}

function header(report, sections, redraws) {
  const run = report.runs[0];
  const names = [...new Set([...report.workloads, ...(report.spans ?? [])].map((one) => one.workload))];
  const facts = [run?.started, run?.environment.cpu, report.runs.length > 1 && `${report.runs.length} runs`].filter(Boolean);
  document.title = `${names.slice(0, 3).join(", ") || "Report"} · Ellwand`;
  return h("header", { class: "top" },
    h("div", { class: "title" }, h("h1", {}, names.length > 0 ? label(names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${names.length - 3} more` : ""), LONGEST) : "Comparison"),
      h("p", { class: "note" }, facts.join(" · ")), run?.command && h("p", { class: "note" }, h("code", {}, label(run.command, 160)))),
    tools(redraws),
    h("nav", { "aria-label": "Sections" }, sections.map(link)));
}

function warnings(report) {
  const all = [...report.warnings, ...report.runs.flatMap((run) => run.warnings)];
  return all.length > 0 && h("div", { class: "banner warn", role: "status" }, h("ul", { class: "plain" }, all.map((one) => h("li", {}, one))));
}

function cards(report) {
  const rows = report.workloads.flatMap((one) => one.rows.map((row) => ({ ...row, of: report.workloads.length > 1 ? `${label(one.workload, 18)}: ` : "" })));
  const done = rows.filter(measured).length;
  const best = rows.filter((row) => measured(row) && row.speedup?.ratio > 0 && !row.speedup.is_baseline).sort((a, b) => shownSpeedup(b.speedup) - shownSpeedup(a.speedup))[0];
  // A result above its ceiling means that the ceiling or the count is wrong, which the findings report.
  const nearest = rows.filter((row) => row.metrics?.["roofline-fraction"]?.median > 0 && row.metrics["roofline-fraction"].median <= 1.05).sort((a, b) => b.metrics["roofline-fraction"].median - a.metrics["roofline-fraction"].median)[0];
  const [verdicts, spans] = [report.comparisons ?? [], report.spans ?? []];
  const card = (title, value, note) => h("div", { class: "card" }, h("h3", {}, title), h("p", { class: "value" }, value), h("p", { class: "note" }, note));
  return h("div", { class: "cards", id: "cards" },
    rows.length > 0 && card("Workloads", count(report.workloads.length), counted(report.workloads.reduce((sum, one) => sum + one.cases.length, 0), "case")),
    rows.length > 0 && card("Measured", `${count(done)} of ${count(rows.length)}`, done < rows.length ? "the rest has a reason in its row" : "every row"),
    best && card("Largest speed-up", speedup(best.speedup), `${best.of}${label(best.implementation, 18)} over ${label(best.speedup.baseline, 18)}`),
    nearest && card("Nearest to its ceiling", percent(nearest.metrics["roofline-fraction"].median), `${nearest.of}${label(nearest.implementation, 24)}`),
    verdicts.length > 0 && card("Verdicts", count(verdicts.length), tally(verdicts.map((one) => (one.verdict === "none" ? "without verdict" : one.verdict)), ["faster", "slower", "same", "undecided"])),
    spans.length > 0 && card("Components", count(spans.length), `${spans.length === 1 ? "table" : "tables"} from runs with spans`),
    card("Findings", count(report.findings.length), tally(report.findings.map((one) => one.class)) || "none"));
}

// How often each word occurs, with those of `first` first.
function tally(words, first = []) {
  const counts = new Map(first.map((word) => [word, 0]));
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].filter(([, n]) => n > 0).map(([word, n]) => `${n} ${word}`).join(", ");
}

function findings(report) {
  const { element, body } = section("findings", "Findings and advice", null, []);
  body.append(report.findings.length === 0 ? empty("No rule found anything.") : h("ol", { class: "findings" }, report.findings.map((one) => h("li", {}, h("div", { class: "finding" },
    h("h3", {}, one.title),
    h("p", { class: "tags" }, h("span", { class: `tag ${one.class}` }, one.class), h("span", { class: "tag" }, one.rule), h("span", { class: "tag" }, `${one.confidence} confidence`),
      one.saving_upper_bound > 0 && h("span", { class: "tag strong" }, `saves at most ${percent(one.saving_upper_bound)}`)),
    h("p", {}, one.alike && `in ${one.cases[0]} rows, most in `, [one.workload, one.implementation, one.place, report.runs.length > 1 && `run ${one.run + 1}`].filter(Boolean).join(" · "), one.cases?.[1] > 1 && h("span", { class: "note" }, ` ${one.cases[0]} of ${one.cases[1]} rows`)),
    one.alike && h("p", { class: "note" }, `also in: ${one.alike.join("; ")}`),
    h("dl", {}, one.evidence.flatMap(({ name, value, unit }) => [h("dt", {}, name), h("dd", {}, human(value, unit))]), h("dt", {}, "threshold"), h("dd", {}, one.threshold)),
    one.next_experiment && h("p", {}, h("strong", {}, "Next: "), prose(one.next_experiment)))))));
  return element;
}

function trust(report) {
  const { element, body } = section("trust", "How far to trust this", null, []);
  body.append(h("h3", {}, "Self-check"), ...report.runs.map((run) => h("p", {}, run.trust)), h("h3", {}, "Limits"), h("ul", { class: "plain" }, report.limits.map((one) => h("li", {}, one))));
  return element;
}

function machine(report) {
  const { element, body } = section("machine", "Machine and ceilings", null, []);
  for (const run of report.runs) {
    const env = run.environment;
    const facts = [["processor", env.cpu], ["cores", env.cores], ["memory", bytes(env.memory_bytes)], ["system", env.os], ["compiler", env.compiler], ["load at the start", env.load], ["virtual", env.virtualised === true ? "yes" : env.virtualised === false ? "no" : null],
      ["reading the clock", env.clock_cost_ns > 0 ? `${significant(env.clock_cost_ns, 3)} ns` : null], ["Ellwand", run.ellwand], ["seed", run.seed]].filter(([, value]) => value !== null && value !== undefined);
    const ceilings = env.ceilings ?? [];
    body.append(h("div", { class: "columns" },
      h("div", {}, h("h3", {}, label(run.id, 40)), h("table", { class: "facts" }, h("tbody", {}, facts.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, String(value))))))),
      h("div", {}, h("h3", {}, "Measured ceilings"), ceilings.length === 0 ? empty("Not measured: run `ellwand machine`.") : h("details", { open: ceilings.length <= 12 }, h("summary", {}, counted(ceilings.length, "ceiling")), h("table", { class: "facts" },
        h("tbody", {}, ceilings.map((one) => h("tr", {}, h("th", { scope: "row" }, [one.kind, one.level, one.footprint_bytes > 0 && bytes(one.footprint_bytes)].filter(Boolean).join(" ")), h("td", {}, `${one.implementation}, ${one.parallelism === "single" ? "1 thread" : "all threads"}`), h("td", {}, ceiling(one))))))))));
  }
  return element;
}

function ceiling({ kind, value }) {
  if (/^(fma|products)/.test(kind)) return human(value, "FLOP/s");
  if (kind === "streamed") return human(value, "B");
  // Calls, launches and latencies are times; the rest are rates.
  return value < 1 ? human(value, "s") : human(value, "B/s");
}
