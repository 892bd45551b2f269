// Canvases that are sharp on every screen, and the same drawing calls as SVG for export.
import { SVG } from "../base/dom.js";
import { plain } from "../base/format.js";
import { lowerBound } from "../calc/select.js";

// Sizes a canvas to its box and returns a context in CSS pixels.
export function prepare(canvas, width, height) {
  const scale = Math.min(3, window.devicePixelRatio || 1);
  const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// The subset of a canvas context that our drawings use, collected as SVG.
export class SvgContext {
  constructor(width, height, background) {
    Object.assign(this, { width, height, parts: [], fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1 });
    Object.assign(this, { font: "12px sans-serif", textAlign: "left", textBaseline: "alphabetic", path: "", clips: 0, dash: "" });
    this.fillStyle = background;
    this.fillRect(0, 0, width, height);
  }

  alpha() {
    return this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
  }

  fillRect(x, y, w, h) {
    this.parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" fill="${this.fillStyle}"${this.alpha()}/>`);
  }

  strokeRect(x, y, w, h) {
    this.parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"/>`);
  }

  fillText(text, x, y) {
    const anchor = { left: "start", right: "end", center: "middle" }[this.textAlign] ?? "start";
    const baseline = this.textBaseline === "middle" ? ' dominant-baseline="central"' : "";
    const size = /([\d.]+)px/.exec(this.font)?.[1] ?? 12;
    this.parts.push(`<text x="${n(x)}" y="${n(y)}" font-size="${size}" text-anchor="${anchor}"${baseline} fill="${this.fillStyle}"${this.alpha()}>${escape(text)}</text>`);
  }

  measureText(text) {
    const size = Number(/([\d.]+)px/.exec(this.font)?.[1] ?? 12);
    return { width: text.length * size * 0.56 };
  }

  beginPath() {
    this.path = "";
  }

  moveTo(x, y) {
    this.path += `M${n(x)} ${n(y)}`;
  }

  lineTo(x, y) {
    this.path += `L${n(x)} ${n(y)}`;
  }

  bezierCurveTo(...points) {
    this.path += `C${points.map(n).join(" ")}`;
  }

  setLineDash(dash) {
    this.dash = dash.length > 0 ? ` stroke-dasharray="${dash.join(" ")}"` : "";
  }

  stroke() {
    this.parts.push(`<path d="${this.path}" fill="none" stroke="${this.strokeStyle}" stroke-width="${this.lineWidth}"${this.dash}${this.alpha()}/>`);
  }

  fill() {
    this.parts.push(`<path d="${this.path}" fill="${this.fillStyle}"${this.alpha()}/>`);
  }

  closePath() {
    this.path += "Z";
  }

  save() {}

  restore() {
    for (; this.clips > 0; this.clips--) this.parts.push("</g>");
  }

  // Clips to a rectangle; `clipTo` makes the same call on a canvas context.
  clipRect(x, y, w, h) {
    const id = `clip${this.parts.length}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"/></clipPath><g clip-path="url(#${id})">`);
    this.clips++;
  }

  text() {
    this.restore();
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    return `<svg xmlns="${SVG}" ${size} font-family="system-ui, sans-serif">\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

export function clipTo(context, x, y, w, h) {
  context.save();
  if (context.clipRect) return context.clipRect(x, y, w, h);
  context.beginPath();
  context.rect(x, y, w, h);
  context.clip();
}

// Text that is shortened with an ellipsis if it does not fit.
export function fitted(context, text, width) {
  if (width < 14) return "";
  const most = Math.floor(width / 4);
  const shown = text.length > most ? text.slice(0, most) : text;
  if (shown === text && context.measureText(text).width <= width) return text;
  const fits = lowerBound(shown.length, (i) => context.measureText(shown.slice(0, i + 1) + "…").width <= width);
  return fits > 0 ? shown.slice(0, fits) + "…" : "";
}

function n(value) {
  return Math.round(value * 100) / 100;
}

function escape(text) {
  // Characters that XML does not allow have been replaced by pictures before; drop any that remain.
  return plain(text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "")).replace(/"/g, "&quot;");
}
