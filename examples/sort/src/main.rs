//! `cargo run --release -p example-sort -- run sort`

fn main() {
    ellwand::main(example_sort::sorting())
}
