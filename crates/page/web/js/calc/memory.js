// The peak of a track within a range, and what was open then.

// A value holds until the next one, so the last point before the range counts too.
export function peakOf(track, [from, to]) {
  let best = null;
  for (let i = 0; i < track.at_ns.length; i++) {
    const until = track.at_ns[i + 1] ?? Infinity;
    if (track.at_ns[i] > to || until <= from) continue;
    if (!best || track.value[i] > best.value) best = { at: Math.max(from, track.at_ns[i]), value: track.value[i] };
  }
  return best;
}

// Entries open at a moment, outermost first on each lane.
export function openAt(profile, time) {
  const open = [];
  for (let i = 0; i < profile.n; i++) {
    if (profile.start[i] <= time && (profile.end[i] > time || (profile.end[i] === time && time === profile.wall))) open.push(i);
  }
  return open;
}

// At most `most` points that keep the extremes of each piece.
export function thin(track, most) {
  const n = track.at_ns.length;
  if (n <= most) return { x: track.at_ns, y: track.value };
  const [x, y] = [[], []];
  const step = (n * 2) / most;
  for (let from = 0; from < n; from += step) {
    const until = Math.min(n, Math.ceil(from + step));
    let [low, high] = [Math.floor(from), Math.floor(from)];
    for (let i = low; i < until; i++) {
      if (track.value[i] < track.value[low]) low = i;
      if (track.value[i] > track.value[high]) high = i;
    }
    for (const i of low < high ? [low, high] : [high, low]) {
      x.push(track.at_ns[i]);
      y.push(track.value[i]);
    }
  }
  return { x, y };
}
