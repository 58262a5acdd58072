//! What the bare loops share: the time that a loop takes, and what is printed of it.

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Does rounds until time is over; each tells how many files it had. Gives the line to print.
pub fn timed(
    length: Duration,
    mut round: impl FnMut() -> Result<u64, Errno>,
) -> Result<String, Errno> {
    let (start, cpu_ns, mut files) = (Instant::now(), thread_ns(), 0);
    while start.elapsed() < length {
        files += round()?;
    }
    let (ns, cpu_ns) = (start.elapsed().as_nanos(), thread_ns() - cpu_ns);
    Ok(format!("{{\"files\":{files},\"ns\":{ns},\"cpu_ns\":{cpu_ns}}}"))
}

/// CPU time of this thread.
fn thread_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The directory and the numbers of the command line; `measured` has them when there are as many as it wants.
pub fn run<const N: usize>(
    usage: &str,
    measured: impl FnOnce(&str, [u64; N]) -> Result<String, Errno>,
) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = args.iter().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (Some(dir), Ok(numbers)) = (args.first(), numbers.try_into()) else {
        eprintln!("usage: {usage}");
        return ExitCode::FAILURE;
    };
    match measured(dir, numbers) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {dir}: {error}");
            ExitCode::FAILURE
        }
    }
}
