//! JSON as text, appended to a buffer. Written by hand, because a general writer costs ten times as much per span.

use std::io::{self, Write};

/// Size of the buffer: it is written out when full.
const CHUNK: usize = 1 << 16;
/// "00" to "99": two digits at a time take half the divisions.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut at = 0;
    while at < 100 {
        pairs[at] = [b'0' + (at / 10) as u8, b'0' + (at % 10) as u8];
        at += 1;
    }
    pairs
};

/// A buffer in front of a writer. Errors of the writer are kept and returned by [`Encoder::finish`].
pub(crate) struct Encoder<'a> {
    /// Of fixed size, so numbers are written in place; the first `len` bytes are text.
    buffer: Box<[u8; CHUNK]>,
    len: usize,
    out: &'a mut dyn Write,
    result: io::Result<()>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        Self { buffer: Box::new([0; CHUNK]), len: 0, out, result: Ok(()) }
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.drain();
        self.result
    }

    #[cold]
    fn drain(&mut self) {
        if self.result.is_ok() {
            self.result = self.out.write_all(&self.buffer[..self.len]);
        }
        self.len = 0;
    }

    /// The next `bytes` bytes of the buffer, to be filled.
    #[inline]
    fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.len + bytes > CHUNK {
            self.drain();
        }
        let from = self.len;
        self.len += bytes;
        &mut self.buffer[from..self.len]
    }

    pub(crate) fn raw(&mut self, text: &str) -> &mut Self {
        for part in text.as_bytes().chunks(CHUNK) {
            self.room(part.len()).copy_from_slice(part);
        }
        self
    }

    #[inline]
    pub(crate) fn byte(&mut self, byte: u8) {
        self.room(1)[0] = byte;
    }

    /// Ends a list that began with `[` and in which a comma follows each value.
    pub(crate) fn end_list(&mut self) {
        // The buffer is written out before new text is added, so the last text is always in it.
        if self.buffer[..self.len].ends_with(b",") {
            self.len -= 1;
        }
        self.byte(b']');
    }

    /// Appends a JSON string. Escapes `<`, so the text can be in a script element of a page.
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

    #[inline]
    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        if value < 0 {
            self.byte(b'-');
        }
        self.uint(value.unsigned_abs())
    }

    #[inline]
    pub(crate) fn uint(&mut self, mut value: u64) -> &mut Self {
        if value < 10 {
            self.byte(b'0' + value as u8);
            return self;
        }
        let digits = value.ilog10() as usize + 1;
        let mut places = self.room(digits).rchunks_exact_mut(2);
        for place in &mut places {
            place.copy_from_slice(&PAIRS[(value % 100) as usize]);
            value /= 100;
        }
        if let [first] = places.into_remainder() {
            *first = b'0' + value as u8;
        }
        self
    }

    /// Appends thousandths as a decimal number: 1500 is `1.5`.
    #[inline]
    pub(crate) fn thousandths(&mut self, value: u64) -> &mut Self {
        self.uint(value / 1000);
        let rest = (value % 1000) as usize;
        if rest > 0 {
            let [tens, ones] = PAIRS[rest % 100];
            let length = 2 + usize::from(!rest.is_multiple_of(100)) + usize::from(!rest.is_multiple_of(10));
            self.room(length).copy_from_slice(&[b'.', b'0' + (rest / 100) as u8, tens, ones][..length]);
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
            self.byte(b'-');
        }
        self.thousandths(rounded(ns.abs() * 1e3))
    }

    /// Appends a number with all its digits; `null` if not finite.
    pub(crate) fn number(&mut self, value: f64) -> &mut Self {
        if value.is_finite() { self.raw(&format!("{value:?}")) } else { self.raw("null") }
    }
}

/// The nearest integer of a number from 0 to 9.2e18. `round` is a call on processors without SSE 4.1.
#[inline]
fn rounded(value: f64) -> u64 {
    // From 2^52 on, every number is an integer, and half of one added to it would be rounded.
    let half = if value < (1_u64 << 52) as f64 { 0.5 } else { 0.0 };
    ((value + half) as i64).cast_unsigned()
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
        for name in [
            "",
            "plain",
            "a\"b\\c\n\u{0}\u{7f}\u{1b}",
            "</script><!--",
            "π 𝄞",
            &"x<".repeat(if cfg!(miri) { 100 } else { 100_000 }),
        ] {
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
        encoder.raw(&"x".repeat(3 * CHUNK)).uint(7);
        assert_eq!(encoder.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
