// The top of each page of results: headings, links to the sections, print and theme.
import { button, h, themeButton } from "../base/dom.js";
import { label } from "../base/format.js";
import { drawAll, drawForPrint } from "../draw/plot.js";

// Longest heading. Headings wrap, so only text that cannot be a name is cut.
export const LONGEST = 300;

// The links share one line, so they are cut.
export function link(section) {
  return h("a", { href: `#${section.id}` }, label(section.querySelector("h2").textContent, 60));
}

export function tools(redraws) {
  const theme = themeButton(() => redraws.forEach((draw) => draw()));
  return h("div", { class: "tools" }, button("Print", () => drawAll().then(() => print())), theme);
}

// Draws charts that were not in view yet, so that the browser's own print command finds all of them.
export function drawSoon() {
  addEventListener("beforeprint", drawForPrint);
  setTimeout(() => drawAll(), 1000);
}
