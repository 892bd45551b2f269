//! The scalar competitor that a lattice should beat: a uniform scalar quantizer with at least the same rate.

/// Number of values evaluated.
const SAMPLE: usize = 65_536;
/// Loading factors searched: half the covered range over the root mean square.
const LOADS: std::ops::Range<f64> = 0.5..16.0;
/// Number of quantizations that the search may use. Few values have many error minima, so their search gets more steps.
const SEARCH: usize = 60 * SAMPLE;
/// Steps tried around the best one.
const AROUND: i32 = 8;

/// Signal-to-noise ratio in dB, and number of levels, of the best saturating uniform quantizer with at least `rate`
/// bits per value: ceil(2^rate) levels centred on the origin, with the step of least error found. Evaluates up to
/// 65 536 values spread evenly. `None` for data without power or a rate above 16, and for data that some step
/// reproduces up to the rounding of f32, such as a constant: their ratio would only show how fine the search is.
pub fn scalar_rival(values: &[f32], rate: f64) -> Option<(f64, u32)> {
    if values.is_empty() || !(0.0..=16.0).contains(&rate) {
        return None;
    }
    // A rate that is an integer up to rounding gets exactly its power of two.
    let levels = (rate.exp2() - 1e-9).ceil().max(2.0);
    let sample: Vec<f64> = values.iter().step_by(values.len().div_ceil(SAMPLE)).map(|&x| f64::from(x)).collect();
    let power = sample.iter().map(|x| x * x).sum::<f64>() / sample.len() as f64;
    if power == 0.0 {
        return None;
    }
    let error = |load: f64| {
        let step = 2.0 * load * power.sqrt() / levels;
        // Points are (i + 1/2) * step - range/2 for i in 0..levels; the outermost also cover everything beyond.
        let nearest = |x: f64| ((x / step + levels / 2.0).floor().clamp(0.0, levels - 1.0) + 0.5 - levels / 2.0) * step;
        sample.iter().map(|&x| (x - nearest(x)).powi(2)).sum::<f64>() / sample.len() as f64
    };
    let steps = (SEARCH / sample.len()).min(10_000) as i32;
    let ratio = (LOADS.end / LOADS.start).powf(1.0 / f64::from(steps));
    let better = |a: (f64, f64), b: (f64, f64)| if b.0 < a.0 { b } else { a };
    let best =
        |loads: &mut dyn Iterator<Item = f64>| loads.map(|load| (error(load), load)).fold((f64::INFINITY, 0.0), better);
    let coarse = best(&mut (0..=steps).map(|k| LOADS.start * ratio.powi(k)));
    let between = |k: i32| coarse.1 * ratio.powf(f64::from(k) / f64::from(AROUND));
    let (least, _) = better(coarse, best(&mut (1 - AROUND..AROUND).map(between)));
    let rounding = f64::from(f32::EPSILON / 2.0).powi(2);
    (least > power * rounding).then(|| (10.0 * (power / least).log10(), levels as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    #[test]
    fn normal_data_reach_the_published_optimum() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let values: Vec<f32> = (0..60_000).map(|_| StandardNormal.sample(&mut rng)).map(|x: f64| x as f32).collect();
        // Max (1960), table II, uniform quantizers for a normal source: mean squared errors 0.1188, 0.03744, 0.01154, 0.003495.
        for (levels, mse) in [(4_u32, 0.1188), (8, 0.03744), (16, 0.01154), (32, 0.003495)] {
            let (snr, used) = scalar_rival(&values, f64::from(levels).log2()).unwrap();
            assert_eq!(used, levels);
            assert!((snr + 10.0 * f64::log10(mse)).abs() < 0.1, "{levels}: {snr} dB");
        }
        assert_eq!(scalar_rival(&values, 4.31).unwrap().1, 20, "no fewer bits than the lattice");
    }

    #[test]
    fn no_other_step_is_better() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for n in [8, 20, 100] {
            let values: Vec<f32> = (0..n).map(|_| StandardNormal.sample(&mut rng)).map(|x: f64| x as f32).collect();
            for rate in [2.0_f64, 4.0] {
                let power = values.iter().map(|x| f64::from(x * x)).sum::<f64>() / n as f64;
                let error = |step: f64| {
                    let most = (rate.exp2() - 1.0) / 2.0;
                    let points = |x: f64| ((x / step - 0.5).round() + 0.5).clamp(-most, most) * step;
                    values.iter().map(|&x| (f64::from(x) - points(f64::from(x))).powi(2)).sum::<f64>() / n as f64
                };
                let tried = (1..20_000).map(|k| error(f64::from(k) * 2.5e-4 * power.sqrt() / rate));
                let best = 10.0 * (power / tried.fold(f64::INFINITY, f64::min)).log10();
                let found = scalar_rival(&values, rate).unwrap().0;
                assert!(found > best - 0.02, "{n} values at {rate} bits: {found} dB, {best} dB are possible");
            }
        }
    }

    #[test]
    fn there_is_no_rival_without_data() {
        assert!(scalar_rival(&[], 4.0).is_none());
        assert!(scalar_rival(&[0.0; 8], 4.0).is_none());
        assert!(scalar_rival(&[1.0; 8], 40.0).is_none());
        assert!(scalar_rival(&[1.5; 4096], 4.0).is_none(), "a constant has no noise");
        assert!(scalar_rival(&[1.5, 1.4999, -0.1, 0.7], 4.0).is_some());
    }
}
