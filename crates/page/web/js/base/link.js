// The view as the hash of the address, so a link shows what its sender saw.
import { state, update, on } from "./state.js";

const KEYS = "range view operation filter sort flame";

function write() {
  const { profile } = state;
  if (!profile) return;
  const parts = new URLSearchParams();
  const pair = (key, value) => value && parts.set(key, value.map((ns) => Math.round(ns)).join("-"));
  pair("range", state.range);
  if (state.view && (state.view[0] > 0 || state.view[1] < profile.wall)) pair("view", state.view);
  if (state.operation >= 0) parts.set("operation", profile.operations[state.operation].name.slice(0, 200));
  if (state.filter) parts.set("filter", state.filter);
  if (state.sort.join() !== "self,-1") parts.set("sort", state.sort.join());
  if (state.flame !== "left") parts.set("flame", state.flame);
  const hash = parts.toString();
  try {
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  } catch {
    // Some browsers limit how often the address may change; the next change will include this one.
  }
}

export function readLink() {
  const { profile } = state;
  const parts = new URLSearchParams(location.hash.slice(1));
  const pair = (key) => {
    const [a, b] = (parts.get(key) ?? "").split("-").map(Number);
    return parts.has(key) && a < b && b > 0 ? [Math.max(0, a), Math.min(profile.wall, b)] : null;
  };
  const name = parts.get("operation");
  const [key, direction] = (parts.get("sort") ?? "").split(",");
  const flames = ["left", "order", "sandwich", "difference"];
  update({
    range: pair("range"),
    view: pair("view"),
    operation: name === null ? -1 : profile.operations.findIndex((one) => one.name.slice(0, 200) === name),
    filter: parts.get("filter") ?? "",
    sort: direction === "1" || direction === "-1" ? [key, Number(direction)] : ["self", -1],
    flame: flames.includes(parts.get("flame")) ? parts.get("flame") : "left",
  });
}

export function keepLink() {
  let timer = 0;
  on(KEYS, () => {
    clearTimeout(timer);
    timer = setTimeout(write, 250);
  });
  addEventListener("hashchange", () => state.profile && readLink());
}
