//! The `ellwand` program: the built-in workloads under the command line.

#[global_allocator]
static ALLOCATOR: ellwand::profile::alloc::Counting = ellwand::profile::alloc::Counting;

fn main() {
    std::process::exit(ellwand::run(std::env::args_os(), &ellwand_cli::registry()));
}
