//! The load engine as it ships, for the benchmark that asks what recording costs; its other half is `recording_off`.

#[path = "recording/cost.rs"]
mod cost;

fn main() -> std::process::ExitCode {
    cost::main()
}
