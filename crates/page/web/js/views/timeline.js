// The timeline by thread and device stream: zoom, pan, select a range or a span, with mouse or keyboard.
import { button, h, section } from "../base/dom.js";
import { colours, tokens } from "../base/color.js";
import { count, counted, label, time } from "../base/format.js";
import { save } from "../base/save.js";
import { on, state, update } from "../base/state.js";
import { entriesOf, withoutEntry } from "../calc/losses.js";
import { prepare, SvgContext } from "../draw/canvas.js";
import { AXIS, GUTTER, drawTimeline, hit, layout } from "../draw/lanes.js";
import { hideTip, showTip } from "../draw/tip.js";
import { drawMinimap, minimapHeight } from "../draw/minimap.js";
import { matcher } from "./table.js";
import { drawSpan, linkedWith, zoomTo } from "./span.js";

const NARROWEST = 1; // nanoseconds
const HELP = "Wheel or W S zooms · drag or A D moves · drag on the axis (or Shift-drag) selects a range · click a span to see it · Enter selects what is visible · Esc clears · Home shows all";

export function timelineView() {
  const tools = [
    button("Zoom in", () => zoom(0.5), { title: "W" }), button("Zoom out", () => zoom(2), { title: "S" }),
    button("All", () => update({ view: null }), { title: "Home" }),
    button("Select visible", () => update({ range: visible() }), { title: "Enter", id: "select-visible" }),
    button("SVG", () => exportSvg(), { "data-export": "svg" }),
  ];
  const { element, body } = section("timeline", "Timeline", HELP, tools);
  const map = h("canvas", { class: "minimap", "aria-hidden": "true" });
  const canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": `Timeline. ${HELP}` });
  const spacer = h("div");
  const frame = h("div", { class: "lanes" }, canvas, spacer);
  const details = h("div", { class: "span", id: "span", hidden: true });
  const some = h("p", { class: "note", id: "drawn", hidden: true });
  body.append(map, frame, some, details);
  const places = { of: null };
  const look = () => {
    const { profile } = state;
    if (places.of !== profile) Object.assign(places, { of: profile, ...layout(profile), names: profile.operations.map((one) => label(one.name, 60)) });
    const { test } = matcher(state.filter);
    const hidden = state.filter ? profile.operations.map((one) => !test(one.name)) : null;
    const chosen = state.operation;
    return {
      view: visible(), width: frame.clientWidth, height: Math.min(frame.clientHeight, places.height + AXIS), scroll: frame.scrollTop, places,
      paint: colours(profile), tokens: tokens(), names: places.names, range: state.range, span: state.span, linked: linkedWith(profile, state.span),
      dim: chosen >= 0 ? (op) => op !== chosen : hidden ? (op) => hidden[op] : null,
    };
  };
  const draw = () => {
    if (!state.profile || frame.clientWidth === 0) return;
    const now = look();
    frame.style.height = `${Math.min(places.height + AXIS, Math.max(240, innerHeight * 0.62))}px`;
    const height = frame.clientHeight;
    spacer.style.height = `${Math.max(0, places.height + AXIS - height)}px`;
    drawTimeline(prepare(canvas, now.width, height), state.profile, { ...now, height });
    drawMinimap(prepare(map, frame.clientWidth, minimapHeight), state.profile, now);
  };
  const exportSvg = () => {
    const now = look();
    const height = places.height + AXIS;
    const context = new SvgContext(now.width, height, now.tokens.panel);
    drawTimeline(context, state.profile, { ...now, height, scroll: 0 });
    save("timeline.svg", context.text(), "image/svg+xml");
  };
  on("profile range view operation span filter theme summary", draw);
  on("profile span", () => drawSpan(details));
  on("profile", () => {
    const n = entriesOf(state.profile);
    const missing = withoutEntry(state.profile);
    some.hidden = missing === 0;
    some.textContent = `Of ${counted(n + missing, "call")}, ${count(n)} are kept as spans and drawn here; the others were aggregated, so their places are unknown.`;
  });
  frame.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(frame);
  pointer(canvas, look);
  minimapPointer(map);
  canvas.addEventListener("keydown", (event) => key(event, look));
  return element;
}

function visible() {
  return state.view ?? [0, state.profile.wall];
}

function setView(from, to) {
  const { wall } = state.profile;
  const length = Math.min(wall, Math.max(NARROWEST, to - from));
  const start = Math.max(0, Math.min(wall - length, from));
  update({ view: length >= wall ? null : [start, start + length] });
}

function zoom(factor, around) {
  const [from, to] = visible();
  const at = around ?? (from + to) / 2;
  setView(at - (at - from) * factor, at + (to - at) * factor);
}

function pan(share) {
  const [from, to] = visible();
  setView(from + (to - from) * share, to + (to - from) * share);
}

function key(event, look) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = {
    w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.15), d: () => pan(0.15),
    ArrowUp: () => zoom(0.7), ArrowDown: () => zoom(1 / 0.7), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
    "+": () => zoom(0.7), "-": () => zoom(1 / 0.7), Home: () => update({ view: null }), Enter: () => update({ range: visible() }),
    Escape: () => update(state.span >= 0 || state.operation >= 0 ? { span: -1, operation: -1 } : { range: null }),
    n: () => step(1), p: () => step(-1),
  };
  const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act(look);
}

// The next or previous span of the selected lane and level; without a selection, the first one.
function step(direction) {
  const { profile, span } = state;
  if (profile.n === 0) return;
  const from = span < 0 ? -1 : span;
  const same = (i) => span < 0 || (profile.lane[i] === profile.lane[span] && profile.level[i] === profile.level[span]);
  for (let i = from + direction; i >= 0 && i < profile.n; i += direction) {
    if (!same(i)) continue;
    return update({ span: i, operation: profile.operation[i] });
  }
}

function pointer(canvas, look) {
  let drag = null;
  const timeAt = (px) => {
    const [from, to] = visible();
    return from + ((px - GUTTER) / (canvas.clientWidth - GUTTER)) * (to - from);
  };
  const clamp = (ns) => Math.max(0, Math.min(state.profile.wall, ns));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 1000);
    else zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) / 300), timeAt(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    const selects = event.shiftKey || event.offsetY < AXIS;
    drag = { x: event.offsetX, y: event.offsetY, moved: false, selects, view: visible(), from: clamp(timeAt(event.offsetX)) };
    hideTip();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return hover(event);
    if (!drag.moved && Math.hypot(event.offsetX - drag.x, event.offsetY - drag.y) < 4) return;
    drag.moved = true;
    if (drag.selects) {
      const to = clamp(timeAt(event.offsetX));
      if (to !== drag.from) update({ range: [Math.min(drag.from, to), Math.max(drag.from, to)] });
    } else {
      const shift = ((drag.x - event.offsetX) / (canvas.clientWidth - GUTTER)) * (drag.view[1] - drag.view[0]);
      setView(drag.view[0] + shift, drag.view[1] + shift);
    }
  });
  const up = (event) => {
    if (drag && !drag.moved && event.type === "pointerup") click(event);
    drag = null;
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", (event) => {
    const i = hit(state.profile, look(), event.offsetX, event.offsetY);
    if (i >= 0) zoomTo(state.profile, i);
  });
  const click = (event) => {
    canvas.focus({ preventScroll: true });
    if (event.offsetY < AXIS) return update({ range: null });
    const i = hit(state.profile, look(), event.offsetX, event.offsetY);
    update({ span: i, operation: i < 0 ? -1 : state.profile.operation[i] });
  };
  const hover = (event) => {
    const { profile } = state;
    const i = hit(profile, look(), event.offsetX, event.offsetY);
    canvas.style.cursor = event.offsetY < AXIS ? "col-resize" : i >= 0 ? "pointer" : "grab";
    if (i < 0) return hideTip();
    const own = profile.duration[i];
    showTip(event.clientX, event.clientY, [
      label(profile.operations[profile.operation[i]].name, 90),
      ["duration", own === own ? time(own, 4) : "open"], ["start", time(profile.start[i], 6)], ["lane", label(profile.lanes[profile.lane[i]].name, 40)],
    ]);
  };
}

// The overview: a drag moves the visible part.
function minimapPointer(map) {
  const move = (event) => {
    if (event.buttons === 0) return;
    const [from, to] = visible();
    const at = ((event.offsetX - GUTTER) / (map.clientWidth - GUTTER)) * state.profile.wall;
    setView(at - (to - from) / 2, at + (to - from) / 2);
  };
  map.addEventListener("pointerdown", (event) => {
    map.setPointerCapture(event.pointerId);
    move(event);
  });
  map.addEventListener("pointermove", move);
}
