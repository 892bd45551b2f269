//! The interleaved rounds of one process or block, in this process and over workers.

use ellwand_core::record::{Basis, Sample};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use crate::measure::{Event, Instrument, Interrupted};
use crate::stop::{is_done, overtime};

/// The implementations that take a slot in `round`: one with a share of the `planned` rounds takes part in every n-th.
fn participants(round: u32, planned: u32, shares: &[Option<u32>]) -> Vec<usize> {
    let takes = |share: &Option<u32>| share.is_some_and(|share| round.is_multiple_of((planned / share.max(1)).max(1)));
    (0..shares.len()).filter(|index| takes(&shares[*index])).collect()
}

impl Instrument<'_> {
    /// Samples in interleaved rounds until a stop rule fires, or until `late` is true and all have a sample. A slow
    /// implementation takes part only in every n-th round, so it gets no more than its share of the time. All slots of
    /// a round are adjacent in time.
    ///
    /// `slots` holds the share and the expected cost of each live implementation; `take` returns `None` if it has
    /// ended.
    pub(crate) fn rounds(
        &self,
        (block, blocks): (u32, u32),
        slots: &[Option<(u32, u64)>],
        coin: &mut ChaCha8Rng,
        take: &mut dyn FnMut(usize) -> Result<Option<Sample>, Interrupted>,
        late: &dyn Fn() -> bool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Vec<Vec<Sample>>, Interrupted> {
        let (shares, mut costs): (Vec<_>, Vec<_>) = slots.iter().map(|slot| slot.unzip()).unzip();
        let planned = shares.iter().flatten().copied().max().unwrap_or(0);
        let mut samples = vec![Vec::new(); slots.len()];
        for round in 0..planned {
            self.check_interrupt()?;
            let mut order = participants(round, planned, &shares);
            order.shuffle(coin);
            for (position, index) in order.into_iter().enumerate() {
                match take(index)? {
                    Some(sample) => samples[index].push(Sample { block, round, position: position as u32, ..sample }),
                    None => costs[index] = None,
                }
            }
            on_event(Event::Sampled { rounds: block * planned + round + 1, planned: blocks * planned });
            let alive = || samples.iter().zip(&costs).filter_map(|(taken, cost)| Some((&taken[..], (*cost)?)));
            let seconds: Vec<Vec<f64>> =
                alive().map(|(taken, _)| taken.iter().map(|sample| Basis::Fastest.seconds(sample)).collect()).collect();
            let done = is_done(round + 1, planned, &seconds) || overtime(alive(), &self.settings, blocks);
            let late = late() && seconds.iter().all(|taken| !taken.is_empty());
            if seconds.is_empty() || late || done {
                break;
            }
        }
        Ok(samples)
    }
}
