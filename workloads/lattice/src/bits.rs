//! A small bit stream: least significant bit first, fields of up to 64 bits, no padding between fields.

/// Appends fields to a byte slice that is exactly long enough.
pub(super) struct BitWriter<'a> {
    out: &'a mut [u8],
    at: usize,
    held: u64,
    fill: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(out: &'a mut [u8]) -> Self {
        BitWriter { out, at: 0, held: 0, fill: 0 }
    }

    /// Appends the low `bits` bits of `value`, whose other bits must be zero.
    #[inline(always)]
    pub(super) fn put(&mut self, value: u64, bits: u32) {
        if bits > 32 {
            self.put_short(value & 0xffff_ffff, 32);
            self.put_short(value >> 32, bits - 32);
        } else {
            self.put_short(value, bits);
        }
    }

    #[inline(always)]
    fn put_short(&mut self, value: u64, bits: u32) {
        // fill < 32 on entry, so 32 more bits always fit.
        self.held |= value << self.fill;
        self.fill += bits;
        if self.fill >= 32 {
            self.out[self.at..self.at + 4].copy_from_slice(&(self.held as u32).to_le_bytes());
            self.at += 4;
            self.held >>= 32;
            self.fill -= 32;
        }
    }

    /// Writes the buffered bits; the rest of the last byte is zero.
    pub(super) fn finish(self) {
        let left = (self.fill as usize).div_ceil(8);
        self.out[self.at..self.at + left].copy_from_slice(&self.held.to_le_bytes()[..left]);
    }
}

/// Reads fields back.
pub(super) struct BitReader<'a> {
    from: &'a [u8],
    at: usize,
    held: u64,
    fill: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(from: &'a [u8]) -> Self {
        BitReader { from, at: 0, held: 0, fill: 0 }
    }

    /// Starts at bit `bit` of the stream.
    pub(super) fn starting_at(from: &'a [u8], bit: usize) -> Self {
        let mut reader = BitReader::new(from.get(bit / 8..).unwrap_or_default());
        reader.get((bit % 8) as u32);
        reader
    }

    /// The next `bits` bits; past the end of the stream they read as zero.
    #[inline(always)]
    pub(super) fn get(&mut self, bits: u32) -> u64 {
        if bits > 32 {
            let low = self.get_short(32);
            low | self.get_short(bits - 32) << 32
        } else {
            self.get_short(bits)
        }
    }

    #[inline(always)]
    fn get_short(&mut self, bits: u32) -> u64 {
        if self.fill < bits {
            let next = match self.from.get(self.at..self.at + 4) {
                Some(bytes) => u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
                None => self.tail(),
            };
            self.at += 4;
            self.held |= u64::from(next) << self.fill;
            self.fill += 32;
        }
        let value = self.held & ((1u64 << bits) - 1);
        self.held >>= bits;
        self.fill -= bits;
        value
    }

    #[cold]
    fn tail(&self) -> u32 {
        let rest = self.from.get(self.at..).unwrap_or_default();
        rest.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
    }
}
