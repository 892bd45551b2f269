//! Reads a profile from a file and detects its format from the content.

mod document;
mod each;
mod error;
mod limits;
mod ours;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use ellwand_profile::Trace;
use flate2::bufread::MultiGzDecoder;
use serde::de::DeserializeSeed;

pub use error::{EXPECTED, Problem, ReadError};
pub use limits::{MAX_DETAILS, MAX_POINTS, MAX_SPANS, MAX_TEXT};

use document::{Document, Top};
pub(crate) use each::Each;
pub(crate) use limits::{counted, shortened};

/// A profile that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The profile, converted.
    pub trace: Trace,
    /// Notes on what was skipped or changed, one sentence each.
    pub notes: Vec<String>,
}

/// Reads a profile from a file.
///
/// # Errors
/// The file cannot be opened, is not a profile, is damaged or of a future version; the error names the file and the
/// place.
pub fn read(path: impl AsRef<Path>) -> Result<Imported, ReadError> {
    let path = path.as_ref();
    let opened = File::open(path).map_err(Problem::Io);
    opened.and_then(read_any).map_err(|problem| ReadError { path: Some(path.to_path_buf()), problem })
}

/// Reads a profile from a stream. Memory is bounded by [`MAX_SPANS`] and [`MAX_DETAILS`], not by the length of the
/// stream.
///
/// # Errors
/// As [`read`].
pub fn read_from(stream: impl Read) -> Result<Imported, ReadError> {
    read_any(stream).map_err(|problem| ReadError { path: None, problem })
}

fn read_any(stream: impl Read) -> Result<Imported, Problem> {
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    if stream.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        let unpacked = BufReader::with_capacity(1 << 16, MultiGzDecoder::new(stream));
        return read_json(unpacked);
    }
    read_json(stream)
}

fn read_json(mut stream: impl BufRead) -> Result<Imported, Problem> {
    if stream.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
        stream.consume(3);
    }
    match first_byte(&mut stream)? {
        None => return Err(Problem::Empty),
        Some(b'{' | b'[') => {}
        Some(byte) => {
            let found = format!("it starts with {:?} (byte 0x{byte:02x}), not with {{ or [", char::from(byte));
            return Err(Problem::NotAProfile { found });
        }
    }
    let mut document = Document::default();
    let mut json = serde_json::Deserializer::from_reader(limits::Limited::new(stream));
    let parsed = Top(&mut document).deserialize(&mut json);
    if let Err(error) = parsed {
        // The array of a Chrome trace may lack its end, because killed programs leave it open.
        let tolerated = document.is_array && document.chrome.events() > 0 && error.is_eof();
        if let Some(found) = document.version.filter(|found| *found > ellwand_profile::VERSION.into()) {
            return Err(Problem::Version { found, known: ellwand_profile::VERSION });
        }
        if !tolerated {
            return Err(Problem::of_json(error));
        }
        document.chrome.note(format!("the array of events has no end ({error}); events up to there were read"));
    } else if document.is_profile() {
        json.end().map_err(Problem::of_json)?;
    }
    document.finish()
}

/// The first byte that is not white space, which stays in the stream.
fn first_byte(stream: &mut impl BufRead) -> Result<Option<u8>, Problem> {
    loop {
        let buffer = stream.fill_buf()?;
        let space = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (byte, empty) = (buffer.get(space).copied(), buffer.is_empty());
        if byte.is_some() || empty {
            return Ok(byte);
        }
        // Lines and columns of later messages count from the first value; leading empty lines are rare.
        stream.consume(space);
    }
}
