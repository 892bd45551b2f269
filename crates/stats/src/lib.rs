//! Statistics on slices: pure functions, no state, no clock.
//!
//! There are three kinds. *Descriptions* of one set of values: [`quantile`], [`median`], [`summary`] and so on. *Change
//! points* of a series: [`change_points()`]. And the *verdict of a comparison*: is the candidate slower than the
//! baseline, by how much, and how often is that answer wrong? The rest of this page is about verdicts.
//!
//! # From times to a verdict
//!
//! ```text
//! round    baseline, candidate and baseline again, order drawn by coins             times t_b, t_c, t_b'
//! block    three fresh processes, start order drawn by coins                        d = location of ln(t_c / t_b), over both copies
//! look     after 6, 9, 12, 16, .. blocks: decide on d_1 .. d_n                      slower, faster, same, undecided
//! sweep    many comparisons: which rows may be reported                             e-BH
//! ```
//!
//! | step | function | guarantee |
//! |---|---|---|
//! | one block | [`Statistic::of_copies`], [`block_value`] | odd: swapping two arms negates the value exactly |
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
//! If candidate and baseline are identical, another outcome of the coins would have given the same times under swapped
//! names: given the times of a block without names and all earlier blocks, the candidate has each place among the three arms
//! with the same probability, whatever the machine did. [`decide`] requires evidence of 2/alpha in each direction, so a
//! comparison gives a false positive, in either direction, with probability at most alpha. The modules of [`evidence()`] have
//! the proof, `docs/verdict.md` what it requires of a comparison: the order drawn by coins per round and the start order per
//! block; no block dropped because of its value; plan and rope fixed in advance.
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
//! 20 000 comparisons per row, seeded synthetic noise, alpha 1 %, at most 32 blocks, stopping at the first verdict. Of the
//! 1.5 % that `ellwand compare` promises, this 1 % is for the time and 0.5 % for slow modes.
//! *Gaussian*: 0.33 % between two processes, medians of ten rounds of 0.38 %, as measured on a busy 2-core virtual machine.
//! *Heavy tails*: t with 3 degrees of freedom, scale 0.3 %. *Drift*: each arm is slower than the one before it, by 0.5 %
//! in the first block and 0.1 % more in each later one. *Autocorrelated*: the same, but 0.9 from block to block, deviation
//! 1 %. *Two placements*: each process has one or the other, which costs 0.9 %. *Outliers*: as Gaussian, but one process in
//! twenty is slower by 6 %.
//!
//! | | Gaussian | heavy tails | drift | autocorrelated | two placements | outliers |
//! |---|---|---|---|---|---|---|
//! | identical, no region: called different (at most alpha) | 0.22 % | 0.14 % | 0.39 % | 0.20 % | 0.25 % | 0.07 % |
//! | identical, region 1 %: called different | 0 | 0 | 0 | 0 | 0 | 0 |
//! | identical, region 1 %: called the same, blocks | 100 %, 6 | 100 %, 8 | 1.4 %, 32 | 80 %, 21 | 100 %, 10 | 98 %, 14 |
//! | +1 % (the edge): called slower (at most alpha/2) | 0.14 % | 0.07 % | 0.17 % | 0.12 % | 0.08 % | 0.01 % |
//! | +1.01 %: called the same (alpha/2 if blocks are independent) | 0.40 % | 0.32 % | 0.24 % | 0.15 % | 0.66 % | 0.17 % |
//! | +1.5 %: called slower, blocks | 100 %, 11 | 98 %, 14 | 2.4 %, 32 | 29 %, 29 | 87 %, 23 | 50 %, 23 |
//! | +2 %: called slower, blocks | 100 %, 7 | 100 %, 8 | 21 %, 29 | 83 %, 19 | 100 %, 10 | 72 %, 18 |
//! | +3 %: called slower, blocks | 100 %, 6 | 100 %, 6 | 97 %, 11 | 99.6 %, 10 | 100 %, 6 | 99 %, 14 |
//! | +1 %, region 0.5 %: called slower, blocks | 100 %, 11 | 98 %, 14 | 2.4 %, 32 | 30 %, 29 | 88 %, 23 | 50 %, 23 |
//! | reported interval misses +2 % | 0.28 % | 0.23 % | 0.28 % | 0.16 % | 0.52 % | 0.19 % |
//!
//! Blocks are means over comparisons. Evidence less than triples with each block and must reach 200, of which the largest
//! stake has 0.4, so the look at 6 blocks is the first that can report a difference. Comparisons by signs over one copy of the
//! baseline need 9. The command `cargo test --release -p ellwand-stats table -- --ignored --nocapture` prints the table. The
//! ordinary tests assert the main figures with fewer comparisons, also by signs, and
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
