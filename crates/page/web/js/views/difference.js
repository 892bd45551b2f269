// The table of `ellwand profile diff`: how this profile (B) differs from the baseline that the page was made with (A).
import { h, replace, section } from "../base/dom.js";
import { fixed, label, time } from "../base/format.js";
import { on, state } from "../base/state.js";

const HEAD = ["Path", "A", "B", "Contribution", "B / A", "Interval", "Verdict"];
// Most rows; the largest contributions come first.
const MOST = 100;

export function differenceView() {
  const { element, body } = section("difference", "Difference", " ", []);
  on("profile extras", () => {
    const difference = state.extras?.difference;
    element.hidden = !difference;
    if (!difference) return replace(body);
    const { root, baseline: a, candidate: b, verdict, notes } = difference;
    const what = root === null ? "Whole profiles" : `${label(root, 60)}, ${a.repetitions} and ${b.repetitions} repetitions`;
    element.querySelector(".note").textContent = `${what}: ${time(a.mean_ns)} in A, ${time(b.mean_ns)} in B, ${verdict}. Contributions add up to the change. One recording each cannot exclude that their processes differ.`;
    replace(body, table(difference), ...notes.map((note) => h("p", { class: "note" }, note)));
  });
  return element;
}

function table({ nodes }) {
  const text = (i) => (i === 0 || i === HEAD.length - 1 ? "text" : null);
  return h("div", { class: "scroll" }, h("table", { class: "results" },
    h("thead", {}, h("tr", {}, HEAD.map((title, i) => h("th", { scope: "col", class: text(i) }, title)))),
    h("tbody", {}, nodes.slice(0, MOST).map((node) => h("tr", {}, row(node).map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: text(i) }, cell)))))),
    nodes.length > MOST && h("tfoot", {}, h("tr", {}, h("td", { class: "text", colspan: HEAD.length }, `and ${nodes.length - MOST} more`)))));
}

function row({ path, baseline_ns: a, candidate_ns: b, contribution_ns: change, ratio, verdict }) {
  const known = (ns) => (ns === null ? "–" : time(ns));
  // Without repetitions, the ratio of the means has no interval.
  const of = ratio ? ratio.ratio : a > 0 && b !== null ? b / a : null;
  const [value, interval] = [of === null ? "–" : `${fixed(of, 3)}×`, ratio ? `${fixed(ratio.low, 3)} to ${fixed(ratio.high, 3)}` : "–"];
  return [path.map((name) => label(name, 40)).join(" › "), known(a), known(b), `${change < 0 ? "-" : "+"}${time(Math.abs(change))}`, value, interval, a === null ? "new" : b === null ? "gone" : verdict];
}
