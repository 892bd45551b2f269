use ellwand_core::record::Sample;

use super::*;

#[test]
fn looks_end_at_the_given_number_of_blocks() {
    assert_eq!(looks(None), LOOKS);
    assert_eq!(looks(Some(2)), [2]);
    assert_eq!(looks(Some(6)), [6]);
    assert_eq!(looks(Some(11)), [6, 9, 11]);
    assert_eq!(looks(Some(32)), [6, 9, 12, 16, 20, 24, 32]);
    assert_eq!(looks(Some(800)), [&LOOKS[..], &[682, 800]].concat());
}

fn samples(seconds: &[f64]) -> Vec<Sample> {
    let sample = |seconds: &f64| Sample {
        iterations: 10,
        wall_ns: (seconds * 1e10 * 1.5) as u64,
        cpu_ns: Some((seconds * 1e10 * 1.2) as u64),
        parts: Some(5),
        fastest_ns: Some((seconds * 2e9) as u64),
        switches: Some(1),
        ..Sample::default()
    };
    seconds.iter().map(sample).collect()
}

/// Feeds identical blocks of these slots to a comparison until it is decided.
fn decided(baseline: &[f64], candidate: &[f64], control: &[f64], basis: Basis) -> Decision {
    decided_among(1, baseline, candidate, control, basis)
}

fn decided_among(cases: usize, baseline: &[f64], candidate: &[f64], control: &[f64], basis: Basis) -> Decision {
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap().among(cases);
    let samples = [samples(baseline), samples(candidate), samples(control)];
    over_blocks(&terms, &mut |_, _| {}, &mut |_, _| {
        Ok(BlockSamples {
            samples: samples.clone(),
            basis: Choice::Fixed(basis, Basis::Cpu),
            spent: Spent { usual: 2.0, ..Spent::default() },
        })
    })
    .unwrap()
}

#[test]
fn each_basis_reads_its_own_time() {
    for (basis, factor) in [(Basis::Fastest, 1.0), (Basis::Cpu, 1.2), (Basis::Wall, 1.5), (Basis::Shortest, 1.5)] {
        let decision = decided(&[1e-4; 3], &[1.1e-4; 3], &[1e-4; 3], basis);
        assert_eq!(decision.call, Call::As(Difference::Slower), "{basis:?}");
        assert!((decision.change.ratio - 1.1).abs() < 1e-6 && (decision.seconds[0] - factor * 1e-4).abs() < 1e-9);
        assert_eq!((decision.blocks.len(), decision.disturbed), (6, 1.0));
    }
}

#[test]
fn a_slot_in_which_the_clock_went_back_fails_its_side() {
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap();
    for (basis, clock) in [(Basis::Wall, "its clock"), (Basis::Cpu, "its CPU clock")] {
        let mut blocks = 0;
        let ended = over_blocks(&terms, &mut |_, _| {}, &mut |_, _| {
            blocks += 1;
            let third = if blocks == 3 { 0.0 } else { 1e-4 };
            let samples = [samples(&[1e-4; 3]), samples(&[1e-4, third, 1e-4]), samples(&[1e-4; 3])];
            Ok(BlockSamples { samples, basis: Choice::Fixed(basis, Basis::Wall), spent: Spent::default() })
        });
        let Err(NoDecision::Ended { arm, outcome }) = ended else { panic!("{ended:?}") };
        assert_eq!((arm, outcome.word()), ("the candidate", "failed"));
        assert!(outcome.reason().is_some_and(|why| why.starts_with(clock)), "{outcome:?}");
    }
}

#[test]
fn the_shortest_run_of_a_block_counts_whatever_the_others_took() {
    let decision = decided(&[1.0, 5.0, 3.0], &[9.0, 1.0, 9.0], &[1.0, 1.0, 1.0], Basis::Shortest);
    assert_eq!(decision.change.ratio, 1.0);
    let decision = decided(&[1.0, 5.0, 3.0], &[9.0, 1.1, 9.0], &[1.0, 1.0, 1.0], Basis::ShortestCpu);
    assert!((decision.change.ratio - 1.1).abs() < 1e-9);
    let seconds = decision.seconds.map(|seconds| (seconds * 1e3).round());
    assert_eq!(seconds, [1200.0, 1320.0], "the stated times are those that the ratio is of");
}

#[test]
fn the_runs_of_commands_in_a_block_are_one_round_of_the_forecast() {
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap().within(20.0);
    let samples = [samples(&[1.0; 5]), samples(&[1.1; 5]), samples(&[1.0; 5])];
    let mut gone_s = 0.0;
    let decision = over_blocks(&terms, &mut |_, _| {}, &mut |_, _| {
        gone_s += 2.0;
        let spent = Spent { start_s: 0.0, rounds_s: 2.0, gone_s, usual: 1.0 };
        Ok(BlockSamples { samples: samples.clone(), basis: Choice::Fixed(Basis::Shortest, Basis::Wall), spent })
    });
    assert_eq!(decision.map(|decision| (decision.call, decision.blocks.len())), Ok((Call::As(Difference::Slower), 6)));
}

#[test]
fn the_forecast_of_large_cases_leaves_out_what_the_first_block_learns() {
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap().within(20.0);
    let samples = [samples(&[0.02; 6]), samples(&[0.022; 6]), samples(&[0.02; 6])];
    let (mut gone_s, mut start_s) = (0.0, 5.0);
    let decision = over_blocks(&terms, &mut |_, _| {}, &mut |_, _| {
        // 24 rounds are usual; slow blocks end after six.
        let spent = Spent { start_s, rounds_s: 0.4, gone_s: gone_s + start_s + 0.4, usual: 24.0 };
        (gone_s, start_s) = (spent.gone_s, 0.8);
        Ok(BlockSamples { samples: samples.clone(), basis: Choice::Fixed(Basis::Shortest, Basis::Wall), spent })
    });
    assert_eq!(decision.map(|decision| (decision.call, decision.blocks.len())), Ok((Call::As(Difference::Slower), 6)));
}

#[test]
fn a_difference_of_the_two_copies_withholds_every_verdict() {
    for control in [1.03e-4, 0.97e-4] {
        let decision = decided(&[1e-4; 3], &[1.1e-4; 3], &[control; 3], Basis::Fastest);
        assert_eq!(decision.call, Call::Withheld);
        assert_eq!(Some(decision.blocks.len()), LOOKS.last().copied(), "it may pass");
    }
}

#[test]
fn a_difference_is_measured_until_it_holds_among_all_cases() {
    for (cases, blocks) in [(1, 6), (2, 9), (10, 9), (20, 9), (100, 12), (300, 12)] {
        let main = decided_among(cases, &[1e-4; 3], &[1.1e-4; 3], &[1e-4; 3], Basis::Fastest);
        assert_eq!((main.call, main.blocks.len()), (Call::As(Difference::Slower), blocks), "{cases} cases");
        let mut evidence = vec![0.0; cases];
        evidence[0] = main.evidence;
        assert!(ellwand_core::stats::ebh::called(&evidence, 0.01).unwrap()[0], "{cases} cases");
        let same = decided_among(cases, &[1e-4; 3], &[1e-4; 3], &[1e-4; 3], Basis::Fastest);
        assert_eq!((same.call, same.blocks.len()), (Call::As(Difference::Same), 6), "{cases} cases");
    }
    let slots = ([1e-4; 4], [1e-4, 1e-4, 1e-4, 2e-4]);
    let alone = decided(&slots.0, &slots.1, &slots.0, Basis::Fastest);
    let among = decided_among(50, &slots.0, &slots.1, &slots.0, Basis::Fastest);
    assert!(matches!(among.call, Call::SlowerBeside(_)) && among.side_evidence >= 5000.0, "{}", among.side_evidence);
    assert!(among.blocks.len() > alone.blocks.len());
}

#[test]
fn blocks_are_longer_only_for_what_the_main_question_does_not_show() {
    let requested = |candidate: &[f64]| {
        let terms = Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap();
        let samples = [samples(&[1e-4; 4]), samples(candidate), samples(&[1e-4; 4])];
        let mut requested = Vec::new();
        over_blocks(&terms, &mut |_, _| {}, &mut |_, ask| {
            requested.push(ask.rounds);
            Ok(BlockSamples {
                samples: samples.clone(),
                basis: Choice::Fixed(Basis::Fastest, Basis::Cpu),
                spent: Spent { usual: 2.0, ..Spent::default() },
            })
        })
        .unwrap();
        requested
    };
    let (usual, many) = (Rounds::Usual, Rounds::Many);
    assert_eq!(requested(&[1.02e-4; 4]), [usual; 6], "all of it is slower");
    assert_eq!(requested(&[1e-4, 1e-4, 1e-4, 2e-4])[6..8], [many, many], "some of it is");
    assert_eq!(requested(&[1e-4; 4]), [usual; 6]);
}

#[test]
fn blocks_are_longer_where_it_is_their_rounds_that_scatter() {
    // `rounds` and `processes` are the scatter of each; starting the processes takes as long as `start` rounds.
    let requested = |rounds: f64, processes: f64, start: f64| {
        let terms = Terms::new(0.01, 0.01, Some(12), Limits::default(), 1).unwrap();
        let (mut requested, mut block) = (Vec::new(), 0);
        over_blocks(&terms, &mut |_, _| {}, &mut |_, ask| {
            requested.push(ask.rounds);
            block += 1;
            let off = processes * [-1.0, 1.0, 0.5, -0.5, 0.8, -0.8][block % 6];
            // The same times in all arms except for `off`, in another order, so the side questions find nothing.
            let slots = |off: f64, stride: i32| -> Vec<f64> {
                let at = |round: i32| f64::from((stride * round + 5 * block as i32) % 12 - 6) / 6.0;
                (0..12).map(|round| 1e-4 * (off + rounds * at(round)).exp()).collect()
            };
            let samples = [samples(&slots(0.0, 5)), samples(&slots(off, 7)), samples(&slots(0.0, 11))];
            let spent = Spent { start_s: 1e-3 * start, rounds_s: 1e-3 * 12.0, gone_s: 0.0, usual: 12.0 };
            Ok(BlockSamples { samples, basis: Choice::Fixed(Basis::Fastest, Basis::Fastest), spent })
        })
        .unwrap();
        requested
    };
    let last = |requested: &[Rounds]| match requested.last() {
        Some(Rounds::About(rounds)) => *rounds,
        Some(Rounds::Many) => 96.0,
        _ => 12.0,
    };
    let noisy = requested(0.2, 0.001, 20.0);
    assert_eq!(noisy[0], Rounds::Usual);
    assert!(matches!(noisy[1], Rounds::About(_)), "the first block shows that its rounds scatter: {noisy:?}");
    assert!(last(&noisy) > 24.0, "{noisy:?}");
    assert!(last(&requested(0.0001, 0.02, 20.0)) <= 12.0, "only processes scatter");
}

#[test]
fn one_slow_slot_in_four_is_found_despite_equal_fastest_times() {
    let decision = decided(&[1e-4; 4], &[1e-4, 1e-4, 1e-4, 2e-4], &[1e-4; 4], Basis::Fastest);
    assert!(matches!(decision.call, Call::SlowerBeside(_)), "{:?}", decision.call);
    assert!((decision.change.ratio - 1.0).abs() < 1e-9);
    let other = decided(&[1e-4, 1e-4, 1e-4, 2e-4], &[1e-4; 4], &[1e-4; 4], Basis::Fastest);
    assert_eq!(other.call, Call::As(Difference::Same));
}

/// Blocks of `rounds` rounds with this scatter between rounds and between processes; ends by its own clock.
fn timed(budget_s: f64, rounds: f64, processes: f64, round_s: f64) -> (Result<Decision, NoDecision>, f64) {
    timed_with(budget_s, rounds, processes, round_s, 1.0, &mut |_, _| {})
}

/// The same; one candidate slot in six takes `tail` times its time. `on_block` hears the forecasts.
fn timed_with(
    budget_s: f64,
    rounds: f64,
    processes: f64,
    round_s: f64,
    tail: f64,
    on_block: &mut dyn FnMut(f64, f64),
) -> (Result<Decision, NoDecision>, f64) {
    let terms = Terms::new(0.01, 0.01, None, Limits::default(), 1).unwrap().within(budget_s);
    let (mut gone_s, mut block) = (0.0, 0_usize);
    let decided = over_blocks(&terms, on_block, &mut |_, ask| {
        let count = match ask.rounds {
            Rounds::Usual => 12,
            Rounds::Many => 96,
            Rounds::About(rounds) => rounds as usize,
        };
        let block_s = 0.02 + round_s * count as f64;
        if block_s > ask.left_s {
            return Err(NoDecision::OutOfTime(None));
        }
        block += 1;
        gone_s += block_s;
        // Low-discrepancy values: every block has the same scatter of rounds, none has the same order.
        let spread = |i: usize| 2.0 * (0.618_034 * i as f64).fract() - 1.0;
        let slots = |stride: usize, off: f64| -> Vec<f64> {
            (0..count).map(|round| 1e-4 * (off + rounds * spread(stride * round + 7 * block)).exp()).collect()
        };
        let mut candidate = slots(7, processes * spread(block));
        candidate.iter_mut().step_by(6).for_each(|slot| *slot *= tail);
        let samples = [slots(5, 0.0), candidate, slots(11, 0.0)].map(|slots| samples(&slots));
        let spent = Spent { start_s: 0.02, rounds_s: block_s - 0.02, gone_s, usual: 12.0 };
        Ok(BlockSamples { samples, basis: Choice::Fixed(Basis::Fastest, Basis::Fastest), spent })
    });
    (decided, gone_s)
}

#[test]
fn an_undecidable_comparison_ends_within_a_quarter_and_states_the_time_it_needs() {
    let (decided, gone_s) = timed(20.0, 0.0, 0.5, 0.002);
    let decision = decided.unwrap();
    let ended = (decision.end, decision.call, decision.blocks.len());
    assert_eq!(decision.end, End::Hopeless, "{ended:?}");
    assert!(matches!(decision.call, Call::As(Difference::Undecided { .. })), "{:?}", decision.call);
    assert!((0.2 * 20.0..0.26 * 20.0).contains(&gone_s), "{gone_s}");
    assert!(decision.needed_s.unwrap() > 100.0, "{:?}", decision.needed_s);
    assert!(decision.change.low > 0.5 && decision.change.high < 2.0, "large differences are excluded");
}

#[test]
fn before_the_first_look_the_fewest_blocks_are_what_is_needed() {
    // Blocks of 0.32 s: the second shows that six do not fit. The difference between two processes says little.
    let (decided, _) = timed(1.6, 0.0, 0.5, 0.025);
    let decision = decided.unwrap();
    assert_eq!((decision.end, decision.blocks.len()), (End::Hopeless, 2));
    let needed_s = decision.needed_s.unwrap();
    assert!((needed_s - 6.0 * 0.32).abs() < 0.01, "{needed_s}");
}

#[test]
fn a_suspicious_tail_is_not_given_up_with_the_main_question() {
    let (decided, gone_s) = timed_with(24.0, 0.0, 0.1, 0.04, 1.6, &mut |_, _| {});
    let decision = decided.unwrap();
    assert_eq!(
        decision.call,
        Call::SlowerBeside("p90"),
        "{:?} after {gone_s} s, {} blocks, {}",
        decision.end,
        decision.blocks.len(),
        decision.side_evidence
    );
    assert!(gone_s <= 24.0, "{gone_s}");
}

#[test]
fn the_forecast_while_a_tail_is_suspicious_is_the_whole_time() {
    let mut whole_s = Vec::new();
    let (decided, gone_s) = timed_with(240.0, 0.0, 0.001, 0.04, 1.6, &mut |_, whole| whole_s.push(whole));
    assert_eq!(decided.unwrap().call, Call::SlowerBeside("p90"));
    assert!(gone_s > 5.0 && whole_s.len() > 5, "{gone_s}");
    assert!(whole_s[..5].iter().all(|whole| *whole < 10.0), "before the first look: {whole_s:?}");
    assert!(whole_s[5..].iter().all(|whole| *whole == 240.0), "{whole_s:?}");
}

#[test]
fn the_time_is_never_exceeded() {
    for budget_s in [0.05, 0.3, 1.0, 3.0] {
        for rounds in [0.0, 0.03, 0.3] {
            let (decided, gone_s) = timed(budget_s, rounds, 0.004, 0.002);
            assert!(gone_s <= budget_s, "{budget_s} {rounds}: {gone_s}");
            assert!(!matches!(decided, Err(NoDecision::Stats(_))));
        }
    }
    // The first block shows that six do not fit.
    let (decided, gone_s) = timed(1.0, 0.0, 0.0, 0.05);
    assert!(gone_s < 0.7, "{gone_s}");
    assert!(matches!(decided, Err(NoDecision::OutOfTime(Some(needed_s))) if needed_s > 3.0), "{decided:?}");
}

#[test]
fn looks_that_the_time_does_not_reach_get_no_share_of_the_error() {
    // Five blocks of 44 ms; the shortest possible next one takes 24 ms.
    let of = |budget_s: f64| timed(budget_s, 0.0, 0.02, 0.002).0.unwrap();
    let short = of(0.6);
    assert_eq!(short.looks, [6, 9, 12, 16, 20]);
    assert_eq!(of(60.0).looks, LOOKS);
    let rule = DecisionRule::new(0.01, 0.01, &LOOKS).unwrap();
    let fitted = rule.clone().with_looks(&short.looks).unwrap();
    assert!(fitted.spending().at(9).unwrap() > 1.9 * rule.spending().at(9).unwrap());
    assert_eq!(of(0.2).looks, LOOKS, "too short for any plan");
}

#[test]
fn processes_that_differ_by_two_per_cent_are_the_same_after_many_blocks() {
    let (decided, gone_s) = timed(20.0, 0.003, 0.03, 0.002);
    let decision = decided.unwrap();
    assert_eq!(decision.call, Call::As(Difference::Same));
    assert!(decision.blocks.len() > 32, "{}", decision.blocks.len());
    assert!(gone_s < 4.0, "later blocks are short: {gone_s}");
}
