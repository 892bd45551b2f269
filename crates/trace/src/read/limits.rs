//! Bounds on what a file can make this program store.

use std::io::{self, Read};

use serde::de::{Deserialize, DeserializeSeed, Deserializer};

use super::Each;

/// Maximum number of spans of a profile: at 32 bytes each, 1 GiB. Further spans of a Chrome trace count as lost.
pub const MAX_SPANS: usize = 1 << 25;
/// Maximum number of details of a profile. Further ones count as lost.
pub const MAX_DETAILS: usize = 1 << 22;
/// Maximum number of points in all tracks of a profile.
pub const MAX_POINTS: usize = 1 << 24;
/// Maximum length of the text after decompression, in bytes.
pub const MAX_TEXT: u64 = 1 << 34;

/// Maximum length of a string in bytes, because the parser holds a whole string.
const MAX_STRING: u64 = 1 << 24;
/// Maximum nesting depth of brackets: the parser stores a byte for each, even in skipped values.
const MAX_LEVELS: u64 = 1 << 20;

/// A text of at most `most` characters; longer ones end in an ellipsis.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_string(),
    }
}

/// A count with its noun.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A reader of JSON that fails where the parser would store too much: a small compressed file can contain an endless
/// text, and a large one a single string or nothing but brackets.
pub(crate) struct Limited<R> {
    inner: R,
    left: u64,
    /// Bytes of the current string so far; `None` outside strings.
    string: Option<u64>,
    escaped: bool,
    levels: u64,
}

impl<R> Limited<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, left: MAX_TEXT, string: None, escaped: false, levels: 0 }
    }

    fn follow(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match (self.string, byte) {
                (Some(_), _) if self.escaped => self.escaped = false,
                (Some(_), b'\\') => self.escaped = true,
                (Some(_), b'"') => self.string = None,
                (Some(length), _) => self.string = Some(length + 1),
                (None, b'"') => self.string = Some(0),
                (None, b'[' | b'{') => self.levels += 1,
                (None, b']' | b'}') => self.levels = self.levels.saturating_sub(1),
                _ => {}
            }
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(got as u64).ok_or_else(|| {
            io::Error::other(format!("its text is longer than {MAX_TEXT} bytes, the most that is read; record less"))
        })?;
        self.follow(buffer.get(..got).unwrap_or_default());
        if self.string.is_some_and(|length| length > MAX_STRING) {
            return Err(io::Error::other(format!(
                "one of its strings is longer than {MAX_STRING} bytes, the most that is read; is the file damaged?"
            )));
        }
        if self.levels > MAX_LEVELS {
            return Err(io::Error::other(format!(
                "its brackets are nested more than {MAX_LEVELS} levels deep, the most that is read; is the file damaged?"
            )));
        }
        Ok(got)
    }
}

/// A list that fails beyond [`MAX_SPANS`] values instead of filling the memory.
#[derive(Default)]
pub(crate) struct Column<T>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Column<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut column = Vec::new();
        let take = |value| {
            if column.len() >= MAX_SPANS {
                return Err(format!("more than {MAX_SPANS} values, the most that are read"));
            }
            column.push(value);
            Ok(())
        };
        Each::new("an array of numbers", take).deserialize(deserializer)?;
        Ok(Self(column))
    }
}

/// A number, or NaN for `null`.
#[derive(Default, Clone, Copy)]
pub(crate) struct Number(pub(crate) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<f64>::deserialize(deserializer).map(|value| Self(value.unwrap_or(f64::NAN)))
    }
}
