//! The wire format of protocol buffers, for writing. Two messages of two formats need a hundred lines; generated code
//! for them has thousands, needs its compiler, and takes three times as long per span.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
}

impl Message {
    pub(super) fn varint(&mut self, value: u64) {
        let mut bytes = [0; 10];
        let length = put_varint(value, &mut bytes);
        self.bytes.extend_from_slice(&bytes[..length]);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    pub(super) fn uint(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    /// A signed number of type int64: negative ones take ten bytes.
    pub(super) fn int(&mut self, field: u32, value: i64) -> &mut Self {
        self.uint(field, value.cast_unsigned())
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 1);
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn double(&mut self, field: u32, value: f64) -> &mut Self {
        self.fixed64(field, value.to_bits())
    }

    /// The head of a field of `length` bytes, which the caller appends.
    pub(super) fn head(&mut self, field: u32, length: usize) -> &mut Self {
        self.key(field, 2);
        self.varint(length as u64);
        self
    }

    pub(super) fn block(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.head(field, bytes.len());
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.block(field, text.as_bytes())
    }

    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::default();
        fill(&mut inner);
        self.block(field, &inner.bytes)
    }

    /// Numbers as one packed field.
    pub(super) fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) -> &mut Self {
        self.message(field, |inner| values.into_iter().for_each(|value| inner.varint(value)))
    }
}

/// Writes a varint to the first of at least ten bytes; returns its length.
#[inline]
pub(super) fn put_varint(mut value: u64, place: &mut [u8]) -> usize {
    let mut length = 0;
    for byte in place {
        length += 1;
        if value < 0x80 {
            *byte = value as u8;
            break;
        }
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    length
}
