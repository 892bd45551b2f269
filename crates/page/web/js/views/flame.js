// Flame graphs of the range: left heavy, in time order, sandwich (callers and callees), and the difference of two
// profiles.
import { button, choice, empty, h, replace, section, select } from "../base/dom.js";
import { colours, difference as differenceColour, tokens } from "../base/color.js";
import { count, counted, label, percent, ratio, time } from "../base/format.js";
import { csv, save } from "../base/save.js";
import { on, state, update } from "../base/state.js";
import { difference, leftHeavy, sandwich, timeOrder } from "../calc/tree.js";
import { prepare, SvgContext } from "../draw/canvas.js";
import { drawFrames, frameAt, FRAME, pathTo, place } from "../draw/frames.js";
import { hideTip, showTip } from "../draw/tip.js";
import { matcher } from "./table.js";

const NOTES = {
  left: "Calls of one path together, the largest first. Click a frame to enlarge it; Backspace or a click on a pale frame goes back.",
  order: "Calls in the order of time; equal neighbours are merged. Gaps between calls are not drawn.",
  sandwich: "Above, who calls the selected operation; below, what it calls.",
  difference: "This profile (B), coloured by its change from A: blue is faster, orange is slower, outlined frames are new.",
  shares: "This profile (B), coloured by the change of shares of the run from A: blue is a smaller share, orange a larger one, outlined frames are new.",
};

export function flameView() {
  const lanes = h("span");
  const scaling = h("span");
  const modes = h("span");
  const tools = [modes, lanes, scaling, button("SVG", () => exportSvg(), { "data-export": "svg" }), button("CSV", () => exportCsv(), { "data-export": "csv" })];
  const { element, body } = section("flame", "Flame graph", " ", tools);
  const note = element.querySelector(".note");
  const canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": "Flame graph. Arrow keys move between frames, Enter enlarges, Backspace goes back." });
  const after = h("div");
  const hollow = h("div");
  body.append(hollow, canvas, after);
  let dirty = false;
  const flame = { lane: -1, relative: true, trees: [], zoom: new Map(), marked: null, boxes: [], gone: [] };

  const explain = () => {
    const linked = state.profile?.link?.some((one) => one !== 0) && ["left", "order"].includes(state.flame);
    const elsewhere = linked ? " Work that a call started on another lane is a tree there, not below the call." : "";
    note.textContent = NOTES[state.flame === "difference" && flame.relative ? "shares" : state.flame] + elsewhere;
  };
  const controls = () => {
    const { profile, other } = state;
    const options = [["left", "Left heavy"], ["order", "Time order"], ["sandwich", "Sandwich"], ...(other ? [["difference", "Difference"]] : [])];
    replace(modes, choice("Kind of flame graph", options, state.flame, (mode) => update({ flame: mode })));
    const busy = profile.lanes.map((lane, i) => [i, label(lane.name, 24)]).filter(([i]) => profile.levels[i] > 0).slice(0, 200);
    replace(lanes, state.flame !== "sandwich" && state.flame !== "difference" && busy.length > 1 && select("Lane", [[-1, "All lanes"], ...busy], flame.lane, (lane) => {
      flame.lane = Number(lane);
      rebuild();
    }));
    replace(scaling, state.flame === "difference" && choice("Compare", [["relative", "Share of run"], ["absolute", "Time"]], flame.relative ? "relative" : "absolute", (one) => {
      flame.relative = one === "relative";
      explain();
      draw();
    }));
    explain();
  };
  const rebuild = () => {
    const { profile, other } = state;
    if (!profile) return;
    if (state.flame === "difference" && !other) return update({ flame: "left" });
    const range = state.range ?? [0, profile.wall];
    if (flame.lane >= profile.lanes.length) flame.lane = -1;
    flame.zoom.clear();
    flame.marked = null;
    flame.gone = [];
    if (state.flame === "left") flame.trees = [[leftHeavy(profile, range, flame.lane), false]];
    else if (state.flame === "order") flame.trees = [[timeOrder(profile, range, flame.lane), false]];
    else if (state.flame === "difference") {
      const { root, gone } = difference(other, profile);
      flame.trees = [[root, false]];
      flame.gone = gone;
    } else if (state.operation < 0) flame.trees = [];
    else {
      const { callers, callees } = sandwich(profile, range, state.operation);
      flame.trees = [[callers, true], [callees, false]];
    }
    draw();
  };
  const draw = () => render(flame, canvas, hollow, after);
  const exportSvg = () => {
    if (dirty) dirty = Boolean(rebuild());
    if (flame.trees.length === 0) return;
    const width = canvas.clientWidth || 960;
    const { boxes, height } = arrange(flame, width);
    const context = new SvgContext(width, height, tokens().panel);
    drawFrames(context, boxes, 0, look(flame));
    save("flame.svg", context.text(), "image/svg+xml");
  };
  const exportCsv = () => {
    if (dirty) dirty = Boolean(rebuild());
    const rows = [];
    for (const [root] of flame.trees) {
      const work = [[root, []]];
      while (work.length > 0) {
        const [frame, path] = work.pop();
        if (frame.op >= 0) rows.push([[...path, frame.name].join(";"), frame.calls, frame.value, frame.self]);
        for (const child of frame.children) work.push([child, frame.op < 0 ? path : [...path, frame.name]]);
      }
    }
    save("flame.csv", csv(["path", "calls", "total_ns", "self_ns"], rows), "text/csv");
  };

  // Controls that do not depend on the changed parts are not rebuilt: the tree of a million spans takes a while.
  on("profile other flame", controls);
  // Nor is a graph that is out of view.
  let near = false;
  const soon = () => {
    dirty = true;
    if (near) dirty = Boolean(rebuild());
  };
  new IntersectionObserver(([{ isIntersecting }]) => {
    near = isIntersecting;
    if (near && dirty) soon();
  }, { rootMargin: "400px" }).observe(element);
  on("profile other range flame", soon);
  on("operation", () => (state.flame === "sandwich" ? soon() : near && draw()));
  on("filter theme", () => near && draw());
  new ResizeObserver(() => near && draw()).observe(body);
  addEventListener("beforeprint", () => dirty && (dirty = Boolean(rebuild())));
  interact(flame, canvas, draw);
  return element;
}

function arrange(flame, width) {
  const boxes = [];
  let height = 0;
  for (const [root, up] of flame.trees) {
    const placed = place(root, flame.zoom.get(root) ?? root, width, up);
    for (const box of placed.boxes) boxes.push({ ...box, y: box.y + height, root });
    height += placed.height + (up ? 3 : 0);
  }
  return { boxes, height };
}

function look(flame) {
  const { profile } = state;
  const paint = colours(profile);
  const { test } = matcher(state.filter);
  const chosen = state.operation;
  const root = flame.trees[0]?.[0];
  const change = (frame) => {
    if (frame.base === null) return 1;
    const [now, before] = flame.relative ? [frame.value / root.value, frame.base / root.base] : [frame.value, frame.base];
    return before > 0 || now > 0 ? (now - before) / Math.max(now, before) : 0;
  };
  const differs = state.flame === "difference";
  return {
    tokens: tokens(), marked: flame.marked, change, root: `all · ${time(root?.value ?? 0)}`,
    colour: differs ? (frame) => differenceColour(change(frame)) : (frame) => paint[frame.op],
    dim: state.filter ? (frame) => !test(frame.name) : chosen >= 0 && !differs && state.flame !== "sandwich" ? (frame) => frame.op !== chosen : null,
  };
}

function render(flame, canvas, hollow, after) {
  const { profile } = state;
  if (!profile || canvas.parentElement.clientWidth === 0) return;
  const why = state.flame === "sandwich" && state.operation < 0
    ? "Select an operation in the table, the timeline or another flame graph to see who calls it and what it calls."
    : flame.trees[0]?.[0].value > 0 ? null : "No time in this range. Press Esc in the timeline to clear the range.";
  replace(hollow, why && empty(why));
  canvas.hidden = Boolean(why);
  replace(after);
  if (why) return;
  const width = canvas.parentElement.clientWidth;
  const { boxes, height } = arrange(flame, width);
  flame.boxes = boxes;
  drawFrames(prepare(canvas, width, Math.min(height, 4000)), boxes, 0, look(flame));
  if (flame.gone.length > 0) {
    replace(after, h("h3", {}, "Only in A"), h("ul", { class: "gone" }, flame.gone.slice(0, 12).map((one) =>
      h("li", {}, one.path.map((name) => label(name, 40)).join(" › "), h("span", { class: "note" }, ` ${time(one.value)}, ${counted(one.calls, "call")}`)))));
  }
}

function describe(flame, frame, root) {
  const share = root.value > 0 ? frame.value / root.value : 0;
  const lines = [frame.op < 0 ? "all" : label(frame.name, 90), ["total", `${time(frame.value, 4)} (${percent(share)})`], ["self", time(frame.self, 4)], ["calls", count(frame.calls)]];
  if (state.flame === "difference") {
    if (frame.base === null) lines.push("not in A");
    else if (frame.base !== undefined) lines.push(["in A", time(frame.base, 4)], ["B / A", ratio(frame.value / frame.base)]);
  }
  return lines;
}

function interact(flame, canvas, draw) {
  const rootOf = (frame) => flame.boxes.find((box) => box.frame === frame)?.root;
  const enlarge = (frame) => {
    const root = rootOf(frame);
    if (root) flame.zoom.set(root, frame);
    draw();
  };
  canvas.addEventListener("pointermove", (event) => {
    const frame = frameAt(flame.boxes, event.offsetX, event.offsetY);
    canvas.style.cursor = frame ? "pointer" : "default";
    if (frame) showTip(event.clientX, event.clientY, describe(flame, frame, rootOf(frame)));
    else hideTip();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", (event) => {
    const frame = frameAt(flame.boxes, event.offsetX, event.offsetY);
    if (!frame) return;
    flame.marked = frame;
    enlarge(frame);
    if (frame.op >= 0 && state.flame !== "sandwich") update({ operation: frame.op, span: -1 });
  });
  canvas.addEventListener("keydown", (event) => {
    const boxes = flame.boxes;
    const at = boxes.find((box) => box.frame === flame.marked) ?? boxes[0];
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    const near = (level, x) => boxes.filter((box) => box.root === at.root && box.level === level).sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x))[0];
    const row = boxes.filter((box) => box.root === at.root && box.level === at.level).sort((a, b) => a.x - b.x);
    const beside = (step) => row[row.indexOf(at) + step];
    const moves = { ArrowDown: () => near(at.level + 1, at.x), ArrowUp: () => near(at.level - 1, at.x), ArrowLeft: () => beside(-1), ArrowRight: () => beside(1) };
    if (moves[event.key]) flame.marked = (moves[event.key]() ?? at).frame;
    else if (event.key === "Enter") return event.preventDefault(), enlarge(at.frame);
    else if (event.key === "Backspace" || event.key === "Escape") {
      const zoom = flame.zoom.get(at.root) ?? at.root;
      flame.zoom.set(at.root, event.key === "Escape" ? at.root : (pathTo(at.root, zoom).at(-2) ?? at.root));
    } else return;
    event.preventDefault();
    draw();
    const marked = flame.boxes.find((box) => box.frame === flame.marked);
    const box = canvas.getBoundingClientRect();
    if (marked) showTip(box.left + marked.x + 8, box.top + marked.y + FRAME, describe(flame, marked.frame, marked.root));
  });
  canvas.addEventListener("blur", hideTip);
}
