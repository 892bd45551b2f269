// The whole recording in a strip: how busy each lane is, and which part is visible.
import { GUTTER } from "./lanes.js";
import { laneBounds } from "../calc/sweep.js";

export const minimapHeight = 34;
const CELLS = 480;

// For each cell of time, the share that outermost spans of any lane cover, from 0 to 1.
function density(profile) {
  if (profile.density) return profile.density;
  const cells = new Float64Array(CELLS);
  const size = profile.wall / CELLS;
  let lanes = 0;
  for (let lane = 0; lane < profile.lanes.length; lane++) {
    const [first, last] = laneBounds(profile, lane);
    if (first === last) continue;
    lanes++;
    for (let i = first; i < last; i++) {
      if (profile.parent[i] >= 0) continue;
      const [from, to] = [Math.max(0, profile.start[i]), Math.min(profile.wall, profile.end[i])];
      for (let cell = Math.floor(from / size); cell < CELLS && cell * size < to; cell++) {
        cells[cell] += (Math.min(to, (cell + 1) * size) - Math.max(from, cell * size)) / size;
      }
    }
  }
  profile.density = cells.map((cell) => Math.min(1, cell / Math.max(1, lanes)));
  return profile.density;
}

export function drawMinimap(context, profile, { width, view, range, tokens: t }) {
  const x = (time) => GUTTER + (time / profile.wall) * (width - GUTTER);
  const cell = (width - GUTTER) / CELLS;
  context.fillStyle = t.accent;
  context.globalAlpha = 0.45;
  density(profile).forEach((share, i) => {
    const height = share > 0 ? Math.max(1, share * (minimapHeight - 8)) : 0;
    context.fillRect(GUTTER + i * cell, minimapHeight - 2 - height, Math.max(0.6, cell - 0.3), height);
  });
  context.globalAlpha = 1;
  context.fillStyle = t.muted;
  context.font = `11px ${t.font}`;
  context.textBaseline = "middle";
  context.fillText("all lanes, busy", 10, minimapHeight / 2);
  if (range) {
    context.fillStyle = t.accent;
    context.fillRect(x(range[0]), 0, Math.max(2, x(range[1]) - x(range[0])), 3);
  }
  context.strokeStyle = t.text;
  context.lineWidth = 1;
  context.strokeRect(Math.round(x(view[0])) + 0.5, 0.5, Math.max(2, Math.round(x(view[1]) - x(view[0])) - 1), minimapHeight - 1);
}
