//! The course of a comparison: how many blocks of how many rounds reach a decision soonest, and when.
//!
//! A block of n rounds has the variance between + within / n and takes start + n each. For every later look, this
//! module finds the smallest n with which the interval and the evidence would decide there, and takes the look that is
//! reached soonest. Few long blocks need few processes; many short ones keep the t-quantile small: the minimum balances
//! both (Kalibera and Jones 2013 give it for a fixed confidence and any number of blocks).

use crate::evidence::{Outlook, shift};
use crate::random_effects::Variances;
use crate::special::student_t_upper_quantile;
use crate::verdict::DecisionRule;

/// Safety margin, in standard errors or as a logarithm of the evidence. The centre at the look is off by about one
/// standard error, so an interval just narrow enough, or evidence just sufficient, would fail every second time.
const CHANCE: f64 = 0.8;

/// The state of a comparison in progress.
#[derive(Debug, Clone)]
pub struct Course<'a> {
    /// The rule that decides.
    pub rule: &'a DecisionRule,
    /// Evidence that a difference needs.
    pub needed: f64,
    /// Blocks measured before this look.
    pub blocks: usize,
    /// Centre of their values.
    pub centre: f64,
    /// Information on the centre: the sum of one over the variance of each block.
    pub information: f64,
    /// What the bets have won so far in the direction of the centre.
    pub outlook: Outlook,
    /// Where the scatter of the blocks comes from.
    pub variances: Variances,
    /// Seconds to start and end the processes of a block.
    pub start_s: f64,
    /// Seconds of a round.
    pub round_s: f64,
    /// Minimum and maximum number of rounds of a block.
    pub rounds: (f64, f64),
}

/// The shortest way to a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Leg {
    /// Blocks at the look that decides.
    pub look: usize,
    /// Rounds of each block until then.
    pub rounds: f64,
    /// Seconds until then.
    pub seconds: f64,
}

/// How the true difference is guessed from the centre so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// The measured centre, shrunk towards zero by its error.
    Likely,
    /// One standard error farther from the edge of the region of equivalence.
    Lucky,
    /// As [`Guess::Likely`], but at least a third of an error from the edge. It sets the length of the next block:
    /// while the error is many times the region, a length that decides about the region would be far too long for a
    /// large difference.
    Open,
}

impl Course<'_> {
    /// The fastest way to a decision, or `None` if no planned look can decide.
    pub fn leg(&self, guess: Guess) -> Option<Leg> {
        let looks = self.rule.spending().looks().iter().filter(|look| **look > self.blocks);
        let legs = looks.filter_map(|look| self.to(*look, guess));
        legs.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// Seconds until a decision with as many blocks as it takes, planned or not.
    pub fn seconds(&self, guess: Guess) -> f64 {
        if let Some(leg) = self.leg(guess) {
            return leg.seconds;
        }
        let last = self.rule.spending().looks().last().copied().unwrap_or(self.blocks);
        let rounds = self.best_rounds();
        let more = self.missing(last, guess) * self.variances.of_block(rounds);
        more.max(0.0).max((last.max(9) - self.blocks) as f64) * (self.start_s + rounds * self.round_s)
    }

    /// The number of rounds that yields the most information per second (Kalibera and Jones 2013).
    pub fn best_rounds(&self) -> f64 {
        let Variances { between, within } = self.variances;
        let best = (within / between * self.start_s / self.round_s).sqrt();
        if best.is_nan() { self.rounds.0 } else { best.clamp(self.rounds.0, self.rounds.1) }
    }

    /// The likely size of the difference and its distance from the edge of the region.
    fn distance(&self, guess: Guess) -> (bool, f64) {
        let edge = shift(self.rule.rope()).unwrap_or(0.0);
        let error = (1.0 / self.information).sqrt();
        let size = self.centre.abs();
        let shrunk = if size > error { size * (1.0 - (error / size).powi(2)) } else { 0.0 };
        let (size, luck) = match guess {
            Guess::Likely | Guess::Open => (shrunk, 0.0),
            Guess::Lucky => (size, error),
        };
        let least = if guess == Guess::Open { error / 3.0 } else { 1e-9 };
        (size > edge, ((size - edge).abs() + luck).max(least))
    }

    /// The information that the interval at `look` still lacks.
    fn missing(&self, look: usize, guess: Guess) -> f64 {
        let miss = self.rule.spending().at(look).unwrap_or(f64::MIN_POSITIVE);
        let quantile = student_t_upper_quantile(0.5 * miss, look as f64 - 1.0).unwrap_or(f64::INFINITY);
        let chance = if guess == Guess::Lucky { 0.0 } else { CHANCE };
        ((quantile + chance) / self.distance(guess).1).powi(2) - self.information
    }

    fn to(&self, look: usize, guess: Guess) -> Option<Leg> {
        let more = (look - self.blocks) as f64;
        let each = (self.missing(look, guess) / more).max(0.0);
        // Rounds with which every block contributes its share: between + within / n = 1 / each.
        let spare = 1.0 / each - self.variances.between;
        let mut rounds = if each == 0.0 { 0.0 } else { self.variances.within / spare };
        let (fewest, most) = self.rounds;
        if spare <= 0.0 || rounds > most {
            return None;
        }
        rounds = rounds.max(fewest).ceil();
        let (beyond, distance) = self.distance(guess);
        let won = |rounds: f64| {
            let relative = distance / self.variances.of_block(rounds).sqrt();
            let spare = if guess == Guess::Lucky { -CHANCE } else { CHANCE };
            self.outlook.expecting(relative).ln_capital(look - self.blocks) >= self.needed.ln() + spare
        };
        while beyond && !won(rounds) {
            rounds = (1.25 * rounds).ceil();
            if rounds > most || self.variances.of_block(rounds) > 0.9 * self.variances.of_block(rounds / 1.25) {
                return None;
            }
        }
        Some(Leg { look, rounds, seconds: more * (self.start_s + rounds * self.round_s) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::outlook;

    fn course(rule: &DecisionRule, between: f64, within: f64, start_s: f64) -> Course<'_> {
        let variances = Variances { between: between * between, within: within * within };
        let information = 3.0 / variances.of_block(6.0);
        let outlook = outlook(&[], 1.0, 0.0, rule.stakes()).unwrap();
        let (round_s, rounds) = (0.002, (6.0, 1e4));
        Course {
            rule,
            needed: 200.0,
            blocks: 3,
            centre: 0.0,
            information,
            outlook,
            variances,
            start_s,
            round_s,
            rounds,
        }
    }

    #[test]
    fn quiet_blocks_go_to_the_first_look_with_the_fewest_rounds() {
        let rule = DecisionRule::default();
        let leg = course(&rule, 0.0005, 0.003, 0.02).leg(Guess::Likely).unwrap();
        assert_eq!((leg.look, leg.rounds), (6, 6.0));
        assert!((leg.seconds - 3.0 * (0.02 + 6.0 * 0.002)).abs() < 1e-9);
    }

    #[test]
    fn rounds_that_scatter_get_more_rounds_and_processes_that_differ_more_blocks() {
        let rule = DecisionRule::default();
        let rounds = course(&rule, 0.0005, 0.2, 0.02).leg(Guess::Likely).unwrap();
        assert!(rounds.rounds > 100.0 && rounds.look <= 64, "{rounds:?}");
        // Processes that take long to start mean even fewer blocks.
        let dear = course(&rule, 0.0005, 0.2, 5.0).leg(Guess::Likely).unwrap();
        assert!(dear.look < rounds.look && dear.rounds > rounds.rounds, "{dear:?} {rounds:?}");
        let processes = course(&rule, 0.02, 0.003, 0.02).leg(Guess::Likely).unwrap();
        assert!(processes.rounds < 10.0 && (48..=96).contains(&processes.look), "{processes:?}");
    }

    #[test]
    fn best_rounds_minimise_the_variance() {
        let rule = DecisionRule::default();
        let course = Course {
            variances: Variances { between: 0.25, within: 4.0 },
            round_s: 0.5,
            rounds: (1.0, 1e4),
            ..course(&rule, 1.0, 1.0, 18.0)
        };
        // Variance of the mean over the blocks that fit into a fixed time.
        let variance = |rounds: f64| (0.25 + 4.0 / rounds) * (18.0 + 0.5 * rounds);
        let best = course.best_rounds();
        assert!((best - 24.0).abs() < 1e-12, "{best}");
        for rounds in [1.0, 6.0, 23.0, 25.0, 96.0] {
            assert!(variance(rounds) > variance(best), "{rounds}");
        }
    }

    #[test]
    fn a_difference_waits_for_its_evidence() {
        let rule = DecisionRule::default();
        let mut course = course(&rule, 0.0005, 0.003, 0.02);
        course.centre = 0.05;
        // Nothing was bet on yet, and six unanimous blocks are needed.
        assert_eq!(course.leg(Guess::Likely).unwrap().look, 12);
        assert_eq!(course.leg(Guess::Lucky).unwrap().look, 9);
        course.blocks = 0;
        assert_eq!(course.leg(Guess::Likely).unwrap().look, 9);
        assert_eq!(course.leg(Guess::Lucky).unwrap().look, 6);
    }

    #[test]
    fn what_no_look_decides_has_no_leg_but_a_time() {
        let rule = DecisionRule::default();
        let far = course(&rule, 0.5, 0.003, 0.02);
        assert_eq!(far.leg(Guess::Likely), None);
        // About t^2 (0.5 / 0.01)^2 blocks of 32 ms.
        let seconds = far.seconds(Guess::Likely);
        assert!((500.0..2000.0).contains(&seconds), "{seconds}");
        let mut edge = course(&rule, 0.002, 0.003, 0.02);
        edge.centre = 0.01_f64.ln_1p();
        assert!(edge.seconds(Guess::Likely) > 2.0 * edge.seconds(Guess::Lucky), "on the edge only luck decides");
    }
}
