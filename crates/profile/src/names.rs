//! Names known only at run time: each becomes a site once, and is then found without a lock.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Mutex;

use crate::alloc::apart;
use crate::kind::Kind;
use crate::site::Site;
use crate::sync::locked;

/// Longest name or text argument in bytes; longer ones are cut and end in `…` and a hash of the whole, so different
/// names stay different.
pub(crate) const LONGEST: usize = 256;
/// Number of different names; further ones share a site.
const MAX_NAMES: usize = if cfg!(miri) { 64 } else { 1 << 14 };

static OTHERS: Site = Site::new("(more names)", file!(), line!());

type Sites = HashMap<&'static str, &'static Site>;

/// Sites by name, for each kind, because operations of devices may have the same names as spans.
static NAMES: Mutex<Vec<Sites>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: RefCell<Sites> = RefCell::default();
}

/// `text` cut to [`LONGEST`] bytes, with a mark and a hash of 32 bits.
pub(crate) fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    Cow::Owned(cut(text))
}

#[cold]
fn cut(text: &str) -> String {
    // FNV-1a: the same in every version and on every machine, because profiles are compared by name.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mark = format!("…{hash:08x}");
    let end = (0..=LONGEST - mark.len()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{mark}", text.get(..end).unwrap_or_default())
}

/// The site of `name`. Spans with the same name are one operation; its location is the first that used the name.
pub(crate) fn site(name: &str, place: &'static Location<'static>) -> &'static Site {
    let name = shortened(name);
    // While the thread ends, its table is gone.
    let own = OWN.try_with(|own| own.try_borrow().ok()?.get(name.as_ref()).copied()).ok().flatten();
    own.unwrap_or_else(|| look_up(&name, place))
}

/// The site of a name known at run time. Spans with the same name are one operation; its location is the first that used
/// the name. Beyond 16384 names, spans share the operation `(more names)`.
pub fn site_at(name: &str, file: &str, line: u32) -> &'static Site {
    registered(&shortened(name), Kind::Cpu, label(file), line).unwrap_or(&OTHERS)
}

/// The site of a device operation, which has no source location.
pub(crate) fn site_of_kind(name: &str, kind: Kind) -> &'static Site {
    registered(&shortened(name), kind, "", 0).unwrap_or(&OTHERS)
}

#[cold]
fn look_up(name: &str, place: &'static Location<'static>) -> &'static Site {
    let _apart = apart();
    let Some(site) = registered(name, Kind::Cpu, place.file(), place.line()) else { return &OTHERS };
    let _ = OWN.try_with(|own| own.try_borrow_mut().map(|mut own| own.insert(site.name, site)));
    site
}

/// The site of `name`, made on its first use; `None` if there are too many.
fn registered(name: &str, kind: Kind, file: &'static str, line: u32) -> Option<&'static Site> {
    let mut names = locked(&NAMES);
    let count: usize = names.iter().map(HashMap::len).sum();
    if names.is_empty() {
        names.resize_with(Kind::ALL.len(), Sites::default);
    }
    let sites = &mut names[kind as usize];
    let known = sites.get(name).copied();
    if known.is_some() || count >= MAX_NAMES {
        return known;
    }
    let site: &'static Site = Box::leak(Box::new(Site::new(String::leak(name.to_string()), file, line).kind(kind)));
    sites.insert(site.name, site);
    Some(site)
}

/// The name of an argument as [`Guard::arg`](crate::Guard::arg) takes it. It is kept for the rest of the program; there
/// can be 16384 of them.
pub fn label(text: &str) -> &'static str {
    static LABELS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let text = shortened(text);
    let mut labels = locked(&LABELS);
    let labels = labels.get_or_insert_default();
    if let Some(known) = labels.get(text.as_ref()) {
        return known;
    }
    if labels.len() >= MAX_NAMES {
        return OTHERS.name;
    }
    let kept: &'static str = String::leak(text.into_owned());
    labels.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(shortened("short"), "short");
        for text in ["x".repeat(1 << 12), "é".repeat(1 << 11), "🦀".repeat(300)] {
            let cut = shortened(&text);
            assert!(
                cut.len() <= LONGEST && cut.len() > LONGEST - 8 && cut.chars().rev().nth(8) == Some('…'),
                "{}",
                cut.len()
            );
        }
        let same = "x".repeat(LONGEST);
        assert_ne!(shortened(&format!("{same}a")), shortened(&format!("{same}b")));
    }

    #[test]
    fn a_name_is_one_site_on_all_threads_and_their_number_is_bounded() {
        let here = Location::caller();
        let first = site("one name", here);
        let other = std::thread::spawn(move || std::ptr::from_ref(site("one name", here)) as usize);
        assert_eq!(other.join().unwrap(), std::ptr::from_ref(first) as usize);
        for number in 0..MAX_NAMES + 10 {
            site(&format!("name {number}"), here);
        }
        assert_eq!(site("one too many", here).name, OTHERS.name);
        assert_eq!(site("one name", here).name, "one name");
    }
}
