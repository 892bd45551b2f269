// Device work by the calls that started it: kernels and copies count for their own entry, for the entry that caused
// them, and for all entries that enclose that one.

// For each link, the entry that starts first; null without streams or links.
function causes(profile) {
  if (profile.causes !== undefined) return profile.causes;
  profile.causes = null;
  if (profile.link) {
    profile.causes = new Map();
    for (let i = 0; i < profile.n; i++) {
      const link = profile.link[i];
      if (link === 0) continue;
      const known = profile.causes.get(link);
      if (known === undefined || profile.start[i] < profile.start[known]) profile.causes.set(link, i);
    }
  }
  return profile.causes;
}

// Nanoseconds of kernels and of copies by entry, within the range; null if no lane is a stream.
export function deviceTimes(profile, [from, to]) {
  if (!profile.lanes.some((lane) => lane.kind === "stream")) return null;
  const { n, lane, parent, start, end, duration, operation, operations, link } = profile;
  const copies = operations.map(({ kind }) => (kind === "kernel" ? 0 : kind.includes("-to-") ? 1 : -1));
  const cause = causes(profile);
  const times = [new Float64Array(n), new Float64Array(n)];
  for (let i = 0; i < n; i++) {
    const which = copies[operation[i]];
    if (which < 0 || duration[i] !== duration[i]) continue;
    const part = Math.min(end[i], to) - Math.max(start[i], from);
    if (!(part > 0)) continue;
    times[which][i] += part;
    const source = link && link[i] !== 0 ? cause.get(link[i]) : undefined;
    if (source !== undefined && lane[source] !== lane[i]) times[which][source] += part;
  }
  for (const list of times) {
    for (let i = n - 1; i >= 0; i--) {
      if (list[i] > 0 && parent[i] >= 0 && profile.lanes[lane[i]].kind !== "stream") list[parent[i]] += list[i];
    }
  }
  return times;
}
