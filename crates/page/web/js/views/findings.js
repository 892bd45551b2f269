// The rules' findings, each with its evidence and a link that selects it.
import { button, empty, h, prose, replace, section } from "../base/dom.js";
import { bytes, count, counted, label, percent, quantity, rate, ratio, time } from "../base/format.js";
import { on, state, update } from "../base/state.js";
import { withoutEntry } from "../calc/losses.js";

// Number of findings that are shown when the page opens.
const SHOWN = 3;

export function findingsView() {
  const { element, body } = section("findings", "Findings", null, []);
  on("profile extras", () => draw(body));
  return element;
}

function draw(body) {
  const findings = state.extras?.findings;
  if (!findings) return replace(body, empty("Rules run when `ellwand view FILE` makes the page; a file opened here is shown without findings."));
  if (findings.length === 0) {
    const missing = withoutEntry(state.profile);
    const blind = missing > 0 ? ` Rules on single calls (the first one, calls that differ, uneven threads) do not see the ${counted(missing, "call")} that were aggregated.` : "";
    return replace(body, empty(`No rule found anything.${blind}`));
  }
  const list = (some) => h("ol", { class: "findings" }, some.map(finding));
  const rest = findings.slice(SHOWN);
  // The timeline should not be far below the first screen.
  replace(body, list(findings.slice(0, SHOWN)),
    rest.length > 0 && h("details", { class: "more" }, h("summary", {}, `${rest.length} more`), list(rest)));
}

function finding(one) {
  const saving = one.saving_upper_bound;
  return h("li", {},
    h("div", { class: "finding" },
      h("h3", {}, label(one.title, 200)),
      h("p", { class: "tags" }, h("span", { class: "tag" }, one.rule), h("span", { class: "tag" }, one.confidence),
        saving !== null && saving !== undefined && h("span", { class: "tag strong" }, `saves at most ${percent(saving)}`)),
      h("dl", {}, one.evidence.flatMap(({ name, value, unit }) => [h("dt", {}, label(name, 90)), h("dd", {}, amount(value, unit))]),
        one.threshold && [h("dt", {}, "threshold"), h("dd", {}, one.threshold)]),
      one.next_experiment && h("p", {}, h("strong", {}, "Next: "), prose(one.next_experiment))),
    h("div", { class: "tools" }, (one.operations.length > 0 || one.ranges.length > 0) && button("Show evidence", () => select(one, 0), { "data-evidence": one.rule }),
      one.ranges.slice(1, 6).map((_, i) => button(String(i + 2), () => select(one, i + 1), { title: "Another place of the same evidence" }))));
}

function amount(value, unit) {
  const formats = { ns: time, B: bytes, share: percent, x: ratio, "B/s": (one) => rate(one, "B/s"), "flop/s": (one) => rate(one, "FLOP/s") };
  if (!unit && Number.isInteger(value)) return count(value);
  return formats[unit] ? formats[unit](value) : quantity(value, unit);
}

// Selects the operation and the time; several operations become a filter.
function select(one, place) {
  const range = one.ranges[place] ?? null;
  const found = one.operations.map((name) => state.profile.operations.findIndex((op) => op.name === name)).filter((op) => op >= 0);
  const quoted = one.operations.map((name) => `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);
  update({
    operation: found[0] ?? -1, span: -1, range: range ?? state.range, view: range ?? state.view,
    filter: quoted.length > 1 ? quoted.join("|") : "",
  });
  document.getElementById("timeline").scrollIntoView({ block: "start" });
}
