// The top of each page of results: headings, links to the sections, print and theme.
import { button, h } from "../base/dom.js";
import { label } from "../base/format.js";
import { drawAll } from "../draw/plot.js";

// Headings wrap, so that only what is no name is cut.
export const LONGEST = 300;

// The links are in one line, so that they are cut.
export function link(section) {
  return h("a", { href: `#${section.id}` }, label(section.querySelector("h2").textContent, 60));
}

export function tools(redraws) {
  let theme = 0;
  const toggle = button("Theme: system", () => {
    theme = (theme + 1) % 3;
    if (theme === 0) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = ["", "light", "dark"][theme];
    toggle.textContent = ["Theme: system", "Theme: light", "Theme: dark"][theme];
    redraws.forEach((draw) => draw());
  }, { id: "theme" });
  return h("div", { class: "tools" }, button("Print", () => drawAll().then(() => print())), toggle);
}
