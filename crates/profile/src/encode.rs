//! JSON as text, appended to a buffer. Written by hand, since a general writer costs ten times as much per span.

use std::io::{self, Write};

/// Bytes after which the buffer goes out.
const CHUNK: usize = 1 << 16;

/// A buffer in front of a writer. Errors of the writer are kept and returned by [`Encoder::finish`].
pub(crate) struct Encoder<'a> {
    buffer: Vec<u8>,
    out: &'a mut dyn Write,
    result: io::Result<()>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { buffer: Vec::with_capacity(CHUNK + 1024), out, result: Ok(()) }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.drain();
        self.result
    }

    fn drain(&mut self) {
        if self.result.is_ok() {
            self.result = self.out.write_all(&self.buffer);
        }
        self.buffer.clear();
    }

    /// Appends JSON text as it is.
    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        self.buffer.extend_from_slice(text.as_bytes());
        if self.buffer.len() >= CHUNK {
            self.drain();
        }
        self
    }

    /// Appends a JSON string. `<` is escaped, so that the text can lie in a script element of a page.
    pub(crate) fn string(&mut self, text: &str) -> &mut Self {
        self.raw("\"");
        let mut from = 0;
        for (at, byte) in text.bytes().enumerate() {
            let escape = match byte {
                b'"' => "\\\"".to_string(),
                b'\\' => "\\\\".to_string(),
                b'<' => "\\u003c".to_string(),
                0..0x20 | 0x7f => format!("\\u{byte:04x}"),
                _ => continue,
            };
            // Escaped bytes are ASCII, so both places are boundaries of characters.
            self.raw(text.get(from..at).unwrap_or_default()).raw(&escape);
            from = at + 1;
        }
        self.raw(text.get(from..).unwrap_or_default()).raw("\"")
    }

    /// Appends `,"name":`, or `"name":` for the first member.
    pub(crate) fn member(&mut self, first: bool, name: &str) -> &mut Self {
        if !first {
            self.raw(",");
        }
        self.string(name).raw(":")
    }

    /// Appends an integer.
    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        if value < 0 {
            self.buffer.push(b'-');
        }
        self.uint(value.unsigned_abs())
    }

    /// Appends an integer.
    pub(crate) fn uint(&mut self, mut value: u64) -> &mut Self {
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        while let Some(slot) = at.checked_sub(1).and_then(|next| digits.get_mut(next)) {
            *slot = b'0' + (value % 10) as u8;
            at -= 1;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.buffer.extend_from_slice(&digits[at..]);
        if self.buffer.len() >= CHUNK {
            self.drain();
        }
        self
    }

    /// Appends thousandths as a decimal number: 1500 is `1.5`.
    pub(crate) fn thousandths(&mut self, value: u64) -> &mut Self {
        self.uint(value / 1000);
        let rest = value % 1000;
        if rest > 0 {
            let digits = [b'.', b'0' + (rest / 100) as u8, b'0' + (rest / 10 % 10) as u8, b'0' + (rest % 10) as u8];
            let length = if rest.is_multiple_of(100) {
                2
            } else if rest.is_multiple_of(10) {
                3
            } else {
                4
            };
            self.buffer.extend_from_slice(&digits[..length]);
        }
        self
    }

    /// Appends nanoseconds, rounded to picoseconds; `null` if not finite.
    pub(crate) fn ns(&mut self, ns: f64) -> &mut Self {
        if !ns.is_finite() {
            return self.raw("null");
        }
        // Beyond this, rounding to thousandths would lose digits that the number has.
        if ns.abs() >= 9e15 {
            return self.number(ns);
        }
        if ns < 0.0 {
            self.raw("-");
        }
        self.thousandths((ns.abs() * 1e3).round() as u64)
    }

    /// Appends a number with all its digits; `null` if not finite.
    pub(crate) fn number(&mut self, value: f64) -> &mut Self {
        if value.is_finite() { self.raw(&format!("{value:?}")) } else { self.raw("null") }
    }

    /// Appends comma-separated values, each written by `each`.
    pub(crate) fn list<T>(&mut self, values: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        self.buffer.push(b'[');
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                self.buffer.push(b',');
            }
            each(self, value);
        }
        self.raw("]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl Fn(&mut Encoder)) -> String {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        write(&mut encoder);
        encoder.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_have_the_digits_they_need() {
        let ns = |value: f64| {
            text(|out| {
                out.ns(value);
            })
        };
        assert_eq!([ns(0.0), ns(1.5), ns(-0.25), ns(1e6), ns(0.0004)], ["0", "1.5", "-0.25", "1000000", "0"]);
        assert_eq!([ns(9_999.999), ns(1.001), ns(f64::NAN), ns(1e18)], ["9999.999", "1.001", "null", "1e18"]);
        assert_eq!(
            text(|out| {
                out.uint(u64::MAX);
            }),
            u64::MAX.to_string()
        );
        assert_eq!(
            text(|out| {
                out.int(i64::MIN);
            }),
            i64::MIN.to_string()
        );
    }

    #[test]
    fn strings_survive_a_reader_and_cannot_end_a_script() {
        for name in ["", "plain", "a\"b\\c\n\u{0}\u{7f}\u{1b}", "</script><!--", "π 𝄞", &"x<".repeat(100_000)] {
            let json = text(|out| {
                out.string(name);
            });
            assert!(!json.contains('<'));
            assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
        }
    }

    #[test]
    fn the_first_error_of_the_writer_is_returned() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut full = Full;
        let mut encoder = Encoder::new(&mut full);
        (0..CHUNK as u64).for_each(|value| {
            encoder.uint(value);
        });
        assert_eq!(encoder.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
