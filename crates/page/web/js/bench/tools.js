// Print and theme, at the top of each page of results.
import { button, h } from "../base/dom.js";
import { drawAll } from "../draw/plot.js";

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
