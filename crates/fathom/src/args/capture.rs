//! Options of `fathom capture` and `fathom replay`.

use super::FailOn;
use clap::Args as ClapArgs;
use std::ffi::OsString;
use std::path::PathBuf;

/// `fathom capture`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Records every request of a block device as the kernel's tracepoints tell it, and says what kind of load it is: mix, sizes, \
places, arrivals, depth, latencies, processes, and what that means for chunk size, depth and read-ahead. The trace holds places \
and sizes, never contents. Nothing of the machine is changed; the tracepoints are off again as soon as fathom ends, however it \
ends. Needs root.

  fathom capture /dev/sda                          10 s, the trace in fathom-ID.trace
  fathom capture /srv/data --time=5m -o day.trace  the device below a directory
  fathom capture sda -- pgbench -T 60              while a command runs
  fathom capture --from=sda.blktrace.0             a trace of blktrace, blkparse or fathom instead
  fathom capture sda --workload=db.toml            also as a workload: fathom run db.toml TARGET")]
pub struct Capture {
    /// A block device, or a path whose device is meant
    #[arg(value_name = "DEV", required_unless_present = "from")]
    pub device: Option<String>,
    /// For how long [default: 10s, with a command until it ends]
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// The trace [default: fathom-ID.trace in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also writes a workload that does the same by chance: mix, sizes, places, pace
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Reads a trace instead of making one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "time", "output", "command"])]
    pub from: Option<PathBuf>,
    /// A word to find the run by
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// Which verdicts end with exit code 1
    #[arg(long, value_enum, default_value = "doubtful", value_name = "VERDICT")]
    pub fail_on: FailOn,
    /// Runs meanwhile; the capture ends with it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
