// Draws the lanes of a timeline. Spans narrower than a pixel are merged, so the cost depends on the pixels, not on the
// number of spans.
import { label, quantity } from "../base/format.js";
import { thin } from "../calc/memory.js";
import { lowerBound } from "../calc/select.js";
import { clipTo, fitted } from "./canvas.js";
import { tickLabel, ticks } from "./ticks.js";

export const GUTTER = 132;
export const AXIS = 26;
const ROW = 17;
const GAP = 12;
const TRACK = 44;
const DEEPEST = 40;

// The position of each lane, from the top of the content.
export function layout(profile) {
  let height = 6;
  const below = (place) => {
    const y = height;
    height += place.height + GAP;
    return { ...place, y };
  };
  const lanes = profile.lanes.map((lane, number) => {
    const levels = Math.min(DEEPEST, profile.levels[number]);
    return { number, lane, levels, hidden: profile.levels[number] - levels, height: Math.max(1, levels) * ROW };
  }).filter(({ levels }) => levels > 0 || profile.lanes.length <= 40).map(below);
  const tracks = profile.tracks.map((track) => below({ track, height: TRACK }));
  return { lanes, tracks, height };
}

// First entry of a row that ends after `time`; rows are sorted and do not overlap.
function firstAfter(row, end, time) {
  return lowerBound(row.length, (i) => end[row[i]] <= time);
}

// `look` holds view, width, height, scroll, places, paint, tokens, operation, span, range, matches.
export function drawTimeline(context, profile, look) {
  const { width, height, view, scroll, places, tokens: t } = look;
  const scale = (width - GUTTER) / (view[1] - view[0]);
  const x = (time) => GUTTER + (time - view[0]) * scale;
  context.fillStyle = t.panel;
  context.fillRect(0, 0, width, height);
  context.textBaseline = "middle";
  const marks = ticks(view, (width - GUTTER) / 110);
  context.fillStyle = t.line;
  for (const tick of marks.list) context.fillRect(Math.round(x(tick)), AXIS, 1, height - AXIS);
  clipTo(context, 0, AXIS, width, height - AXIS);
  for (const place of places.lanes) {
    const y = AXIS + place.y - scroll;
    if (y > height || y + place.height < AXIS) continue;
    laneName(context, place, y, look);
    clipTo(context, GUTTER, AXIS, width - GUTTER, height - AXIS);
    for (let level = 0; level < place.levels; level++) {
      drawRow(context, profile, profile.rowsOf(place.number, level), y + level * ROW, look, x, scale);
    }
    if (place.hidden > 0) {
      context.fillStyle = t.muted;
      context.font = `11px ${t.font}`;
      context.textAlign = "left";
      context.fillText(`${place.hidden} deeper levels are not drawn; the flame graph shows them`, GUTTER + 4, y + place.height + 5);
    }
    context.restore();
  }
  for (const place of places.tracks) drawTrack(context, profile, place, look, x);
  context.restore();
  drawLinks(context, profile, look, x);
  drawRange(context, look, x);
  axis(context, marks, look, x);
}

function laneName(context, place, y, { tokens: t, width }) {
  context.fillStyle = t.line;
  context.fillRect(0, y - GAP / 2, width, 1);
  context.textAlign = "left";
  context.font = `600 12px ${t.font}`;
  context.fillStyle = t.text;
  context.fillText(fitted(context, label(place.lane.name, 60), GUTTER - 18), 10, y + ROW / 2);
  if (place.lane.device && place.levels > 1) {
    context.font = `11px ${t.font}`;
    context.fillStyle = t.muted;
    context.fillText(fitted(context, label(place.lane.device, 40), GUTTER - 18), 10, y + ROW * 1.5);
  }
}

function drawRow(context, profile, row, y, look, x, scale) {
  const { start, end, operation, duration } = profile;
  const { view, paint, tokens: t, span, dim } = look;
  const names = look.names;
  const right = look.width;
  context.font = `11px ${t.font}`;
  context.textAlign = "left";
  let at = firstAfter(row, end, view[0]);
  while (at < row.length) {
    const i = row[at];
    if (start[i] > view[1]) break;
    const left = Math.max(GUTTER, x(start[i]));
    const until = Math.min(right, x(end[i]));
    const wide = until - left;
    context.globalAlpha = dim && dim(operation[i]) ? 0.22 : 1;
    context.fillStyle = paint[operation[i]];
    if (wide < 1) {
      // The next pixel begins with the first span that ends in it or later.
      const pixel = Math.floor(left);
      context.fillRect(pixel, y, 1, ROW - 2);
      const next = view[0] + (pixel + 1 - GUTTER) / scale;
      const skipped = firstAfter(row, end, next);
      at = Math.max(at + 1, skipped);
      continue;
    }
    context.fillRect(left, y, Math.max(1, wide - (wide > 3 ? 0.75 : 0)), ROW - 2);
    if (duration[i] !== duration[i]) openEnd(context, until, y, t);
    if (wide > 30) {
      context.fillStyle = t.ink;
      context.fillText(fitted(context, names[operation[i]], wide - 8), left + 4, y + ROW / 2 - 0.5);
    }
    if (i === span) {
      context.strokeStyle = t.text;
      context.lineWidth = 2;
      context.strokeRect(left, y - 0.5, Math.max(2, wide), ROW - 1);
    }
    at++;
  }
  context.globalAlpha = 1;
}

// A span that had not ended is drawn with a ragged edge.
function openEnd(context, x, y, t) {
  context.fillStyle = t.panel;
  for (let i = 0; i < 3; i++) {
    context.beginPath();
    context.moveTo(x + 1, y + i * 5);
    context.lineTo(x - 4, y + i * 5 + 2.5);
    context.lineTo(x + 1, y + i * 5 + 5);
    context.closePath();
    context.fill();
  }
}

function drawTrack(context, profile, place, look, x) {
  const { tokens: t, width, view } = look;
  const y = AXIS + place.y - look.scroll;
  const { track } = place;
  if (y > look.height || y + place.height < AXIS || track.at_ns.length === 0) return;
  place.thin ??= thin(track, 4000);
  place.most ??= place.thin.y.reduce((most, value) => Math.max(most, value), 0);
  context.fillStyle = t.line;
  context.fillRect(0, y - GAP / 2, width, 1);
  context.font = `600 12px ${t.font}`;
  context.textAlign = "left";
  context.fillStyle = t.text;
  context.fillText(fitted(context, label(track.name, 40), GUTTER - 18), 10, y + 9);
  context.font = `11px ${t.font}`;
  context.fillStyle = t.muted;
  context.fillText(place.most > 0 ? `up to ${quantity(place.most, track.unit)}` : "at most 0", 10, y + 25);
  clipTo(context, GUTTER, AXIS, width - GUTTER, look.height - AXIS);
  const base = y + place.height;
  const height = (value) => base - (value / (place.most || 1)) * (place.height - 4);
  const { x: times, y: values } = place.thin;
  context.beginPath();
  context.moveTo(Math.max(GUTTER, x(times[0])), base);
  for (let i = 0; i < times.length; i++) {
    const until = times[i + 1] ?? profile.wall;
    if (until < view[0] || times[i] > view[1]) continue;
    context.lineTo(Math.max(GUTTER, x(times[i])), height(values[i]));
    context.lineTo(Math.min(width, x(until)), height(values[i]));
  }
  context.lineTo(Math.min(width, x(profile.wall)), base);
  context.closePath();
  context.globalAlpha = 0.45;
  context.fillStyle = t.accent;
  context.fill();
  context.globalAlpha = 1;
  context.restore();
}

// The box in which an entry is drawn; null if its row is not drawn.
export function boxOf(profile, look, i, x) {
  const place = look.places.lanes.find((one) => one.number === profile.lane[i]);
  if (!place || profile.level[i] >= place.levels) return null;
  return { left: x(profile.start[i]), right: x(profile.end[i]), y: AXIS + place.y - look.scroll + profile.level[i] * ROW + ROW / 2 };
}

// Curves from the cause of the selected span to its effects.
function drawLinks(context, profile, look, x) {
  const { linked, tokens: t } = look;
  if (!linked || linked.length < 2) return;
  clipTo(context, GUTTER, AXIS, look.width - GUTTER, look.height - AXIS);
  const from = boxOf(profile, look, linked[0], x);
  context.strokeStyle = t.text;
  context.lineWidth = 1.25;
  for (const i of linked.slice(1)) {
    const to = boxOf(profile, look, i, x);
    if (!from || !to) continue;
    const [x0, x1] = [Math.min(from.right, Math.max(from.left, from.left + 2)), to.left];
    const bend = Math.max(24, Math.abs(x1 - x0) / 3);
    context.beginPath();
    context.moveTo(x0, from.y);
    context.bezierCurveTo(x0 + bend, from.y, x1 - bend, to.y, x1, to.y);
    context.stroke();
  }
  context.restore();
}

function drawRange(context, { range, tokens: t, width, height }, x) {
  if (!range) return;
  const [left, right] = [Math.max(GUTTER, x(range[0])), Math.min(width, x(range[1]))];
  context.fillStyle = t.back;
  context.globalAlpha = 0.55;
  if (left > GUTTER) context.fillRect(GUTTER, AXIS, Math.min(left, width) - GUTTER, height - AXIS);
  if (right < width) context.fillRect(Math.max(right, GUTTER), AXIS, width - Math.max(right, GUTTER), height - AXIS);
  context.globalAlpha = 1;
  context.fillStyle = t.accent;
  for (const edge of [x(range[0]), x(range[1])]) if (edge >= GUTTER && edge <= width) context.fillRect(Math.round(edge) - 1, 0, 2, height);
}

function axis(context, marks, { view, width, tokens: t, range }, x) {
  context.fillStyle = t.panel;
  context.fillRect(0, 0, width, AXIS);
  if (range) {
    context.fillStyle = t.accent;
    context.globalAlpha = 0.25;
    const left = Math.max(GUTTER, x(range[0]));
    context.fillRect(left, 0, Math.max(0, Math.min(width, x(range[1])) - left), AXIS);
    context.globalAlpha = 1;
  }
  context.font = `11px ${t.font}`;
  context.fillStyle = t.muted;
  context.textAlign = "left";
  for (const tick of marks.list) {
    const at = Math.round(x(tick));
    if (at > width - 34) continue;
    context.fillText(tickLabel(tick, marks.step, view[1]), at + 4, AXIS / 2);
    context.fillRect(at, AXIS - 6, 1, 6);
  }
  context.fillStyle = t.line;
  context.fillRect(0, AXIS - 1, width, 1);
}

// The entry at a point, or -1.
export function hit(profile, look, px, py) {
  if (px < GUTTER || py < AXIS) return -1;
  const y = py - AXIS + look.scroll;
  const place = look.places.lanes.find((one) => y >= one.y && y < one.y + one.levels * ROW);
  if (!place) return -1;
  const scale = (look.width - GUTTER) / (look.view[1] - look.view[0]);
  const row = profile.rowsOf(place.number, Math.floor((y - place.y) / ROW));
  // One pixel to both sides, so that thin spans can be hit.
  const [from, to] = [px - 1, px + 1].map((one) => look.view[0] + (one - GUTTER) / scale);
  const at = firstAfter(row, profile.end, from);
  return at < row.length && profile.start[row[at]] <= to ? row[at] : -1;
}
