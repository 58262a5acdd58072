//! The load engine without its notebook: neither histograms nor the slowest operations are kept. Needs the feature
//! `silent`, which exists for this benchmark alone: fathom itself always records.

#[path = "recording/cost.rs"]
mod cost;

fn main() -> std::process::ExitCode {
    cost::main()
}
