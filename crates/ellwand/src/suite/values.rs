//! Counts the values of an answer in its `Debug` text, the only form that every answer has.

use std::fmt::{self, Debug, Write};

/// Number of values of numbers, `bool`s, variants without fields, and lists, sets and tuples of these; 0 for empty texts.
/// `None` for any other type.
pub(super) fn count(value: &dyn Debug) -> Option<usize> {
    let mut counter = Counter { values: 0, last: ',' };
    write!(counter, "{value:?}").ok().map(|()| counter.values)
}

struct Counter {
    values: usize,
    /// The last character; a quotation mark only inside a text.
    last: char,
}

impl fmt::Write for Counter {
    /// Fails at the first character that no list of plain values has.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| {
            let outside = "[](){}, ".contains(self.last);
            self.last = match (self.last, c) {
                ('"', '"') => ' ',
                ('"', _) | ('.', '.') | (_, ':' | '\'') => return Err(fmt::Error),
                (last, ' ') if last != ',' => return Err(fmt::Error),
                // A name of a type or of a variant with fields.
                (_, '(' | '[' | '{' | '"') if !outside => return Err(fmt::Error),
                _ => c,
            };
            self.values += usize::from(outside && !"[](){}, \"".contains(c));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code, reason = "only the text counts")]
    enum Shape {
        Empty,
        Round(u8),
        Flat { width: u8 },
    }

    #[test]
    fn plain_values_are_counted() {
        assert_eq!(count(&7_u64), Some(1));
        assert_eq!(count(&[1.5, -0.0, f64::NAN, f64::NEG_INFINITY, 1e-300]), Some(5));
        assert_eq!(count(&(vec![vec![1, 2], vec![]], [true, false], (b'x',))), Some(5));
        assert_eq!(count(&[Shape::Empty, Shape::Empty]), Some(2));
        assert_eq!(count(&std::collections::BTreeSet::from([1, 2])), Some(2));
        assert_eq!(count(&(0..1000).collect::<Vec<i32>>()), Some(1000));
        assert_eq!([count(&()), count(&[(); 3]), count(&["", ""]), count(&Vec::<u8>::new())], [Some(0); 4]);
    }

    #[test]
    fn values_of_other_types_are_not() {
        for value in
            [&"1" as &dyn Debug, &["", ", "], &'1', &Some(3), &(0..5), &std::collections::BTreeMap::from([(1, 2)])]
        {
            assert_eq!(count(value), None, "{value:?}");
        }
        assert_eq!([count(&Shape::Round(2)), count(&Shape::Flat { width: 3 }), count(&[Some([1])])], [None; 3]);
    }
}
