// Creates elements without markup in strings, so no text of a profile is ever parsed as HTML.

// The namespace of SVG elements; nothing is requested from it.
export const SVG = "http:" + "//www.w3.org/2000/svg";

export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, ...children);
  return element;
}

// Appends elements and text; lists are flattened, and false, null and undefined skipped.
export function append(element, ...children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, ...child);
    else if (child !== undefined && child !== null && child !== false) element.append(child);
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, ...children);
  return element;
}

// A name that may break between its parts in a narrow column.
export function breakable(name) {
  return name.split(/(?<=[_.:/<(,-])(?=\w)|(?<=[a-z])(?=[A-Z])/).flatMap((part, i) => (i === 0 ? [part] : [h("wbr"), part]));
}

export function button(label, act, attributes) {
  return h("button", { type: "button", ...attributes, onclick: act }, label);
}

// A choice between a few options, as a row of buttons of which one is pressed.
export function choice(label, options, current, choose) {
  const buttons = options.map(([value, text]) =>
    button(text, () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === mine(value)));
      choose(value);
    }, { "aria-pressed": String(value === current), "data-value": value }));
  const mine = (value) => buttons[options.findIndex(([one]) => one === value)];
  return h("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

export function select(label, options, current, choose) {
  const list = h("select", { "aria-label": label, onchange: () => choose(list.value) },
    options.map(([value, text]) => h("option", { value, selected: String(value) === String(current) }, text)));
  return list;
}

// A section of the page: a heading, its tools on the right, a body.
export function section(id, title, note, tools) {
  const body = h("div", { class: "body" });
  const element = h("section", { id, "aria-labelledby": `${id}-title` },
    h("header", {}, h("div", {}, h("h2", { id: `${id}-title` }, title), note && h("p", { class: "note" }, note)),
      h("div", { class: "tools" }, tools)),
    body);
  return { element, body };
}

// A table that scrolls; `texts` are the columns with text, which is aligned left.
export function table(title, heads, texts, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
    h("table", { class: "results" }, h("thead", {}, h("tr", {}, heads.map((head, i) => h("th", { scope: "col", class: texts.includes(i) ? "text" : null }, head)))), h("tbody", {}, rows)));
}

// A table of columns of text. The first names the rows; spaces before a name indent it below another.
export function textTable(title, columns) {
  const name = (text) => h("th", { scope: "row", style: { "padding-left": `${8 + 8 * (text.length - text.trimStart().length)}px` } }, text.trimStart());
  const cell = (column, row, i) => (i === 0 && !column.right ? name(column.cells[row]) : h("td", { class: column.right ? null : "text" }, column.cells[row]));
  const rows = columns[0].cells.map((_, row) => h("tr", {}, columns.map((column, i) => cell(column, row, i))));
  return table(title, columns.map((one) => one.head), columns.map((one, i) => (one.right ? -1 : i)), rows);
}

export function empty(text) {
  return h("p", { class: "empty" }, prose(text));
}

// Text in which backticks enclose code.
export function prose(text) {
  const parts = String(text).split("`");
  return parts.length % 2 === 0 ? [text] : parts.map((part, i) => (i % 2 === 1 ? h("code", {}, part) : part));
}

// Switches between the themes and calls `draw`, also when the system's theme changes.
export function themeButton(draw) {
  const themes = ["system", "light", "dark"];
  const toggle = button("Theme: system", () => {
    themes.push(themes.shift());
    if (themes[0] === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = themes[0];
    toggle.textContent = `Theme: ${themes[0]}`;
    draw();
  }, { id: "theme" });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return toggle;
}

export function footer() {
  return h("footer", {}, h("p", {}, "Written by Ellwand. This file holds everything it shows and asks the network for nothing. Charts: Plotly.js (MIT)."));
}
