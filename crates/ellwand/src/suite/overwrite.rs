//! Overwrites the buffer that [`super::Suite::output`] makes before a judged run, so that a value which the run does not
//! write is found. Any type may be a buffer, and only those in the table below can be overwritten.

use std::any::{Any, TypeId};
use std::ops::Range;
use std::slice::from_mut;

use ellwand_core::Poison;

/// A type with a value for each pattern.
trait Value: Copy + 'static {
    fn pattern(poison: Poison) -> Self;
    /// True for exactly that value: a NaN equals only a NaN of the same bits.
    fn is_pattern(self, poison: Poison) -> bool;
}

/// Passes all values of a buffer to a function, slice by slice.
type Walk<T> = fn(&mut dyn Any, &mut dyn FnMut(&mut [T]));

/// Calls `body` with the buffer as its type; the caller has checked the type.
fn cast<C: 'static>(buffer: &mut dyn Any, body: impl FnOnce(&mut C)) {
    if let Some(buffer) = buffer.downcast_mut() {
        body(buffer);
    }
}

/// How to pass through a buffer of type `id`, if it consists of values of type `T`.
fn walk<T: Value>(id: TypeId) -> Option<Walk<T>> {
    let known: [(TypeId, Walk<T>); 5] = [
        (TypeId::of::<T>(), |buffer, visit| cast(buffer, |value: &mut T| visit(from_mut(value)))),
        (TypeId::of::<Vec<T>>(), |buffer, visit| cast(buffer, |values: &mut Vec<T>| visit(values))),
        (TypeId::of::<Box<[T]>>(), |buffer, visit| cast(buffer, |values: &mut Box<[T]>| visit(values))),
        (TypeId::of::<Vec<Vec<T>>>(), |buffer, visit| {
            cast(buffer, |rows: &mut Vec<Vec<T>>| rows.iter_mut().for_each(|row| visit(row)));
        }),
        (TypeId::of::<(Vec<T>, Vec<T>)>(), |buffer, visit| {
            cast(buffer, |(one, other): &mut (Vec<T>, Vec<T>)| {
                [one, other].into_iter().for_each(|values| visit(values))
            });
        }),
    ];
    known.into_iter().find(|(known, _)| *known == id).map(|(_, walk)| walk)
}

macro_rules! values {
    ($($number:ty)*) => {
        $(impl Value for $number {
            fn pattern(poison: Poison) -> Self {
                Self::from_ne_bytes([poison.byte(); size_of::<Self>()])
            }
            fn is_pattern(self, poison: Poison) -> bool {
                self.to_ne_bytes() == [poison.byte(); size_of::<Self>()]
            }
        })*

        /// True if a buffer of this type can be overwritten.
        pub(super) fn is_known(id: TypeId) -> bool {
            $(walk::<$number>(id).is_some() ||)* false
        }

        /// Overwrites all values of the buffer. False if it is of another type.
        pub(super) fn overwrite(buffer: &mut dyn Any, poison: Poison) -> bool {
            let id = (*buffer).type_id();
            $(if let Some(walk) = walk::<$number>(id) {
                walk(buffer, &mut |values| values.fill(Value::pattern(poison)));
                return true;
            })*
            false
        }

        /// Where the buffer holds the pattern.
        pub(super) fn find_pattern(buffer: &mut dyn Any, poison: Poison) -> Held {
            let (id, mut held) = ((*buffer).type_id(), Held::default());
            $(if let Some(walk) = walk::<$number>(id) {
                walk(buffer, &mut |values| held.add(values, poison));
            })*
            held
        }
    };
}

values!(f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 usize);

/// The values of a buffer that equal a pattern.
#[derive(Default)]
pub(super) struct Held {
    /// In ascending order, because an untouched buffer is a single run of them.
    runs: Vec<Range<usize>>,
    /// Number of values in the buffer.
    pub(super) of: usize,
}

impl Held {
    fn add<T: Value>(&mut self, values: &[T], poison: Poison) {
        for value in values {
            let at = self.of;
            self.of += 1;
            if value.is_pattern(poison) {
                match self.runs.last_mut() {
                    Some(run) if run.end == at => run.end += 1,
                    _ => self.runs.push(at..at + 1),
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Number of values that equal a pattern here and another one in `other`: no run wrote them.
    pub(super) fn also_in(&self, other: &Self) -> usize {
        let (mut count, mut rest) = (0, other.runs.as_slice());
        for run in &self.runs {
            while let [first, more @ ..] = rest {
                count += run.end.min(first.end).saturating_sub(run.start.max(first.start));
                if first.end > run.end {
                    break;
                }
                rest = more;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoiled<B: 'static>(mut buffer: B, values: usize) {
        assert!(is_known(TypeId::of::<B>()));
        for (poison, other) in [(Poison::Ones, Poison::Mixed), (Poison::Mixed, Poison::Ones)] {
            assert!(overwrite(&mut buffer, poison));
            let all = find_pattern(&mut buffer, poison);
            assert_eq!((all.of, all.also_in(&all)), (values, values), "{}", std::any::type_name::<B>());
            assert!(find_pattern(&mut buffer, other).is_empty());
        }
    }

    #[test]
    fn every_value_of_a_known_type_is_overwritten() {
        spoiled(0.0_f64, 1);
        spoiled(vec![0.0_f32; 5], 5);
        spoiled(vec![0_usize; 5].into_boxed_slice(), 5);
        spoiled(vec![vec![0_i64; 2], vec![], vec![1]], 3);
        spoiled((vec![0_u8; 3], vec![0_u8; 4]), 7);
        spoiled(Vec::<f32>::new(), 0);
    }

    #[test]
    fn other_types_are_left_alone() {
        let mut text = String::from("x");
        assert!(!is_known(TypeId::of::<String>()) && !overwrite(&mut text, Poison::Ones));
        assert!(text == "x" && find_pattern(&mut text, Poison::Ones).is_empty());
    }

    #[test]
    fn values_that_neither_of_two_runs_wrote_are_counted() {
        let of = |values: &[u8], poison| find_pattern(&mut values.to_vec(), poison);
        let one = of(&[0xff, 1, 0xff, 0xff, 0xff, 2, 0xff], Poison::Ones);
        let other = of(&[0x5a, 1, 7, 0x5a, 0x5a, 0x5a, 9], Poison::Mixed);
        assert_eq!((one.also_in(&other), other.also_in(&one)), (3, 3));
        assert_eq!(one.also_in(&of(&[1; 7], Poison::Mixed)), 0);
    }
}
