//! The checksum of a line: its last member, `"crc32"`, over every byte before it (CRC-32 as in zlib and PNG).

/// Separates the sealed bytes from their checksum.
const MEMBER: &str = ",\"crc32\":\"";
/// Length of the end of a sealed line: eight hexadecimal digits and the end of the object.
const TAIL: usize = "00000000\"}".len();

/// Adds the checksum to `line`, a JSON object as [`super::line`] writes it.
pub fn seal(line: &str) -> String {
    let Some(body) = line.strip_suffix('}') else { return line.to_string() };
    format!("{body}{MEMBER}{:08x}\"}}", crc32fast::hash(body.as_bytes()))
}

/// Result of checking a line's checksum.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seal {
    /// The line has no checksum: it is from an older version, or the checksum itself is damaged.
    Absent,
    Whole,
    Broken,
}

pub(super) fn check(line: &str) -> Seal {
    let line = line.trim_end();
    let Some((body, tail)) = line.rsplit_once(MEMBER).filter(|(_, tail)| tail.len() == TAIL) else {
        return Seal::Absent;
    };
    if tail == format!("{:08x}\"}}", crc32fast::hash(body.as_bytes())) { Seal::Whole } else { Seal::Broken }
}
