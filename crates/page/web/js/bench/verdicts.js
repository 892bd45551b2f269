// Verdicts of comparisons with their intervals.
import { button, h, section, table } from "../base/dom.js";
import { tokens } from "../base/color.js";
import { label, percent, plain, shortCases, significant, visible } from "../base/format.js";
import { markdown, save } from "../base/save.js";
import { Chart } from "../draw/plot.js";
import { human } from "./model.js";

const COLOURS = { faster: "#4f94c4", slower: "#dd7a3c", "slower-beside": "#dd7a3c", same: "#2fa884" };
const HEAD = ["Case", "Baseline", "Candidate", "Verdict", "Ratio", "Interval", "Blocks", "Note"];
const TEXTS = [0, 1, 2, 3, 7];

function line(one) {
  const interval = one.low > 0 ? `${significant(one.low, 4)} to ${significant(one.high, 4)}` : "–";
  return [one.case, `${one.baseline} ${human(one.time_s?.[0], "s")}`, `${one.candidate} ${human(one.time_s?.[1], "s")}`, one.verdict, one.ratio > 0 ? significant(one.ratio, 4) : "–", interval, one.blocks, [beside(one.beside), one.note].filter(Boolean).join("; ")];
}

// The statistic that is slower although the judged time is not.
function beside(side) {
  return side && `slower by the ${side.statistic} of all slots: ${significant(side.ratio, 4)} (${significant(side.low, 4)} to ${significant(side.high, 4)})`;
}

export function verdictsView(report, redraws) {
  const all = report.comparisons ?? [];
  if (all.length === 0) return null;
  const short = shortCases(all.map((one) => one.case));
  const { element, body } = section("verdicts", "Verdicts", `Time of the candidate divided by that of the baseline, with its ${percent(all[0].confidence)} interval. Within ±${percent(all[0].rope)} both count as the same.`,
    [button("Markdown", () => save("verdicts.md", markdown(HEAD, all.map(line), 4), "text/markdown"), { "data-export": "markdown" })]);
  const known = all.filter((one) => one.ratio > 0 && one.low > 0);
  if (known.length > 0) {
    const chart = new Chart("Ratios with intervals", 90 + known.length * 36);
    const draw = () => {
      const t = tokens();
      const names = known.map((one) => {
        const [workload, ...axes] = short.get(one.case).split("/");
        return [`${workload}: ${one.candidate} over ${one.baseline}`, axes.join("/")].filter(Boolean).map((text) => plain(label(text, 70))).join("<br>");
      });
      chart.set([{
        type: "scatter", mode: "markers", x: known.map((one) => one.ratio), y: known.map((_, i) => i), marker: { size: 10, color: known.map((one) => COLOURS[one.verdict] ?? t.faint) },
        error_x: { type: "data", symmetric: false, array: known.map((one) => one.high - one.ratio), arrayminus: known.map((one) => one.ratio - one.low), color: t.muted, thickness: 1.5, width: 4 },
        hovertext: known.map((one, i) => `${names[i]}<br>${plain(visible(one.case))}<br>${one.verdict}: ${significant(one.ratio, 4)}`), hoverinfo: "text",
      }], {
        xaxis: { title: "Ratio of times (left of 1: the candidate is faster)", fixedrange: true }, yaxis: { tickmode: "array", tickvals: known.map((_, i) => i), ticktext: names, autorange: "reversed", zeroline: false, fixedrange: true },
        shapes: [{ type: "rect", xref: "x", yref: "paper", x0: 1 - known[0].rope, x1: 1 + known[0].rope, y0: 0, y1: 1, fillcolor: t.line, opacity: 0.6, line: { width: 0 }, layer: "below" }],
      });
    };
    redraws.push(draw);
    draw();
    body.append(chart.box);
  }
  body.append(table("Verdicts", HEAD, TEXTS, all.map((one) => h("tr", {}, line(one).map((text, i) => (i === 0 ? h("th", { scope: "row", title: visible(one.case) }, label(short.get(one.case), 70)) : h("td", { class: TEXTS.includes(i) ? "text" : null }, i === 3 ? h("span", { class: "tag strong" }, text) : text)))))));
  return element;
}
