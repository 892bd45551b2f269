// The selected span: its identity, its data, and its effects elsewhere.
import { button, h, replace } from "../base/dom.js";
import { bytes, count, label, quantity, rate, time, visible } from "../base/format.js";
import { state, update } from "../base/state.js";
import { detailOf, pathOf } from "../data/model.js";

// Entries that share the link of an entry; the cause (the earliest) comes first.
export function linkedWith(profile, i) {
  const link = i >= 0 && profile.link ? profile.link[i] : 0;
  if (!link) return [];
  const found = [];
  for (let other = 0; other < profile.n && found.length < 200; other++) if (profile.link[other] === link) found.push(other);
  return found.sort((a, b) => profile.start[a] - profile.start[b]);
}

export function drawSpan(box) {
  const { profile, span: i } = state;
  box.hidden = i < 0;
  if (i < 0) return;
  const operation = profile.operations[profile.operation[i]];
  const linked = linkedWith(profile, i);
  replace(box,
    h("header", {}, h("h3", { title: visible(operation.name.slice(0, 2000)) }, label(operation.name, 80)),
      h("div", { class: "tools" },
        button("Zoom", () => zoomTo(profile, i)),
        button("Select its time", () => update({ range: [profile.start[i], Math.max(profile.end[i], profile.start[i] + 1)] }), { id: "span-range" }),
        button("Close", () => update({ span: -1 })))),
    h("dl", {}, facts(profile, i, operation).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    linked.length > 1 && h("p", {}, linked[0] === i ? "Caused " : "Caused by ", others(profile, linked, i)));
}

export function zoomTo(profile, i) {
  const [start, end] = [profile.start[i], profile.end[i]];
  const slack = Math.max(1, (end - start) * 0.25);
  update({ view: [Math.max(0, start - slack), Math.min(profile.wall, end + slack)] });
}

function facts(profile, i, operation) {
  const duration = profile.duration[i];
  const open = duration !== duration;
  const detail = (name) => detailOf(profile, i, name);
  const [work, flops] = [detail("bytes"), detail("flops")];
  const shown = (name, value, format) => value !== null && [name, format(value)];
  const args = profile.detail && profile.detail[i] >= 0 ? (profile.details.args[profile.detail[i]] ?? {}) : {};
  return [
    ["duration", open ? "open when the recording ended" : time(duration, 4)],
    ["start", time(profile.start[i], 6)],
    ["lane", label(profile.lanes[profile.lane[i]].name, 60)],
    ["kind", operation.kind],
    operation.file && ["source", label(`${operation.file}:${operation.line}`, 90)],
    ["inside", pathOf(profile, i).slice(0, -1).slice(-6).map((at) => label(profile.operations[profile.operation[at]].name, 40)).join(" › ") || "nothing"],
    shown("bytes", work, bytes),
    work !== null && duration > 0 && ["throughput", rate((work / duration) * 1e9, "B/s")],
    shown("floating-point operations", flops, (value) => rate(value, "")),
    flops !== null && duration > 0 && ["rate", rate((flops / duration) * 1e9, "FLOP/s")],
    shown("items", detail("items"), count),
    shown("CPU time", detail("cpu_ns"), time),
    shown("allocations", detail("allocations"), count),
    shown("allocated", detail("allocated_bytes"), bytes),
    shown("freed", detail("freed_bytes"), bytes),
    shown("peak", detail("peak_bytes"), bytes),
    shown("resident memory", detail("rss_bytes"), bytes),
    ...Object.entries(args).map(([name, value]) => [label(name, 40), label(typeof value === "number" ? quantity(value, "") : typeof value === "string" ? value : JSON.stringify(value), 200)]),
  ].filter(Boolean);
}

function others(profile, linked, i) {
  return linked.filter((one) => one !== i).slice(0, 8).map((one, at) => [
    at > 0 && ", ",
    button(label(profile.operations[profile.operation[one]].name, 40), () => update({ span: one, operation: profile.operation[one] }), { class: "link" }),
    ` on ${label(profile.lanes[profile.lane[one]].name, 30)}`,
  ]);
}
