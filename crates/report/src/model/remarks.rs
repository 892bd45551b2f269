//! Merges equal remarks on rows.

use super::build::push_new;
use super::{Remark, Row};

/// The remarks of rows, with the number of rows for each. Remarks that differ only in their number of slots are merged, and
/// the slots are added.
pub(super) fn of(rows: &[Row]) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    for row in rows {
        for text in &row.warnings {
            match remarks.iter_mut().find_map(|remark| Some((merge_texts(&remark.text, text)?, remark))) {
                Some((both, remark)) => {
                    remark.rows += 1;
                    remark.text = both;
                    push_new(&mut remark.implementations, &row.implementation);
                }
                None => remarks.push(Remark {
                    text: text.clone(),
                    rows: 1,
                    of: rows.len(),
                    implementations: vec![row.implementation.clone()],
                }),
            }
        }
    }
    remarks
}

/// One text for two remarks that are equal except perhaps for their numbers of slots.
pub(crate) fn merge_texts(a: &str, b: &str) -> Option<String> {
    if let (Some(one), Some(other)) = (Counted::find(a), Counted::find(b)) {
        let (some, all) = (one.some + other.some, one.all + other.all);
        let same = (one.before, one.after) == (other.before, other.after);
        return same.then(|| format!("{}in {some} of {all} slots{}", one.before, one.after));
    }
    (a == b).then(|| a.to_string())
}

/// A text that contains `in N of M slots`.
struct Counted<'a> {
    before: &'a str,
    some: u64,
    all: u64,
    after: &'a str,
}

impl<'a> Counted<'a> {
    fn find(text: &'a str) -> Option<Self> {
        let (head, after) = text.split_once(" slots")?;
        let (head, all) = head.rsplit_once(" of ")?;
        let (before, some) = head.rsplit_once("in ")?;
        Some(Self { before, some: some.parse().ok()?, all: all.parse().ok()?, after })
    }
}

#[cfg(test)]
mod tests {
    use super::merge_texts;

    #[test]
    fn remarks_that_differ_in_their_slots_alone_are_one_that_counts_all() {
        let slowed = |some: u64, why: &str| {
            format!("throttled: the device slowed itself down ({why}) in {some} of 11 slots; slow")
        };
        assert_eq!(
            merge_texts(&slowed(4, "power"), &slowed(7, "power")).unwrap(),
            "throttled: the device slowed itself down (power) in 11 of 22 slots; slow"
        );
        assert_eq!(merge_texts(&slowed(4, "power"), &slowed(4, "heat")), None);
        assert_eq!(merge_texts("one in 3 processes", "one in 3 processes").as_deref(), Some("one in 3 processes"));
        assert_eq!(merge_texts("one in 3 processes", "one in 4 processes"), None);
    }
}
