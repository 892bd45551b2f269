// Demo data: a made-up training loop with a loader thread, a device stream, transfers and a heap. The same every time.
import { fromJson } from "./json.js";

const OPERATIONS = [
  ["step", "cpu"], ["load batch", "wait"], ["forward", "cpu"], ["backward", "cpu"], ["optimizer", "cpu"],
  ["attention", "launch"], ["feed-forward", "launch"], ["copy batch", "host-to-device"], ["attention_kernel", "kernel"],
  ["gemm_kernel", "kernel"], ["synchronize", "sync"], ["read file", "wait"], ["decode", "cpu"], ["augment", "cpu"],
  ["compile kernels", "compile"], ["copy loss", "device-to-host"],
];

export function demo(slower = 1) {
  let seed = 42;
  const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
  const around = (ns) => Math.round(ns * (0.85 + 0.3 * random()));
  const lanes = [[], [], []];
  const details = [];
  const heap = { at_ns: [0], value: [48 << 20] };
  let link = 0;
  let device = 0;
  const add = (lane, name, start, duration, parent, linked = 0, detail = null) => {
    const operation = OPERATIONS.findIndex(([one]) => one === name);
    if (detail) details.push(detail);
    lanes[lane].push({ operation, start, duration, parent, link: linked, detail: detail ? details.length - 1 : -1 });
    return lanes[lane].length - 1;
  };
  const queue = (name, start, duration, linked, detail) => {
    device = Math.max(device + 800, start + 6000);
    add(2, name, device, duration, -1, linked, detail);
    device += duration;
  };
  let now = 40_000;
  add(0, "compile kernels", now, 2_400_000, -1);
  now += 2_450_000;
  for (let step = 0; step < 24; step++) {
    const begin = now;
    const at = add(0, "step", begin, 0, -1, 0, { args: { step } });
    const wait = around(step % 8 === 3 ? 420_000 : 60_000);
    add(0, "load batch", now, wait, at);
    now += wait;
    queue("copy batch", now, around(180_000), 0, { bytes: 2 << 20 });
    heap.at_ns.push(now);
    heap.value.push((52 << 20) + step * 180_000);
    for (const [phase, scale] of [["forward", 1], ["backward", 2]]) {
      const from = now;
      const outer = add(0, phase, from, 0, at);
      for (let layer = 0; layer < 4; layer++) {
        for (const [name, kernel, ns, flops] of [["attention", "attention_kernel", 36_000 * slower, 4e8], ["feed-forward", "gemm_kernel", 52_000, 9e8]]) {
          const launch = around(11_000);
          add(0, name, now, launch, outer, ++link, { args: { layer } });
          queue(kernel, now + launch, around(ns * scale), link, { flops: flops * scale, bytes: 6e6 * scale });
          now += launch + around(2_500);
        }
        heap.at_ns.push(now);
        heap.value.push((60 << 20) + (phase === "forward" ? layer + 1 : 4 - layer) * (6 << 20) + step * 180_000);
      }
      lanes[0][outer].duration = now - from;
      now += 1_500;
    }
    queue("copy loss", now, around(9_000), ++link);
    const sync = Math.max(20_000, device - now + 4_000);
    add(0, "synchronize", now, sync, at, link);
    now += sync;
    const update = around(70_000);
    add(0, "optimizer", now, update, at, 0, { cpu_ns: Math.round(update * 0.96), allocations: 4, allocated_bytes: 65536, freed_bytes: 65536, peak_bytes: 32768 });
    now += update;
    heap.at_ns.push(now);
    heap.value.push((50 << 20) + step * 180_000);
    lanes[0][at].duration = now - begin;
    now += around(8_000);
  }
  for (let at = 10_000; at < now - 900_000; ) {
    const [read, decode, augment] = [around(380_000), around(260_000), around(140_000)];
    add(1, "read file", at, read, -1, 0, { bytes: 1 << 20 });
    add(1, "decode", at + read, decode, -1, 0, { cpu_ns: decode - 900 });
    add(1, "augment", at + read + decode, augment, -1);
    at += read + decode + augment + around(30_000);
  }
  const offset = [0, lanes[0].length, lanes[0].length + lanes[1].length];
  const all = lanes.flatMap((spans, lane) => spans.map((one) => ({ ...one, lane, parent: one.parent < 0 ? -1 : one.parent + offset[lane] })));
  const column = (key) => all.map((one) => one[key]);
  return fromJson({
    format: "ellwand profile", version: 1, name: slower === 1 ? "demo: training loop" : "demo: before the faster attention", wall_ns: now + 60_000,
    environment: { cpu: "made-up processor", cores: 2, os: "demo", program: "demo" },
    cost: { span_ns: 21, off_ns: 0.4, empty_ns: 10 },
    losses: { spans: 0, details: 0, ending_threads: 0, open: 0, sampled_out: 0 },
    operations: OPERATIONS.map(([name, kind]) => ({ name, kind, file: "demo.py", line: 1 })),
    lanes: [{ name: "main", kind: "thread" }, { name: "loader", kind: "thread" }, { name: "stream 7", kind: "stream", device: "cuda:0" }],
    entries: {
      operation: column("operation"), lane: column("lane"), parent: column("parent"), start_ns: column("start"),
      duration_ns: column("duration"), link: column("link"), detail: column("detail"),
    },
    details, tracks: [{ name: "heap", unit: "B", ...heap }],
  });
}
