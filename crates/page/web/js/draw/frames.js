// Draws a tree of frames as a flame graph, root at the top (or at the bottom for callers). Frames narrower than half a
// pixel are omitted, with everything below them.
import { label } from "../base/format.js";
import { fitted } from "./canvas.js";

export const FRAME = 20;

// Boxes of the visible frames: a list of {frame, x, y, w}; `zoom` is the frame that fills the width.
export function place(root, zoom, width, up, widthOf = (frame) => frame.value) {
  const boxes = [];
  const path = pathTo(root, zoom);
  path.slice(0, -1).forEach((frame, level) => boxes.push({ frame, x: 0, w: width, level, above: true }));
  const scale = widthOf(zoom) > 0 ? width / widthOf(zoom) : 0;
  const work = [{ frame: zoom, x: 0, level: path.length - 1 }];
  let deepest = path.length - 1;
  while (work.length > 0) {
    const { frame, x, level } = work.pop();
    const w = widthOf(frame) * scale;
    if (w < 0.5) continue;
    boxes.push({ frame, x, w, level });
    deepest = Math.max(deepest, level);
    let at = x;
    for (const child of frame.children) {
      const childWidth = widthOf(child) * scale;
      if (childWidth >= 0.5) work.push({ frame: child, x: at, level: level + 1 });
      at += childWidth;
    }
  }
  const height = (deepest + 1) * FRAME;
  for (const box of boxes) box.y = up ? height - (box.level + 1) * FRAME : box.level * FRAME;
  return { boxes, height };
}

// Frames from the root to one of its descendants.
export function pathTo(root, wanted) {
  const parents = new Map();
  const work = [root];
  while (work.length > 0) {
    const frame = work.pop();
    if (frame === wanted) break;
    for (const child of frame.children) {
      parents.set(child, frame);
      work.push(child);
    }
  }
  const path = [];
  for (let at = wanted; at; at = parents.get(at)) path.push(at);
  return path.reverse();
}

// `look` holds width, tokens, colour(frame), dim(frame), marked (a frame).
export function drawFrames(context, boxes, top, look) {
  const { tokens: t } = look;
  context.textBaseline = "middle";
  context.textAlign = "left";
  context.font = `12px ${t.font}`;
  for (const box of boxes) {
    const y = top + box.y;
    const root = box.frame.op < 0;
    context.globalAlpha = box.above ? 0.45 : look.dim?.(box.frame) ? 0.22 : 1;
    context.fillStyle = root ? t.line : look.colour(box.frame);
    context.fillRect(box.x, y, Math.max(0.6, box.w - (box.w > 3 ? 1 : 0)), FRAME - 1);
    if (box.w > 34) {
      context.fillStyle = root ? t.text : t.ink;
      context.fillText(fitted(context, root ? look.root : label(box.frame.name, 100), box.w - 10), box.x + 5, y + FRAME / 2);
    }
    context.globalAlpha = 1;
    if (box.frame === look.marked) {
      context.strokeStyle = t.text;
      context.lineWidth = 2;
      context.strokeRect(box.x + 1, y, Math.max(2, box.w - 2), FRAME - 2);
    }
  }
}

export function frameAt(boxes, x, y) {
  return boxes.find((box) => x >= box.x && x < box.x + Math.max(1, box.w) && y >= box.y && y < box.y + FRAME)?.frame ?? null;
}
