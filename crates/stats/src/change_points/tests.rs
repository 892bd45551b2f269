//! Laws of change points, planted steps, and false positives on synthetic noise with fixed seeds. The simulation from
//! recorded noise is in `ellwand-history`, which can read the files.

use proptest::prelude::*;

use super::divergence::{Divergence, Split};
use super::*;

fn indices(values: &[f64], least: f64) -> Vec<usize> {
    change_points(values, least).unwrap().points.iter().map(|point| point.index).collect()
}

/// Noise between -1 and 1 with a fixed seed (SplitMix64), the sum of three uniform numbers.
fn noise(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count).map(|_| (uniform() + uniform() + uniform()) * 2.0 / 3.0 - 1.0).collect()
}

#[test]
fn the_divergence_is_that_of_its_definition() {
    let values = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0];
    let mean = |one: &[f64], other: &[f64]| {
        let sum: f64 = one.iter().flat_map(|x| other.iter().map(move |y| (x - y).abs())).sum();
        sum / (one.len() * other.len()) as f64
    };
    // The mean over distinct pairs leaves out the distance of a value to itself.
    let within = |part: &[f64]| mean(part, part) * part.len() as f64 / (part.len() - 1) as f64;
    let sums = Divergence::new(&values);
    for (place, end) in [(3, 8), (2, 6), (5, 7)] {
        let (x, y) = (&values[..place], &values[place..end]);
        let scale = (x.len() * y.len()) as f64 / (x.len() + y.len()) as f64;
        let expected = scale * (2.0 * mean(x, y) - within(x) - within(y));
        assert!((sums.of(place, end) - expected).abs() < 1e-12, "{place} {end}");
    }
}

#[test]
fn a_step_is_found_at_its_place() {
    let mut values = noise(7, 120);
    values[70..].iter_mut().for_each(|value| *value += 3.0);
    let found = change_points(&values, 0.0).unwrap().points;
    assert_eq!(found.iter().map(|point| point.index).collect::<Vec<_>>(), [70]);
    assert!((found[0].after - found[0].before - 3.0).abs() < 0.2 && found[0].p < 1e-20, "{found:?}");
    assert_eq!(indices(&values, 3.5), [] as [usize; 0], "smaller than the least change");
}

#[test]
fn steps_up_and_down_are_all_found() {
    let levels = [(0, 0.0), (60, 2.0), (90, 0.0), (180, 5.0), (186, 0.0)];
    let mut values = noise(3, 260);
    for (from, to) in levels.iter().zip(levels.iter().skip(1).map(|(at, _)| *at).chain([260])) {
        values[from.0..to].iter_mut().for_each(|value| *value += from.1);
    }
    assert_eq!(indices(&values, 0.0), [60, 90, 180, 186]);
}

#[test]
fn four_later_values_are_enough_and_outliers_are_no_step() {
    let mut values = noise(11, 60);
    values.extend([4.0, 4.1]);
    assert_eq!(indices(&values, 0.0), [] as [usize; 0]);
    values.extend([3.9, 4.0]);
    assert_eq!(indices(&values, 0.0), [60]);
    let mut alone = noise(12, 200);
    for (at, value) in [(90, 9.0), (150, -9.0), (199, 1e6)] {
        alone[at] = value;
        assert_eq!(indices(&alone[..at.max(100) + 1], 0.0), [] as [usize; 0], "{at}");
    }
}

/// A step that has too few values on one side for a change point is not reported at a wrong place.
#[test]
fn a_step_next_to_an_end_is_not_moved_inwards() {
    let mut late = 0;
    for seed in 0..8 {
        for (at, size) in [(1, 9.0), (2, 9.0), (3, 9.0), (3, 4.0), (57, 4.0), (57, 9.0), (58, 9.0), (59, 9.0)] {
            let mut values = noise(40 + seed, 60);
            values[at..].iter_mut().for_each(|value| *value += size);
            let found = change_points(&values, 0.0).unwrap();
            assert_eq!(found.points, [], "{at} {seed}");
            assert!(found.short.is_none_or(|short| short == 60 - at), "{at} {seed}: {:?}", found.short);
            late += usize::from(found.short.is_some());
            assert_eq!(change_points(&values, 10.0).unwrap().short, None, "smaller than the least change");
        }
        for at in [4, 46, 47, 48, 49, 56] {
            let mut values = noise(80 + seed, 60);
            values[at..].iter_mut().for_each(|value| *value += 9.0);
            let found = change_points(&values, 0.0).unwrap();
            let places: Vec<usize> = found.points.iter().map(|point| point.index).collect();
            assert!(places == [at] && found.short.is_none(), "{at} {seed}: {found:?}");
        }
    }
    assert!(late >= 8, "{late}");
}

#[test]
fn equal_values_rarely_have_a_change() {
    let heavy = |values: Vec<f64>| values.iter().map(|v| v / (1.01 - v.abs())).collect::<Vec<_>>();
    let mut alarms = 0;
    for seed in 0..150 {
        let values = noise(1000 + seed, 200);
        alarms += u64::from(!indices(&values, 0.0).is_empty());
        alarms += u64::from(!indices(&heavy(values), 0.0).is_empty());
    }
    // A rate of 1 % fails this by chance less than once in 10 000 tests.
    assert!(crate::special::binomial_upper_tail(alarms, 300, 0.01) > 1e-4, "{alarms} of 300");
}

/// Negative control: at the place that differs most, the t-test finds steps in equal values more often than its level.
#[test]
fn without_permutations_the_level_does_not_hold() {
    let alarm = |seed: &u64| {
        let values = noise(2000 + seed, 50);
        let Some(Split { place, .. }) = Divergence::new(&values).largest(SHORTEST) else { return false };
        p_value(&values[..place], &values[place..]) <= MERGE
    };
    let alarms = (0..1000).filter(alarm).count() as u64;
    assert!(crate::special::binomial_upper_tail(alarms, 1000, MERGE) < 1e-6, "{alarms} of 1000");
}

#[test]
fn an_invalid_series_is_refused() {
    assert!(change_points(&[1.0, f64::NAN], 0.0).is_err());
    assert!(change_points(&[1.0], -1.0).is_err());
    assert_eq!(change_points(&[], 0.0).unwrap(), Changes::default());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Integers, so that shifted and scaled sums have the same bits.
    #[test]
    fn shift_and_scale_change_nothing(
        base in proptest::collection::vec(-20_i32..20, 0..110),
        step in 0_i32..60,
        at in 0_usize..110,
        shift in -1000_i32..1000,
        power in -8_i32..8,
    ) {
        let values: Vec<f64> =
            base.iter().enumerate().map(|(i, v)| f64::from(*v + if i >= at { step } else { 0 })).collect();
        let found = indices(&values, 0.0);
        let shifted: Vec<f64> = values.iter().map(|v| v + f64::from(shift)).collect();
        prop_assert_eq!(&indices(&shifted, 0.0), &found);
        let scaled: Vec<f64> = values.iter().map(|v| v * 2_f64.powi(power)).collect();
        prop_assert_eq!(&indices(&scaled, 0.0), &found);
        let mirrored: Vec<f64> = values.iter().map(|v| -v).collect();
        prop_assert_eq!(&indices(&mirrored, 0.0), &found);
    }

    #[test]
    fn constants_never_change(value in -1e9_f64..1e9, count in 0_usize..300) {
        prop_assert!(indices(&vec![value; count], 0.0).is_empty());
    }

    #[test]
    fn points_are_in_order_and_keep_their_distance(
        values in proptest::collection::vec(-1e3_f64..1e3, 0..200),
        least in 0.0_f64..500.0,
    ) {
        let found = change_points(&values, least).unwrap().points;
        let inner = found.iter().map(|point| point.index);
        let edges: Vec<usize> = std::iter::once(0).chain(inner).chain([values.len()]).collect();
        prop_assert!(found.is_empty() || edges.windows(2).all(|pair| pair[1] >= pair[0] + SHORTEST), "{:?}", edges);
        for point in &found {
            prop_assert!((point.after - point.before).abs() >= least && point.p <= MERGE);
        }
    }
}
