//! The advice to measure on huge pages. Each process gets other physical pages, which decides what its caches keep. With 4 KiB
//! pages, processes of memory-bound code then differ by several per cent, which more rounds do not average out.

use ellwand_bench::compare::{Call, Decision};
use ellwand_bench::environment::{huge_pages, second_level_cache};
use ellwand_core::stats::{Difference, mean_interval};

use super::rows::{Row, Said};

/// Standard deviation of the ratio of both copies of the baseline, over blocks, from which the advice is given.
const SCATTER: f64 = 0.02;

/// What may decide an undecided comparison of data beyond the second-level cache whose processes differ, if the system grants
/// huge pages to those who ask, and the C library can ask.
pub(super) fn advice(row: &Row, decision: &Decision) -> Option<String> {
    let is_open = matches!(row.said, Said::Call(Call::As(Difference::Undecided { .. }) | Call::Unsettled(_)));
    let is_asked = std::env::var("GLIBC_TUNABLES").is_ok_and(|tunables| tunables.contains("hugetlb"));
    let can_ask = cfg!(target_env = "gnu") && !is_asked && huge_pages().as_deref() == Some("madvise");
    if is_open && can_ask { scattered(decision, second_level_cache()) } else { None }
}

/// The advice for data of more than `cache` bytes.
fn scattered(decision: &Decision, cache: u64) -> Option<String> {
    let is_beyond = decision.reported.work.iter().flatten().any(|work| work.footprint() > cache);
    let control: Vec<f64> = decision.blocks.iter().map(|block| block.control).collect();
    // Any confidence level will do: only the standard deviation is used.
    let sd = mean_interval(&control, 0.99).ok().filter(|_| is_beyond).map(|interval| interval.sd)?;
    (sd >= SCATTER).then(|| {
        format!(
            "two processes of the same code differ by {:.0} % (standard deviation), as they do if their data lie on other pages of \
             memory; on huge pages they differ less: GLIBC_TUNABLES=glibc.malloc.hugetlb=1 before this command gives them to both sides",
            100.0 * sd
        )
    })
}

#[cfg(test)]
mod tests {
    use ellwand_core::Work;

    use super::*;
    use crate::cli::rows::samples::row;

    #[test]
    fn processes_that_differ_beyond_the_cache_lead_to_the_advice() {
        let decision = |bytes: u64, scatter: f64| {
            let mut decision = row(Call::As(Difference::Undecided { blocks_needed: None }), 0.0).result.unwrap();
            decision.reported.work[0] = Some(Work::items("values", 1).bytes(bytes, 0));
            for (index, block) in decision.blocks.iter_mut().enumerate() {
                block.control = if index % 2 == 0 { scatter } else { -scatter };
            }
            decision
        };
        let advice = scattered(&decision(9 << 20, 0.08), 1 << 20).unwrap();
        assert!(advice.starts_with("two processes of the same code differ by 9 %"), "{advice}");
        assert_eq!(scattered(&decision(9 << 20, 0.01), 1 << 20), None, "they agree");
        assert_eq!(scattered(&decision(9 << 10, 0.08), 1 << 20), None, "the data fit into the cache");
    }
}
