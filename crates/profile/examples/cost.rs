//! Prints the cost of a span on this machine: `cargo run --release -p ellwand-profile --example cost`.
#![allow(clippy::print_stdout)]

fn main() {
    for _ in 0..3 {
        println!("{}\n", ellwand_profile::cost());
    }
}
