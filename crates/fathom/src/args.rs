//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Measures what a storage stack can do, and says whether the figures can be trusted.
///
/// Start with `fathom quick DIR`: about two minutes, safe on a filesystem in use.
#[derive(Debug, Parser)]
#[command(name = "fathom", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Args {
    /// Options of every command.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, ClapArgs)]
pub struct Common {
    /// One JSON object per line on standard output; texts for people go to standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// The store of results [default: $FATHOM_DB, /var/lib/fathom/fathom.db as root, else ~/.local/state/fathom/fathom.db]
    #[arg(long, global = true, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// No progress and no notes, only the result
    #[arg(long, global = true)]
    pub quiet: bool,
    /// Seed of all random choices [default: from the system]
    #[arg(long, global = true, value_name = "N")]
    pub seed: Option<u64>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// About two minutes on a directory: what this storage does, and whether to believe it
    Quick(Quick),
    /// One workload on a file, directory or device
    Run(Run),
    /// The stored runs
    List(List),
    /// One stored run in full
    Show(Show),
    /// Remove stored runs
    Rm(Rm),
    /// The workloads that can be run, or one of them in full
    Workloads(Workloads),
    /// What works on this machine, and why not
    Doctor,
}

/// Options of commands that measure.
#[derive(Debug, ClapArgs)]
pub struct Measure {
    /// A word to find the run by, such as before-upgrade
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// Leave the test files in place
    #[arg(long)]
    pub keep: bool,
    /// Which verdicts end with exit code 1
    #[arg(long, value_enum, default_value = "doubtful", value_name = "VERDICT")]
    pub fail_on: FailOn,
}

/// From which verdict on the exit code is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Doubtful and void
    Doubtful,
    /// Only void
    Void,
}

/// `fathom quick`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Makes a test file in PATH/.fathom-ID/, measures sequential and random reads and writes and commits with it, and removes
it. Nothing that exists is touched. Random rows can be shaped with block_size=16k, threads=32, write_fraction=0.3.

  fathom quick /srv/data
  fathom quick /srv/data --time=10m block_size=16k")]
pub struct Quick {
    /// The directory to test
    #[arg(default_value = ".")]
    pub path: PathBuf,
    /// threads=N, write_fraction=F or block_size=SIZE of the random rows
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// The whole time, 30s to 1h
    #[arg(long, default_value = "2m", value_name = "TIME")]
    pub time: String,
    /// `full` covers the whole free space: on rotating disks the heads must travel
    #[arg(long, value_enum, default_value = "auto", value_name = "SPAN")]
    pub span: Span,
    /// What all measuring commands take.
    #[command(flatten)]
    pub measure: Measure,
}

/// How much of the free space `quick` covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Span {
    /// Enough to defeat the caches
    Auto,
    /// All free space but the reserve
    Full,
}

/// `fathom run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
TARGET is a directory (a test file is made in it and removed), a new file (needs size=), an existing file or a block
device (both only read), or null: (measures fathom itself). Writing to a block device destroys what is on it: fathom
refuses devices in use or with anything recognisable on them, and needs --destroy=ID for the rest. It says which ID.

  fathom run randomio /srv/data threads=32 write_fraction=0.2 duration=2m
  fathom run seqread /dev/sdb offset=99% amount=1G
  fathom run seqwrite /srv/data/new size=4G direct=no --style=classic
  fathom workloads         lists the workloads; fathom workloads randomio explains one and all keys")]
pub struct Run {
    /// Name of a workload, or the path of a workload file (*.toml)
    pub workload: String,
    /// What the I/O goes to
    pub target: String,
    /// Settings, such as threads=16 block_size=4k; JOB.key=value sets one job of several
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// How often
    #[arg(long, default_value = "1", value_name = "N")]
    pub repeats: u32,
    /// Length of the intervals of the stored series, 10ms to 1m
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub interval: String,
    /// How figures are shown
    #[arg(long, value_enum, default_value = "fathom", value_name = "STYLE")]
    pub style: Style,
    /// Consent to the destruction of what is on this device; once for each device
    #[arg(long, value_name = "ID")]
    pub destroy: Vec<String>,
    /// What all measuring commands take.
    #[command(flatten)]
    pub measure: Measure,
}

/// How figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// fathom's tables
    Fathom,
    /// The form of randomio, seeker, sdd or dd
    Classic,
}

/// `fathom list`.
#[derive(Debug, ClapArgs)]
pub struct List {
    /// Only runs on this target or below it
    #[arg(long, value_name = "PATH")]
    pub target: Option<String>,
    /// Only runs with this label
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// At most so many, the newest
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
}

/// `fathom show`.
#[derive(Debug, ClapArgs)]
pub struct Show {
    /// The run, or the first characters of its name
    pub run: String,
    /// How figures are shown
    #[arg(long, value_enum, default_value = "fathom", value_name = "STYLE")]
    pub style: Style,
}

/// `fathom rm`.
#[derive(Debug, ClapArgs)]
pub struct Rm {
    /// The runs, or the first characters of their names
    #[arg(required = true)]
    pub run: Vec<String>,
}

/// `fathom workloads`.
#[derive(Debug, ClapArgs)]
pub struct Workloads {
    /// One of them, in full
    pub name: Option<String>,
}
