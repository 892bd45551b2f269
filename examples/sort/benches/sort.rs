//! `cargo bench -p example-sort -- sort:radix`

fn main() {
    ellwand::bench_main(example_sort::sorting())
}
