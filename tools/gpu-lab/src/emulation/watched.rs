//! Emulated kernels under the race detector (`watch/watch.h`).

use std::path::PathBuf;
use std::process::Command;

use libloading::Library;

use super::library::Unmade;
use ellwand_gpu::Source;

type Buffers = unsafe extern "C" fn(*const u64, usize);

/// The detector's library; kernels compiled for it are linked with it.
pub(super) struct Watch {
    buffers: Buffers,
    _library: Library,
}

impl Watch {
    pub(super) fn open() -> Result<Self, Unmade> {
        let path = super::library::watch()?;
        let absent = |error: libloading::Error| Unmade::Absent(format!("{}: {error}", path.display()));
        // SAFETY: built from this repository's sources, without initialisers.
        let library = unsafe { Library::new(&path) }.map_err(absent)?;
        // SAFETY: as defined in `events.cpp`; not held longer than the library.
        let buffers = *unsafe { library.get::<Buffers>(b"watch_buffers\0") }.map_err(absent)?;
        Ok(Self { buffers, _library: library })
    }

    /// Passes the address and size of every buffer to this thread's detector.
    pub(super) fn add_buffers(&self, buffers: impl Iterator<Item = (u64, usize)>) {
        let words: Vec<u64> = buffers.flat_map(|(address, bytes)| [address, bytes as u64]).collect();
        // SAFETY: two words per buffer.
        unsafe { (self.buffers)(words.as_ptr(), words.len() / 2) };
    }
}

pub(super) fn build(source: &Source) -> Result<PathBuf, Unmade> {
    super::library::watched_kernels(source.name, &source.whole(), &source.kernels())
}

/// Replaces instruction addresses, which the detector writes as ` {LIBRARY+0x1234}`, by files and lines. Code of the
/// emulation itself has no kernel line; without `addr2line` the address stays.
pub(super) fn with_lines(said: &str) -> String {
    let mut parts = said.split(" {");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (place, rest) = part.split_once('}').unwrap_or((part, ""));
        match line_of(place) {
            Some(line) if line.is_empty() => text += rest,
            Some(line) => text += &format!(" ({line}){rest}"),
            None => text += &format!(" ({place}){rest}"),
        }
    }
    text
}

/// The line of a kernel's source for an instruction address.
fn line_of(place: &str) -> Option<String> {
    let (library, address) = place.split_once("+0x")?;
    // The known address is where a call returns to; the call is before it.
    let at = u64::from_str_radix(address, 16).ok()?.checked_sub(1)?;
    let said = Command::new("addr2line").arg("-ie").arg(library).arg(format!("{at:#x}")).output().ok()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut places = text.lines().filter_map(|line| line.split_whitespace().next()?.rsplit('/').next());
    Some(places.find(|place| place.contains(".cu")).unwrap_or_default().to_owned())
}
