//! Counts the values of an answer in its `Debug` text, the only form that every answer has.

use std::fmt::{self, Debug, Write};

/// Number of values in the `Debug` text: numbers, non-empty texts and characters, `true`, `None`, variants without fields.
/// Names of types, variants with fields, and fields do not count.
pub(super) fn count(value: &dyn Debug) -> usize {
    let mut counter = Counter::default();
    // A user's Debug may fail half-way; the values until then still count.
    let _ = write!(counter, "{value:?}");
    counter.end()
}

/// The word that is being read.
#[derive(Default, Clone, Copy, PartialEq)]
enum Word {
    #[default]
    Nothing,
    Number,
    Name,
    /// A name and a space: of a type if a brace follows.
    Spaced,
    /// The dots of a type that hides fields.
    Dots,
}

#[derive(Default)]
struct Counter {
    values: usize,
    word: Word,
    /// Inside a text or character: how it ends, and whether it has contents.
    quote: Option<(char, bool)>,
    escaped: bool,
}

impl Counter {
    fn end(self) -> usize {
        self.values + usize::from(matches!(self.word, Word::Number | Word::Name | Word::Spaced))
    }

    fn quoted(&mut self, c: char, end: char, filled: bool) {
        if c == end && !self.escaped {
            self.values += usize::from(filled);
            self.quote = None;
        } else {
            self.escaped = c == '\\' && !self.escaped;
            self.quote = Some((end, true));
        }
    }

    fn plain(&mut self, c: char) {
        let before = self.word;
        self.word = match (before, c) {
            (Word::Name | Word::Spaced, ' ') => Word::Spaced,
            (_, '[' | ']' | '(' | ')' | '{' | '}' | ',' | ':' | ' ') => Word::Nothing,
            (Word::Nothing | Word::Spaced, '"' | '\'') => {
                self.quote = Some((c, false));
                Word::Nothing
            }
            (Word::Nothing | Word::Spaced, '.') => Word::Dots,
            (Word::Nothing | Word::Spaced, c) if c.is_alphabetic() || c == '_' => Word::Name,
            (Word::Nothing | Word::Spaced, _) => Word::Number,
            (word, _) => return self.word = word,
        };
        self.values += usize::from(match before {
            Word::Number => true,
            Word::Name => !matches!(c, '(' | ':' | ' '),
            Word::Spaced => !matches!(c, '{' | ' '),
            Word::Nothing | Word::Dots => false,
        });
    }
}

impl fmt::Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match self.quote {
                Some((end, filled)) => self.quoted(c, end, filled),
                None => self.plain(c),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code, reason = "only the text counts")]
    struct Point {
        x: f64,
        name: &'static str,
    }
    #[derive(Debug)]
    #[expect(dead_code, reason = "only the text counts")]
    enum Shape {
        Empty,
        Round(u8),
        Flat { at: Point },
    }

    #[test]
    fn values_are_counted_and_names_are_not() {
        assert_eq!(count(&7_u64), 1);
        assert_eq!(count(&[1.5, -0.0, f64::NAN, f64::NEG_INFINITY, 1e-300]), 5);
        assert_eq!(count(&(vec![vec![1, 2], vec![]], [true, false])), 4);
        assert_eq!(count(&["a, b", "", "\"(1, 2)\\"]), 2);
        assert_eq!(count(&('\'', "it's", b'x')), 3);
        assert_eq!(count(&[Some(3), None]), 2);
        assert_eq!(count(&Point { x: 1.0, name: "a: b" }), 2);
        let shapes = [Shape::Empty, Shape::Round(2), Shape::Flat { at: Point { x: 0.0, name: "" } }, Shape::Empty];
        assert_eq!(count(&shapes), 4);
        assert_eq!(count(&Shape::Empty), 1);
        assert_eq!(count(&std::collections::BTreeMap::from([(1, "a"), (2, "b")])), 4);
        assert_eq!(count(&(0..1000).collect::<Vec<i32>>()), 1000);
        assert_eq!((count(&()), count(&[(); 3]), count(&Vec::<u8>::new())), (0, 0, 0));
    }
}
