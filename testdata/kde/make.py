"""Golden data of the clusterless decoder: inputs and f64 outputs, directly from the formulas.

    python3 make.py        # writes golden.npz; needs numpy

Written from the mathematics, without code of this repository: occupancy, ground process, mean rates, the non-local
and the local log likelihood of clusterless_kde.py in the public non_local_detector repository (linear space), with sums in
NumPy's float64. Irregular on purpose: an electrode without encoding spikes, one with a single spike, one with three features,
an outlying mark, spikes outside the windows and on the edges.
"""

import numpy as np

FLOOR = 1e-15
LOG_FLOOR = np.log(FLOOR)


def kernel(x, m, sigma):
    return np.exp(-0.5 * ((x - m) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))


def product(x, m, sigma):
    """(n, d) points against (k, d) centres: (n, k) product kernels."""
    value = np.ones((len(x), len(m)))
    for d in range(x.shape[1]):
        value *= kernel(x[:, None, d], m[None, :, d], sigma[d])
    return value


def mean_kernel(x, m, sigma):
    return product(x, m, sigma).mean(axis=1) if len(m) else np.zeros(len(x))


def interpolate(t, time, position):
    """Linear, extrapolating with the end segments."""
    i = np.clip(np.searchsorted(time, t, side="right"), 1, len(time) - 1)
    share = ((t - time[i - 1]) / (time[i] - time[i - 1]))[:, None]
    return position[i - 1] + share * (position[i] - position[i - 1])


rng = np.random.default_rng(2026)
E, D, T, N = 5, 2, 300, 40
position_time = np.linspace(0, 60, T)
position = np.stack([50 - 50 * np.cos(2 * np.pi * position_time / 11), 30 + 25 * np.sin(2 * np.pi * position_time / 7)], 1)
grid = np.stack(np.meshgrid(np.arange(5.0, 100, 9), np.arange(5.0, 60, 8), indexing="ij"), -1).reshape(-1, 2)[:-3]
n_features = np.array([2, 2, 3, 2, 4])
position_std, waveform_std = np.array([5.0, 6.5]), np.array(20.0)
time_edges = np.sort(rng.uniform(0, 10, N))
dec_position_time = np.linspace(1, 9.5, 50)
dec_position = np.stack([20 + 3 * dec_position_time, 40 - 2 * dec_position_time], 1)

enc_times, enc_marks, dec_times, dec_marks = [], [], [], []
for e in range(E):
    n = [40, 0, 25, 1, 300][e]
    enc_times.append(np.sort(rng.uniform(-2, 62, n)) if n != 1 else np.array([30.0]))
    enc_marks.append(rng.normal(120, 40, (n, n_features[e])))
    k = [12, 5, 9, 7, 30][e]
    t = np.sort(rng.uniform(-0.5, 10.5, k))
    t[k // 2] = time_edges[20]
    dec_times.append(np.sort(t))
    dec_marks.append(rng.normal(120, 40, (k, n_features[e])))
dec_times[0][-1] = time_edges[-1]
dec_times[0] = np.sort(dec_times[0])
dec_marks[0][3] = [900.0, -400.0]

occupancy = mean_kernel(grid, position, position_std)
ground, rates = np.zeros(len(grid)), []
log_likelihood = np.zeros((N, len(grid)))
local = np.zeros(N)
edge_position = interpolate(time_edges, dec_position_time, dec_position)
edge_occupancy = mean_kernel(edge_position, position, position_std)
for e in range(E):
    kept = (enc_times[e] >= position_time[0]) & (enc_times[e] <= position_time[-1])
    marks = enc_marks[e][kept]
    where = interpolate(enc_times[e][kept], position_time, position)
    mu = kept.sum() / T
    rates.append(mu)
    ground += np.maximum(mu * mean_kernel(grid, where, position_std) / occupancy, FLOOR)
    local -= mu * mean_kernel(edge_position, where, position_std) / edge_occupancy
    seen = (dec_times[e] >= time_edges[0]) & (dec_times[e] <= time_edges[-1])
    rows = np.searchsorted(time_edges[1:-1], dec_times[e][seen], side="right")
    here = interpolate(dec_times[e][seen], dec_position_time, dec_position)
    widths = np.full(n_features[e], waveform_std)
    for y, row, x in zip(dec_marks[e][seen], rows, here):
        weight = product(y[None], marks, widths)[0]
        at_bins = weight @ product(where, grid, position_std) / len(marks) if len(marks) else np.zeros(len(grid))
        rate = mu * at_bins / occupancy
        log_likelihood[row] += np.where(rate >= FLOOR, np.log(np.maximum(rate, FLOOR)), LOG_FLOOR)
        joint = weight @ product(where, x[None], position_std)[:, 0] / len(marks) if len(marks) else 0.0
        rate = mu * joint / mean_kernel(x[None], position, position_std)[0]
        local[row] += np.log(rate) if rate >= FLOOR else LOG_FLOOR
log_likelihood -= ground

np.savez_compressed(
    "golden.npz",
    position_time=position_time,
    position=position,
    grid=grid,
    n_features=n_features,
    position_std=position_std,
    waveform_std=waveform_std,
    enc_spike_times=np.concatenate(enc_times),
    enc_spike_times_offsets=np.cumsum([0] + [len(t) for t in enc_times]),
    enc_features_flat=np.concatenate([m.ravel() for m in enc_marks]),
    time_edges=time_edges,
    dec_spike_times=np.concatenate(dec_times),
    dec_spike_times_offsets=np.cumsum([0] + [len(t) for t in dec_times]),
    dec_features_flat=np.concatenate([m.ravel() for m in dec_marks]),
    dec_position_time=dec_position_time,
    dec_position=dec_position,
    expected_occupancy=occupancy,
    expected_ground_process_intensity=ground,
    expected_mean_rates=np.array(rates),
    expected_log_likelihood=log_likelihood,
    expected_local_log_likelihood=local[:, None],
)
