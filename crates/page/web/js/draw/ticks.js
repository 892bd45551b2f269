// Round positions on an axis of time.

export function ticks([from, to], most) {
  const rough = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const list = [];
  for (let i = Math.ceil(from / step); i * step <= to && list.length < 200; i++) list.push(i * step);
  return { list, step };
}

// A tick in the unit that suits the largest one, with the digits that its step needs.
export function tickLabel(ns, step, largest) {
  const [factor, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([one]) => largest >= one) ?? [1, "ns"];
  const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / factor) + 1e-9)));
  return ns === 0 ? "0" : `${(ns / factor).toFixed(decimals)} ${unit}`;
}
