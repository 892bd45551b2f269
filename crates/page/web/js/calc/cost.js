// The cost of spans: by operation if the profile has it, else the mean.

// A file may hold null for the time that an empty span measures; the profiler's own cost is then unknown.
export function knowsCost({ cost }) {
  return cost?.span_ns > 0 && cost.empty_ns !== null;
}

// Nanoseconds by operation: the cost of a span (`span`), and the part within its own time (`empty`); 0 if unknown.
export function costsOf(profile) {
  const { operations, cost } = profile;
  const of = (field) => Float64Array.from(operations, (one) => Math.max(0, one[field] ?? cost?.[field] ?? 0));
  profile.costs ??= cost?.span_ns > 0 ? { span: of("span_ns"), empty: of("empty_ns") } : { span: new Float64Array(operations.length), empty: new Float64Array(operations.length) };
  return profile.costs;
}

// The cost of the spans inside each entry, at any depth.
export function nestedCost(profile) {
  if (!profile.nestedCost) {
    const { n, parent, operation } = profile;
    const { span } = costsOf(profile);
    profile.nestedCost = new Float64Array(n);
    for (let i = n - 1; i >= 0; i--) if (parent[i] >= 0) profile.nestedCost[parent[i]] += profile.nestedCost[i] + span[operation[i]];
  }
  return profile.nestedCost;
}
