//! Options of `fathom capture` and `fathom replay`.

use super::FailOn;
use clap::{ArgGroup, Args as ClapArgs};
use std::ffi::OsString;
use std::path::PathBuf;

/// `fathom capture`.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("what").required(true))]
#[command(after_help = "\
Records every request of a block device as the kernel's tracepoints tell it, and says what kind of load it is: mix, sizes, \
places, arrivals, depth, latencies, processes, and what that means for chunk size, depth and read-ahead. The trace holds places \
and sizes, never contents. Nothing of the machine is changed; the tracepoints are off again as soon as fathom ends, however it \
ends. Needs root.

  fathom capture /dev/sda                 10 s, the trace in fathom-ID.trace
  fathom capture /srv/data --time=5m      the device below a directory
  fathom capture sda -- pgbench -T 60     while a command runs
  fathom capture --from=sda.blktrace.0    a trace of blktrace, blkparse, fathom
  fathom capture --from=all.txt --device=8,16    one of several devices in it
  fathom capture sda --workload=db.toml   also: fathom run db.toml TARGET
  fathom capture sdb --like=day.trace -- COMMAND    is that like the trace?")]
pub struct Capture {
    /// A block device, or a path whose device is meant
    #[arg(value_name = "DEV", group = "what")]
    pub device: Option<String>,
    /// For how long [default: 10s, with a command until it ends]
    #[arg(long, value_name = "TIME")]
    pub time: Option<String>,
    /// The trace [default: fathom-ID.trace in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write a synthetic workload with the same mix, sizes, offsets and arrival rate
    #[arg(long, value_name = "FILE")]
    pub workload: Option<PathBuf>,
    /// Read a trace instead of making one
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = ["device", "time", "output", "command"])]
    pub from: Option<PathBuf>,
    /// With --from: of a trace of several devices read this one, by its numbers as in the trace [default: the first]
    #[arg(long = "device", value_name = "MAJOR,MINOR", value_parser = numbers)]
    pub of_device: Option<(u32, u32)>,
    /// Compare what is captured or read with this trace, distribution by distribution
    #[arg(long, value_name = "TRACE")]
    pub like: Option<PathBuf>,
    /// A word to find the run by
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// Exit with code 1 when the verdict is this or worse
    #[arg(long, value_enum, default_value = "doubtful", value_name = "VERDICT")]
    pub fail_on: FailOn,
    /// A command to run meanwhile; the capture ends with it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Numbers of a device, as traces have them: `8,16`, or with a colon.
fn numbers(text: &str) -> Result<(u32, u32), String> {
    let halves = text.split_once([',', ':']);
    let parsed = halves.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let is_fine = |(major, minor): &(u32, u32)| *major < 1 << 12 && *minor < 1 << 20;
    parsed.filter(is_fine).ok_or_else(|| {
        "give the numbers that stand in the trace, such as 8,16; ls -l /dev/NAME shows those of a device of this machine".to_owned()
    })
}

/// `fathom replay`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Issues the requests of a trace (of fathom capture, blktrace or blkparse) once more on another target: at their times, faster, or \
as fast as they go. What is written is random: a trace holds no contents. On a device without --destroy, and on a file that is \
not fathom's, only the reads are replayed. At the end the replay is compared with the trace, distribution by distribution.

  fathom replay day.trace /srv/data               in a test file of its own
  fathom replay day.trace /dev/sdb                only the reads
  fathom replay day.trace /srv/new --size=4G      in a new file
  fathom replay day.trace /srv/data --speed=2x    twice as fast
  fathom replay day.trace /srv/data --speed=max   one by one, --depth at once
  fathom replay day.trace /srv/data --twin        its mix, sizes, places, pace
  fathom replay day.trace /srv/data --map=modulo  starts again where it ends")]
pub struct Replay {
    /// The trace
    pub trace: PathBuf,
    /// A directory, a new file (needs --size), an existing file or a block device
    pub target: String,
    /// Of a trace of several devices replay this one, by its numbers as in the trace [default: the first]
    #[arg(long = "device", value_name = "MAJOR,MINOR", value_parser = numbers)]
    pub of_device: Option<(u32, u32)>,
    /// Speed factor (1x, 2x, 0.5x), or max: without waiting for the recorded times
    #[arg(long, default_value = "1x", value_name = "SPEED")]
    pub speed: String,
    /// How places become places of a target of another size [default: fit where it fits, else scale]
    #[arg(long, value_enum, value_name = "HOW")]
    pub map: Option<MapTo>,
    /// Most requests in flight [default: what was in flight for 95 % of the trace's time; at recorded times four times its maximum, and 32 at the least]
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Size of the test file that fathom makes [default: what the trace reaches, up to 1 GiB]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Leave writes and flushes out
    #[arg(long)]
    pub reads_only: bool,
    /// Run the synthetic twin: a workload of the same mix, sizes, places and pace, without the order
    #[arg(long, conflicts_with_all = ["speed", "map", "depth", "reads_only"])]
    pub twin: bool,
    /// Through the page cache (no O_DIRECT)
    #[arg(long)]
    pub buffered: bool,
    /// What commands that measure any target take.
    #[command(flatten)]
    pub any: super::MeasureAny,
}

/// How places become places of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MapTo {
    /// Offsets are scaled to the size of the target, MiB by MiB
    Scale,
    /// From the start again where the target ends
    Modulo,
    /// As they are; refused on a target that is too small
    Fit,
}
