// Round positions on a time axis.
import { timeUnit } from "../base/format.js";

export function ticks([from, to], most) {
  const rough = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? rough;
  const list = [];
  for (let i = Math.ceil(from / step); i * step <= to && list.length < 200; i++) list.push(i * step);
  return { list, step };
}

// A tick label in the unit that suits the largest tick, with the digits that the step needs.
export function tickLabel(ns, step, largest) {
  const [factor, unit] = timeUnit(largest);
  const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step / factor) + 1e-9)));
  return ns === 0 ? "0" : `${(ns / factor).toFixed(decimals)} ${unit}`;
}
