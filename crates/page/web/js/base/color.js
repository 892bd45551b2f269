// Colours that people with any colour vision can distinguish (Okabe and Ito), and their meanings.

// Blue, orange, green, purple, sky, vermilion, yellow; the rest of the operations share grey.
const LIGHT = ["#4f94c4", "#e69f00", "#2fa884", "#cc79a7", "#7cc4ee", "#dd7a3c", "#e3d64a"];
const DARK = ["#3f83b5", "#c98b06", "#1f9472", "#b56893", "#5aa9d6", "#c5662b", "#b9ad31"];
const REST = { light: "#b8bec7", dark: "#66707d" };

export const PARTS = {
  cpu: ["CPU", "#4f94c4"],
  "not-measured": ["CPU or waiting, not measured", "#93bcd9"],
  device: ["Device", "#e69f00"],
  transfer: ["Transfer", "#2fa884"],
  wait: ["Waiting", "#a9b0ba"],
  launch: ["Launch", "#cc79a7"],
  compile: ["Compile", "#e3d64a"],
  allocation: ["Allocation", "#dd7a3c"],
  instrumentation: ["Instrumentation", "#6b5fa8"],
  unexplained: ["Unexplained", "#dde1e6"],
};

export function dark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// The colour of each operation; the largest by self time get separate colours.
export function colours(profile) {
  const night = dark();
  const palette = night ? DARK : LIGHT;
  return profile.rank.map((rank) => palette[rank] ?? (night ? REST.dark : REST.light));
}

export function part(key) {
  if (key === "unexplained") return dark() ? "#3a414b" : PARTS[key][1];
  return PARTS[key]?.[1] ?? REST.light;
}

// Values of the style sheet that canvases and charts also use.
export function tokens() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    text: of("text"), muted: of("muted"), faint: of("faint"), line: of("line"), panel: of("panel"),
    accent: of("accent"), back: of("back"), warn: of("warn"), font: of("font"), ink: of("ink"),
  };
}

// From faster (blue) over grey to slower (orange); the change is a share from -1 to 1.
export function difference(change) {
  const night = dark();
  const middle = night ? [74, 82, 92] : [222, 226, 231];
  const end = change < 0 ? [60, 135, 190] : [221, 122, 60];
  const weight = Math.min(1, Math.sqrt(Math.abs(change)));
  return `rgb(${middle.map((from, i) => Math.round(from + (end[i] - from) * weight)).join(" ")})`;
}
