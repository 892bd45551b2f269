//! Statistics on slices: pure functions, no state, no clock.
//!
//! There are three kinds. *Descriptions* of one set of values: [`quantile`], [`median`], [`summary`] and so on. *Change
//! points* of a series: [`change_points()`]. And the *verdict of a comparison*: is the candidate slower than the
//! baseline, by how much, and how often is that answer wrong? The rest of this page is about verdicts.
//!
//! # From times to a verdict
//!
//! ```text
//! round    baseline and candidate one after the other, order by a fair coin         times t_b, t_c
//! block    a fresh pair of processes, spawn order by a coin                         d = location of ln(t_c / t_b)
//! look     after 6, 8, 10, 12, 16, .. blocks: decide on d_1 .. d_n                  slower, faster, same, undecided
//! sweep    many comparisons: which rows may be reported                             e-BH
//! ```
//!
//! | step | function | guarantee |
//! |---|---|---|
//! | one block | [`block_value`] | odd: swapping the sides negates the value exactly |
//! | the ratio and its interval | [`mean_interval`], [`Centre`] | Student's interval; the blocks are the replicates, never the iterations |
//! | several looks | [`Spending`] | the intervals of all looks hold together with probability 1 - alpha |
//! | a direction | [`evidence()`] | false positives at most alpha, for any noise and any stopping rule |
//! | the verdict | [`decide`] | interval *and* evidence for slower or faster, interval for same |
//! | the verdict, blocks of unequal precision | [`decide_weighted`] | as above |
//! | a whole report | [`ebh::called`] | at most a share alpha of the reported rows is false, under any dependence between rows |
//! | a certificate | [`proportion_upper_bound`] | exact bound on a rate from a count |
//!
//! # Why blocks
//!
//! Inside one process the page placement of a buffer is a constant effect of 0.3 to 0.9 % that no amount of sampling
//! can show: 99 % intervals inside a process called identical code different in half of all sessions. Every fresh
//! process draws a new placement, so processes are the unit of replication (Kalibera and Jones 2013; Mytkowicz et al.
//! 2009), and a block is one number.
//!
//! # Why a coin
//!
//! If the sides are identical, the other outcome of a coin would have given the same times under swapped names: given
//! |d_i| and all earlier blocks, the sign of d_i is fair, whatever the machine did. [`decide`] requires evidence of 2/alpha in
//! each direction, so a comparison gives a false positive, in either direction, with probability at most alpha. The module of
//! [`evidence()`] has the proof, `docs/verdict.md` what it requires of a comparison: the order drawn by a coin per round and
//! the spawn order per block; no block dropped because of its value; plan and rope fixed in advance.
//!
//! Student's interval is a second test with other weaknesses: it is correct if blocks are independent, and it bounds
//! the *size* of the difference. If it fails (under drift: see the table), the evidence still bounds the false
//! positives. "Same" uses the interval, so its error rate is that of the interval.
//!
//! Testing several metrics of one comparison (minimum, median, 90th percentile of a slot) makes several comparisons:
//! divide alpha among their rules.
//!
//! # Measured error rates
//!
//! 20 000 comparisons per row, seeded synthetic noise, alpha 1 %, at most 32 blocks, stopping at the first verdict.
//! *Gaussian*: 0.33 % between processes, medians of ten rounds of 0.38 %, as measured on a busy 2-core virtual machine.
//! *Heavy tails*: t with 3 degrees of freedom, scale 0.3 %. *Drift*: biased by 0.5 %, plus 0.1 % per block.
//! *Autocorrelated*: 0.9 from block to block, deviation 1 %. *Two placements*: one costs 0.9 %. *Outliers*: as Gaussian,
//! but one process in twenty is off by 6 %. The coin decides which side is affected.
//!
//! | | Gaussian | heavy tails | drift | autocorrelated | two placements | outliers |
//! |---|---|---|---|---|---|---|
//! | identical, no region: called different (bound 1 %) | 0.30 % | 0.16 % | 0.52 % | 0.29 % | 0.22 % | 0.22 % |
//! | identical, region 1 %: called different | 0 | 0 | 0 | 0 | 0 | 0 |
//! | identical, region 1 %: called the same, blocks | 100 %, 7 | 100 %, 8 | 0.1 %, 32 | 91 %, 18 | 100 %, 12 | 99.4 %, 10 |
//! | +1 % (the edge): called slower (bound 0.5 %) | 0.17 % | 0.10 % | 0.23 % | 0.14 % | 0.10 % | 0.12 % |
//! | +1.01 %: called the same (0.5 % if blocks are independent) | 0.45 % | 0.18 % | **1.38 %** | 0.76 % | 0.50 % | 0.26 % |
//! | +1.5 %: called slower, blocks | 99.9 %, 14 | 95 %, 18 | 2.0 %, 32 | 35 %, 28 | 59 %, 28 | 77 %, 18 |
//! | +2 %: called slower, blocks | 100 %, 9 | 99.9 %, 11 | 23 %, 29 | 87 %, 19 | 100 %, 12 | 91 %, 14 |
//! | +3 %: called slower, blocks | 100 %, 9 | 100 %, 9 | 99.9 %, 9 | 99.8 %, 11 | 100 %, 9 | 99 %, 13 |
//! | +1 %, region 0.5 %: called slower, blocks | 99.9 %, 14 | 95 %, 17 | 2.0 %, 32 | 36 %, 28 | 60 %, 28 | 77 %, 18 |
//! | reported interval misses +2 % | 0.23 % | 0.11 % | 0.57 % | 0.41 % | 0.17 % | 0.14 % |
//!
//! Blocks are means over comparisons. Evidence less than doubles with each block and must reach 200, of which the largest
//! stake has 0.4, so the look at 9 blocks is the first that can report a difference. The command `cargo test --release -p ellwand-stats table --
//! --ignored --nocapture` prints the table. The ordinary tests assert the main figures with fewer comparisons, and
//! include two controls that must fail: repeated looks without spending, and drift without the coin.
//!
//! # Limits
//!
//! A verdict compares what ran. Two builds that differ only in layout do differ, and are called different if that
//! exceeds the region. Blocks measured on one machine within minutes say nothing about another machine. Undecided is a
//! valid answer: at the edge of the region no number of blocks decides, and the forecast says so.
//!
//! The literature is listed in `docs/statistics.md`.

mod blocks;
mod boundary;
mod centre;
mod change_points;
mod clopper_pearson;
mod course;
mod describe;
pub mod ebh;
mod error;
mod evidence;
mod forecast;
mod random_effects;
mod slope;
pub mod special;
mod spending;
mod three;
mod verdict;
mod within;

#[cfg(test)]
mod simulation;

pub use blocks::{Copies, MeanInterval, Weighted, block_value, mean_interval};
pub use centre::Centre;
pub use change_points::{ChangePoint, Changes, change_points, far_at_end, median_step, precede_change};
pub use clopper_pearson::{proportion_interval, proportion_upper_bound};
pub use course::{Course, Guess, Leg};
pub use describe::{Summary, geometric_mean, median, median_interval, quantile, summary};
pub use error::StatsError;
pub use evidence::{Capital, Evidence, Outlook, Stakes, evidence, outlook, weighted_evidence};
pub use random_effects::{Variances, weights};
pub use slope::{Slope, common_slope};
pub use spending::{Curve, LOOKS, Spending};
pub use verdict::{Change, DecisionRule, Difference, decide, decide_weighted};
pub use within::{Estimate, Statistic, choose};
