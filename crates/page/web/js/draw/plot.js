// Ordinary charts, drawn by Plotly.js, which is unpacked shortly before the first chart comes into view.
import { tokens } from "../base/color.js";
import { h } from "../base/dom.js";
import { embedded, inflate, text } from "../data/inflate.js";

let library = null;

function plotly() {
  library ??= (async () => {
    const bytes = embedded("charts");
    if (!bytes) throw new Error("the page holds no charting library");
    const script = document.createElement("script");
    // The security policy allows exactly this text, by its hash.
    script.textContent = text(await inflate(bytes, "deflate-raw"));
    document.head.append(script);
    if (!window.Plotly) throw new Error("the charting library did not start");
    // The margins around the labels of a pie may oscillate by a pixel, about which Plotly warns; errors are thrown all
    // the same.
    window.Plotly.setPlotConfig({ logging: 0 });
    return window.Plotly;
  })();
  return library;
}

const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false, showTips: false };

function layoutOf(layout) {
  const t = tokens();
  const axis = { gridcolor: t.line, zerolinecolor: t.line, linecolor: t.line, tickcolor: t.line, automargin: true, tickfont: { color: t.muted }, title: { font: { color: t.muted, size: 12 }, standoff: 8 } };
  const merged = {
    font: { family: t.font, size: 12, color: t.text }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 12, t: 8, b: 8, pad: 4 }, showlegend: false, bargap: 0.35, hoverlabel: { bgcolor: t.panel, bordercolor: t.line, font: { color: t.text, family: t.font } },
    // Above the chart, because tick labels rotated on a narrow screen would run into a legend below it.
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal", font: { size: 12 } }, ...layout,
  };
  for (const key of Object.keys(layout).filter((one) => /^[xy]axis/.test(one)).concat(["xaxis", "yaxis"])) {
    const own = layout[key] ?? {};
    merged[key] = { ...axis, ...own, title: { ...axis.title, ...(typeof own.title === "string" ? { text: own.title } : own.title) } };
  }
  return merged;
}

// A layout that suits the width: Plotly cuts off long titles, its given labels may overlap, and row labels may leave no
// room for the plot.
function fitted(layout, width) {
  if (!(width > 0)) return layout;
  const { xaxis } = layout;
  const yaxis = layout.yaxis.ticktext ? { ...layout.yaxis, ticktext: layout.yaxis.ticktext.map((text) => broken(text, width / 3)) } : layout.yaxis;
  const lines = (yaxis.ticktext ?? []).flatMap((text) => text.split("<br>"));
  const plot = width - 7 * Math.max(6, ...lines.map((line) => line.length)) - 40;
  return { ...layout, yaxis, xaxis: { ...xaxis, ...thinned(xaxis, plot), title: { ...xaxis.title, text: broken(xaxis.title.text ?? "", plot) } } };
}

function broken(text, width) {
  const longest = Math.max(16, Math.floor(width / 6.5));
  return text.split(" ").reduce((lines, word) => {
    const last = lines.length - 1;
    if (last >= 0 && lines[last].length + word.length < longest) lines[last] += ` ${word}`;
    else lines.push(word);
    return lines;
  }, []).join("<br>");
}

// The given ticks of a logarithmic axis that are in its range and whose labels do not touch the previous one.
function thinned({ type, range, tickvals, ticktext }, width) {
  if (type !== "log" || !tickvals) return {};
  const at = tickvals.map(Math.log10);
  const [low, high] = range ?? [Math.min(...at), Math.max(...at)];
  let free = -Infinity;
  const kept = at.map((_, i) => i).filter((i) => {
    const half = (7 * ticktext[i].length + 8) / 2;
    const middle = ((at[i] - low) / (high - low)) * width;
    if (at[i] < low || at[i] > high || middle - half < free) return false;
    free = middle + half;
    return true;
  });
  return { tickvals: kept.map((i) => tickvals[i]), ticktext: kept.map((i) => ticktext[i]) };
}

const waiting = new Map();
const watcher = new IntersectionObserver((seen) => {
  for (const one of seen) if (one.isIntersecting) draw(one.target);
}, { rootMargin: "600px" });

// A chart that is drawn when it comes near the view. `make` returns {data, layout}; `note` describes it in words.
export class Chart {
  constructor(note, height = 260) {
    this.box = h("div", { class: "chart", role: "img", "aria-label": note, style: { height: `${height}px` } });
    this.box.chart = this;
  }

  set(data, layout) {
    waiting.set(this.box, { data, layout: layoutOf(layout) });
    // Charts out of sight wait, so that a new range is shown at once.
    if (this.drawn && near(this.box)) draw(this.box);
    else watcher.observe(this.box);
  }
}

function near(box) {
  const { top, bottom } = box.getBoundingClientRect();
  return box.isConnected && bottom > -600 && top < innerHeight + 600;
}

// Before printing there is no time to wait: immediately draws what is not drawn yet, if the library is loaded.
export function drawForPrint() {
  for (const [box, { data, layout }] of waiting) {
    if (!window.Plotly || !box.isConnected) continue;
    waiting.delete(box);
    window.Plotly.react(box, data, fitted(layout, box.clientWidth), CONFIG);
    box.chart.drawn = true;
    box.dataset.drawn = "yes";
  }
}

async function draw(box) {
  const next = waiting.get(box);
  if (!next) return;
  waiting.delete(box);
  watcher.unobserve(box);
  try {
    const lib = await plotly();
    // Keyed by the box: a later set() while the library loads wins.
    if (waiting.has(box)) return draw(box);
    await lib.react(box, next.data, fitted(next.layout, box.clientWidth), CONFIG);
    box.chart.drawn = true;
    box.dataset.drawn = "yes";
  } catch (error) {
    box.textContent = `This chart cannot be drawn: ${error.message}`;
  }
}

// Draws every chart now; print and export need those that have not been in view.
export async function drawAll() {
  await Promise.all([...waiting.keys()].filter((box) => box.isConnected).map(draw));
}

export async function chartSvg(chart) {
  await drawAll();
  const lib = await plotly();
  const { width, height } = chart.box.getBoundingClientRect();
  const url = await lib.toImage(chart.box, { format: "svg", width, height });
  return decodeURIComponent(url.slice(url.indexOf(",") + 1));
}
