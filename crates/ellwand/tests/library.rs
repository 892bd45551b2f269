//! Results as values.
#![allow(clippy::unwrap_used)]

use ellwand::{Axis, Effort, suite};

fn sums() -> ellwand::Registry {
    let sums = suite("sum")
        .axis(Axis::int("n", "numbers", 1, 1 << 20, 1000))
        .input(|case, _| (0..case.usize("n") as u64).collect::<Vec<_>>())
        .implementation("fold", |numbers| numbers.iter().fold(0_u64, |sum, x| sum ^ (sum << 1) ^ x))
        .implementation("loop", |numbers| {
            let mut sum = 0_u64;
            for x in numbers {
                sum ^= (sum << 1) ^ x;
            }
            sum
        })
        .implementation("wrong", |numbers| numbers.len() as u64);
    sums.into()
}

#[test]
fn rows_samples_and_findings_are_values() {
    let results = ellwand::measure(sums()).axis("n", "500,2000").effort(Effort::Quick).seed(3).run().unwrap();
    assert_eq!(results.rows().count(), 6);
    for row in results.rows().filter(|row| row.implementation != "wrong") {
        let samples = results.samples(row);
        assert_eq!(samples.len(), row.samples, "{}", row.case);
        let fastest = samples.iter().map(|s| s.wall_ns as f64 / s.iterations as f64).fold(f64::INFINITY, f64::min);
        assert!(row.median("time").is_some_and(|time| time > 0.0) && fastest > 0.0 && !samples.is_empty());
    }
    let wrong = results.row("sum", "wrong").unwrap();
    assert_eq!((wrong.status.word, results.samples(wrong).len()), ("wrong", 0));
    assert_eq!(results.record.run.seed, 3);
    // As in a record that is read back.
    assert!(results.findings().len() == results.report.findings.len());
    let table = results.text("table").unwrap();
    assert!(table.contains("fold") && table.contains("2000"), "{table}");
    assert!(results.text("picture").unwrap_err().to_string().contains("'picture' is unknown"));
}

#[test]
fn names_select_and_unknown_ones_are_refused() {
    let results =
        ellwand::measure(sums()).workloads(["sum"]).implementations(["loop"]).effort(Effort::Quick).run().unwrap();
    assert_eq!(results.rows().map(|row| row.implementation.as_str()).collect::<Vec<_>>(), ["loop"]);
    let refused = |measure: ellwand::Measure| measure.run().unwrap_err().to_string();
    assert!(refused(ellwand::measure(sums()).workloads(["sun"])).contains("'sun' matches no workload"));
    assert!(refused(ellwand::measure(sums()).axis("m", 3)).contains("--m"));
    assert!(refused(ellwand::measure(sums()).implementations(["lop"])).contains("did you mean loop?"));
}
