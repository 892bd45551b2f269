// Findings of the rules, each with its evidence and a link that selects it.
import { button, empty, h, replace, section } from "../base/dom.js";
import { label, percent } from "../base/format.js";
import { on, state, update } from "../base/state.js";

export function findingsView() {
  const { element, body } = section("findings", "Findings", null, []);
  on("profile extras", () => draw(body));
  return element;
}

function draw(body) {
  const findings = state.extras?.findings ?? [];
  if (findings.length === 0) {
    return replace(body, empty("No findings come with this profile. `ellwand profile show FILE` runs the rules; a file opened here is shown without them."));
  }
  replace(body, h("ol", { class: "findings" }, findings.map(finding)));
}

function finding(one) {
  const saving = one.saving_upper_bound;
  return h("li", {},
    h("div", { class: "finding" },
      h("h3", {}, label(one.title, 200)),
      h("p", { class: "tags" }, h("span", { class: "tag" }, one.rule), h("span", { class: "tag" }, one.confidence),
        saving !== null && saving !== undefined && h("span", { class: "tag strong" }, `saves at most ${percent(saving)}`)),
      h("dl", {}, one.evidence.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
        one.threshold && [h("dt", {}, "threshold"), h("dd", {}, one.threshold)]),
      one.next_experiment && h("p", {}, h("strong", {}, "Next: "), one.next_experiment)),
    (one.operations.length > 0 || one.range_ns) && button("Show evidence", () => select(one), { "data-evidence": one.rule }));
}

// Selects the operation and the time; several operations become a filter.
function select(one) {
  const found = one.operations.map((name) => state.profile.operations.findIndex((op) => op.name === name)).filter((op) => op >= 0);
  const quoted = one.operations.map((name) => `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`);
  update({
    operation: found[0] ?? -1, span: -1, range: one.range_ns ?? state.range, view: one.range_ns ?? state.view,
    filter: quoted.length > 1 ? quoted.join("|") : "",
  });
  document.getElementById("timeline").scrollIntoView({ block: "start" });
}
