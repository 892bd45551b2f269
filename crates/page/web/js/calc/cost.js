// What spans cost: by operation where the profile says so, else the mean of all.

// A file may hold null for what an empty span measures: then the profiler's own cost is unknown.
export function knowsCost({ cost }) {
  return cost?.span_ns > 0 && cost.empty_ns !== null;
}

// Nanoseconds by operation: of a span (`span`), and the part in its own time (`empty`); 0 if unknown.
export function costsOf(profile) {
  const { operations, cost } = profile;
  const of = (field) => Float64Array.from(operations, (one) => Math.max(0, one[field] ?? cost?.[field] ?? 0));
  profile.costs ??= cost?.span_ns > 0 ? { span: of("span_ns"), empty: of("empty_ns") } : { span: new Float64Array(operations.length), empty: new Float64Array(operations.length) };
  return profile.costs;
}

// What the spans inside each entry cost, at any depth.
export function nestedCost(profile) {
  if (!profile.nestedCost) {
    const { n, parent, operation } = profile;
    const { span } = costsOf(profile);
    profile.nestedCost = new Float64Array(n);
    for (let i = n - 1; i >= 0; i--) if (parent[i] >= 0) profile.nestedCost[parent[i]] += profile.nestedCost[i] + span[operation[i]];
  }
  return profile.nestedCost;
}
