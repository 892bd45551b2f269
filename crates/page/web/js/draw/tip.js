// One tooltip for all drawings; screen readers get the same text from the focused element.
import { h, replace } from "../base/dom.js";

const tip = h("div", { class: "tip", role: "tooltip", hidden: true });

export function showTip(x, y, lines) {
  if (!tip.isConnected) document.body.append(tip);
  replace(tip, lines.filter(Boolean).map((line, i) =>
    Array.isArray(line) ? h("div", { class: "pair" }, h("span", {}, line[0]), h("span", {}, line[1])) : h(i === 0 ? "strong" : "div", {}, line)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
}

export function hideTip() {
  tip.hidden = true;
}
