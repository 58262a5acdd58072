//! What the bare loops share: the time that a loop takes, and what is printed of it.

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What a loop came to.
#[derive(Default)]
pub struct Timed {
    files: u64,
    ns: u128,
    cpu_ns: i64,
}

impl std::iter::Sum for Timed {
    /// Loops that ran beside each other.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            files: sum.files + one.files,
            ns: sum.ns.max(one.ns),
            cpu_ns: sum.cpu_ns + one.cpu_ns,
        })
    }
}

/// Does rounds until time is over; each tells how many files it had.
pub fn timed(
    length: Duration,
    mut round: impl FnMut() -> Result<u64, Errno>,
) -> Result<Timed, Errno> {
    let (start, cpu_ns, mut files) = (Instant::now(), thread_ns(), 0);
    while start.elapsed() < length {
        files += round()?;
    }
    let (ns, cpu_ns) = (start.elapsed().as_nanos(), thread_ns() - cpu_ns);
    Ok(Timed { files, ns, cpu_ns })
}

/// CPU time of this thread.
fn thread_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The directory and the numbers of the command line; `measured` has them when there are as many as it wants.
pub fn run<const N: usize>(
    usage: &str,
    measured: impl FnOnce(&str, [u64; N]) -> Result<Timed, Errno>,
) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = args.iter().skip(1).filter_map(|text| text.parse().ok()).collect();
    let (Some(dir), Ok(numbers)) = (args.first(), numbers.try_into()) else {
        eprintln!("usage: {usage}");
        return ExitCode::FAILURE;
    };
    match measured(dir, numbers) {
        Ok(Timed { files, ns, cpu_ns }) => {
            println!("{{\"files\":{files},\"ns\":{ns},\"cpu_ns\":{cpu_ns}}}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {dir}: {error}");
            ExitCode::FAILURE
        }
    }
}
