//! The wire format of protocol buffers, for writing. A writer for a few messages takes a hundred lines; generated code
//! takes thousands and needs the protobuf compiler.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
}

impl Message {
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    pub(super) fn uint(&mut self, field: u32, value: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    /// A signed number of type int64; negative ones take ten bytes.
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

    pub(super) fn block(&mut self, field: u32, bytes: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(super) fn text(&mut self, field: u32, text: &str) -> &mut Self {
        self.block(field, text.as_bytes())
    }

    pub(super) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(field, 2);
        let start = self.bytes.len();
        fill(self);
        // The length, usually one byte, precedes the content.
        let end = self.bytes.len();
        self.varint((end - start) as u64);
        let length = self.bytes.len() - end;
        self.bytes[start..].rotate_right(length);
        self
    }

    /// Numbers as one packed field.
    pub(super) fn packed(&mut self, field: u32, values: impl IntoIterator<Item = u64>) -> &mut Self {
        self.message(field, |inner| values.into_iter().for_each(|value| inner.varint(value)))
    }
}
