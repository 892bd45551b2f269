//! One sort for all lists, and one table for all indices: the standard library's are compiled anew for each type and
//! order, which took a fifth of this crate's compile time.

use std::collections::HashMap;

/// Indices by two numbers; the second is 0 if one suffices.
pub(crate) type Indices = HashMap<(u32, u32), u32>;

/// Sorts by a number; elements with equal numbers stay in their order.
pub(crate) fn sort_by_number<T>(list: &mut [T], number: impl Fn(&T) -> u128) {
    let mut order = Vec::with_capacity(list.len());
    for (at, one) in list.iter().enumerate() {
        order.push((number(one), at));
    }
    sort(&mut order, &mut |a, b| list.swap(a, b));
}

/// Sorts numbers with the indices of their elements, and swaps the elements accordingly.
fn sort(order: &mut [(u128, usize)], swap: &mut dyn FnMut(usize, usize)) {
    order.sort_unstable();
    for start in 0..order.len() {
        // Each place gets its element from the next place of its cycle; a finished place points to itself.
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at].1, at);
            if from == start {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

/// A number that is larger for larger values, in the order of [`f64::total_cmp`].
pub(crate) fn rising(value: f64) -> u128 {
    let bits = value.to_bits();
    (if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }).into()
}

/// A number that is smaller for larger values.
pub(crate) fn falling(value: f64) -> u128 {
    !rising(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_by_number_and_keep_the_order_of_equal_ones() {
        let mut values =
            [f64::NAN, 0.0, -0.0, 1.5, f64::INFINITY, -7.0, f64::NEG_INFINITY, 1.5, -f64::NAN, 5e-324].to_vec();
        let mut wanted = values.clone();
        wanted.sort_by(f64::total_cmp);
        sort_by_number(&mut values, |value| rising(*value));
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&values), bits(&wanted));
        sort_by_number(&mut values, |value| falling(*value));
        wanted.reverse();
        assert_eq!(bits(&values), bits(&wanted));
        let mut pairs = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd')];
        sort_by_number(&mut pairs, |pair| pair.0);
        assert_eq!(pairs, [(1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')]);
    }
}
