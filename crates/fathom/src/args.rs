//! The command line.

mod capture;
pub mod mistake;
mod settings;
mod stored;
mod transfer;
mod tree;

pub use capture::{Capture, MapTo, Replay};
pub use settings::{meant_setting, not_text};
pub use stored::{History, List, Report, ReportFormat, Rm, Show};
pub use transfer::{
    Completions, Export, ExportFormat, ExportTable, Import, ImportCsv, ImportFrom, Shell,
};
pub use tree::{Clean, Tree, TreeBuild, TreeCommand, TreeScan, TreeVerify};

pub mod watch;

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

/// Where help lists the options that every command has: after its own.
const EVERY: &str = "Options of every command";

/// Options of every command.
#[derive(Debug, ClapArgs)]
pub struct Common {
    /// One JSON object per line on standard output; texts for people go to standard error
    #[arg(long, global = true, help_heading = EVERY)]
    pub json: bool,
    /// The store of results [default: $FATHOM_DB, /var/lib/fathom/fathom.db as root, else ~/.local/state/fathom/fathom.db]
    #[arg(long, global = true, help_heading = EVERY, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// No progress and no notes, only the result
    #[arg(long, global = true, help_heading = EVERY)]
    pub quiet: bool,
    /// Seed of all random choices [default: from the system]
    #[arg(long, global = true, help_heading = EVERY, value_name = "N")]
    pub seed: Option<u64>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// About two minutes on a directory: what this storage does, and whether to believe it
    Quick(Quick),
    /// The whole storage stack of a target or of the machine, and what is wrong with it; no load
    Check(Check),
    /// One workload on a file, directory or device
    Run(Run),
    /// How many requests in flight this storage needs, what it then does, and the most load within a latency bound
    Saturate(Saturate),
    /// The smallest test set and the shortest run that give the same answer as large and long ones
    Size(Size),
    /// An experiment from a plan: settings, arrays and filesystems tried in turn, then everything as it was before
    Lab(Lab),
    /// Arrays of some disks against each other: levels, layouts and chunks, whole, degraded and rebuilding
    Raid(Raid),
    /// One workload on every layer of a target, from the disks upward: what each costs, and which disk is slow
    Layers(Layers),
    /// Look at an experiment or search that runs, from any terminal
    Attach(Attach),
    /// Put back what a killed experiment left changed
    Restore(Restore),
    /// Every request of a block device for a while: what kind of load it is, and what that means
    Capture(Capture),
    /// A captured load once more on another target, at its times or as fast as it goes
    Replay(Replay),
    /// Check what an earlier run wrote with verify=, also after a crash of the machine
    Verify(Verify),
    /// Trees of files for file-server workloads: built, scanned, verified
    Tree(Tree),
    /// Remove the trees and kept test files in a directory and below it, and nothing else
    Clean(Clean),
    /// The stored runs
    List(List),
    /// One stored run in full
    Show(Show),
    /// Whether two runs, or two sets of runs, really differ, by how much, and what else differed
    Compare(Compare),
    /// Results of one target over time: where they changed, and what changed about the machine then
    History(History),
    /// A stored run, two compared, or a target over time as one HTML file to look at and to pass on
    Report(Report),
    /// Remove stored runs
    Rm(Rm),
    /// The workloads that can be run, or one of them in full
    Workloads(Workloads),
    /// The settings of kernel, devices and filesystems: what they are now, may be, and do
    Knobs(Knobs),
    /// Stored runs as JSON lines, CSV, Parquet, HdrHistogram logs, OpenMetrics or trace events
    Export(Export),
    /// Runs of another store or of an export into this one; or analyse a table of foreign results
    Import(Import),
    /// What devices, arrays, memory and processors do, live or while a command runs; no load of its own
    Watch(watch::Watch),
    /// What works on this machine, and why not
    Doctor,
    /// What a shell needs to complete commands and options
    Completions(Completions),
    /// The manual page: fathom man | man -l -
    Man,
}

/// Options of commands that measure.
#[derive(Debug, ClapArgs)]
pub struct Measure {
    /// A word to find the run by, such as before-upgrade
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// Leave the test files in place; fathom clean removes them
    #[arg(long)]
    pub keep: bool,
    /// Plain lines instead of the live view, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Started by --detach: what is printed goes to a file
    #[arg(long, hide = true)]
    pub detached: bool,
    /// Exit with code 1 when the verdict is this or worse
    #[arg(long, value_enum, default_value = "doubtful", value_name = "VERDICT")]
    pub fail_on: FailOn,
}

/// Options of commands that measure any target, devices among them.
#[derive(Debug, ClapArgs)]
pub struct MeasureAny {
    /// Consent to the destruction of what is on this device; once for each device
    #[arg(long, value_name = "ID")]
    pub destroy: Vec<String>,
    /// What all measuring commands take.
    #[command(flatten)]
    pub measure: Measure,
}

/// What the searches take.
#[derive(Debug, ClapArgs)]
pub struct Search {
    /// What the I/O goes to
    pub target: String,
    /// A workload of one job [default: randread], and its settings, such as block_size=16k
    #[arg(value_name = "WORKLOAD|KEY=VALUE")]
    pub rest: Vec<String>,
    /// The whole time, 10s to 24h
    #[arg(long, default_value = "5m", value_name = "TIME")]
    pub time: String,
    /// What commands that measure any target take.
    #[command(flatten)]
    pub any: MeasureAny,
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
Makes a test file in PATH/.fathom-ID/, measures sequential and random reads and writes and commits with it, and removes \
it. Nothing that exists is touched; whatever else uses this storage is slowed meanwhile. block_size= shapes the random and the \
mixed rows, threads= and write_fraction= the mixed row.

  fathom quick /srv/data
  fathom quick /srv/data --time=10m block_size=16k")]
pub struct Quick {
    /// The directory to test
    #[arg(default_value = ".")]
    pub path: PathBuf,
    /// block_size=SIZE of the random and mixed rows; threads=N and write_fraction=F of the mixed row
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// The whole time, 30s to 1h
    #[arg(long, default_value = "2m", value_name = "TIME")]
    pub time: String,
    /// How much of the free space is covered; of rotating disks only `full` shows how far the heads must travel
    #[arg(long, value_enum, default_value = "auto", value_name = "SPAN")]
    pub span: Span,
    /// No HTML report in this folder
    #[arg(long)]
    pub no_html: bool,
    /// What all measuring commands take.
    #[command(flatten)]
    pub measure: Measure,
}

/// How much of the free space `quick` covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Span {
    /// Enough to defeat the caches
    Auto,
    /// All free space but a reserve: writing it may take hours beyond --time, and thin volumes grow by it
    Full,
}

/// `fathom check`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Reads facts only: nothing is started, written or woken. Without a target the whole machine is looked at. As root more \
can be read: superblocks, device-mapper tables, the health of drives.

  fathom check
  fathom check /srv/data /dev/sdb --all
  fathom check --explain md-degraded     a finding: its meaning, why, the cure
  fathom check --explain stripe          chunk, strip, stripe in makers' words
  fathom check --snapshot machine.json.gz --anonymise
  fathom check --from machine.json.gz    on any other machine")]
pub struct Check {
    /// Directories, files or devices; without any the whole machine
    pub targets: Vec<String>,
    /// Also findings of low gravity in full
    #[arg(long)]
    pub all: bool,
    /// How the stack is shown
    #[arg(long, value_enum, default_value = "tree", value_name = "FORM")]
    pub show: CheckForm,
    /// The alignment of every layer, step by step
    #[arg(long)]
    pub alignment: bool,
    /// Everything that could not be read
    #[arg(long)]
    pub unread: bool,
    /// Store every fact in a file, compressed when its name ends in .gz
    #[arg(long, value_name = "FILE")]
    pub snapshot: Option<PathBuf>,
    /// Replace serial numbers, names and addresses, the same one by the same word throughout
    #[arg(long)]
    pub anonymise: bool,
    /// Judge a stored snapshot, of this machine or another
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "vendor_tools"])]
    pub from: Option<PathBuf>,
    /// Explain a finding or a word; `list` names all
    #[arg(long, value_name = "NAME", conflicts_with_all = ["targets", "from", "snapshot"])]
    pub explain: Option<String>,
    /// Start installed tools of RAID controllers' makers (storcli, perccli, ssacli, arcconf) and read what they say
    #[arg(long)]
    pub vendor_tools: bool,
    /// From which gravity of a finding on the exit code is 1
    #[arg(long, value_enum, default_value = "never", value_name = "GRAVITY")]
    pub fail_on: Threshold,
}

/// How `fathom check` shows the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckForm {
    /// Layers under layers
    Tree,
    /// Block devices, one line each
    Table,
    /// Everything that is known of the machine, its adapters and each layer
    Facts,
    /// Figures for monitoring
    Openmetrics,
}

/// From which gravity on `fathom check` fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Threshold {
    /// Any finding
    Low,
    /// Medium and high
    Medium,
    /// High only
    High,
    /// Findings never matter
    Never,
}

/// `fathom run`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
TARGET is a directory (a test file is made in it and removed), a new file (needs size=), an existing file or a block \
device (both only read), or null: (measures fathom itself). Writing to a block device destroys what is on it: fathom \
refuses devices in use or with anything recognisable on them, and needs --destroy=ID for the rest. It says which ID.

  fathom run randomio /srv/data threads=32 write_fraction=0.2 duration=2m
  fathom run seqread /dev/sdb offset=99% amount=1G
  fathom run seqwrite /srv/data/new size=4G direct=no --style=classic
  fathom run randwrite /srv/data depth=32 --until-steady
  fathom run randread /srv/data --against depth=32    is it faster with that?
  fathom workloads             all workloads
  fathom workloads randomio    one of them, and all keys")]
pub struct Run {
    /// Name of a workload, or the path of a workload file (*.toml)
    pub workload: String,
    /// What the I/O goes to
    pub target: String,
    /// Settings, such as threads=16 block_size=4k; JOB.key=value sets one job of several
    #[arg(value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Only these phases of a workload that has several: --phase=write,rewrite
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub phase: Vec<String>,
    /// How often it is measured, each time all phases
    #[arg(long, default_value = "1", value_name = "N")]
    pub repeats: u32,
    /// Measure in rounds until the figures are steady by the rule of the SNIA, at most so many [default: 25]
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, require_equals = true, default_missing_value = "25")]
    pub until_steady: Option<u32>,
    /// Measure so many rounds more once they are, to see whether they stay so
    #[arg(
        long,
        value_name = "ROUNDS",
        requires = "until_steady",
        default_value = "0",
        hide_default_value = true
    )]
    pub then: u32,
    /// What has to become steady, any of rate, mean, p50, p99, p99.9, max [default: rate,mean]
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', requires = "until_steady")]
    pub track: Vec<String>,
    /// Compare with the same workload under these settings: both in turn, until it is known which is faster
    #[arg(long, value_name = "KEY=VALUE[,KEY=VALUE]", conflicts_with_all = ["repeats", "until_steady"])]
    pub against: Vec<String>,
    /// Length of the intervals of the stored series, 10ms to 1m
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub interval: String,
    /// How figures are shown
    #[arg(long, value_enum, default_value = "fathom", value_name = "STYLE")]
    pub style: Style,
    /// What commands that measure any target take.
    #[command(flatten)]
    pub any: MeasureAny,
}

/// `fathom saturate`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Raises the requests in flight until throughput stops growing, narrows, and repeats the points near \
the knee in random order. With --bound it then sets the rate of requests (an open loop) and finds \
the highest at which every run keeps the bound. TARGET is what it is for fathom run; without a \
workload it is randread.

  fathom saturate /srv/data
  fathom saturate /srv/data --bound=p99:2ms block_size=16k
  fathom saturate /srv/data randomio write_fraction=0.3 --bound=max:500ms
  fathom saturate /dev/sdb --time=20m    read only, nothing is written

The search sets depth, rate, warmup and duration; threads=N is the largest number of threads used.")]
pub struct Saturate {
    /// The latency that the highest load is looked for: p99:2ms, p99.9:20ms, max:500ms
    #[arg(long, value_name = "WHAT:TIME")]
    pub bound: Option<String>,
    /// What the searches take.
    #[command(flatten)]
    pub search: Search,
}

/// `fathom size`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Measures the largest test set for the longest time several times, looks at shorter parts of these \
runs, then measures smaller sets in random order. A cell agrees when the whole interval of its ratio \
to the reference lies within the margin. TARGET is what it is for fathom run; without a workload it \
is randread. In a directory size= is the largest set; an existing file or device is used whole.

  fathom size /srv/data
  fathom size /srv/data --data=800GB --time=20m  against the set of real life
  fathom size /dev/sdb randread block_size=16k   read only, nothing is written

The search sets span and duration.")]
pub struct Size {
    /// The largest change that does not matter
    #[arg(long, default_value = "5%", value_name = "PERCENT")]
    pub margin: String,
    /// Size of the application's data: the test set is scaled so that it is to the caches as this is to memory
    #[arg(long, value_name = "SIZE")]
    pub data: Option<String>,
    /// What the searches take.
    #[command(flatten)]
    pub search: Search,
}

/// `fathom lab`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
PLAN is a file (*.toml) or the name of a plan that comes with fathom; without one these are listed. Everything \
that is changed is noted before, and put back at the end, after an error, and after a signal; after kill -9 by the next \
start or by fathom restore. Until then whatever else uses the machine has the changed settings too, and what they risk: --dry-run \
lists them. An experiment that was broken off goes on with its next trial when it is started again.

  fathom lab
  fathom lab scheduler /srv/data --dry-run    all that would be done, untouched
  fathom lab scheduler /srv/data
  fathom lab scheduler --print > mine.toml    to be changed
  fathom lab mine.toml --skip=write --label=new-disks
  fathom lab application /srv/data command=... figure=... --levels-of=RUN
  fathom lab mine.toml --destroy=WWN1 --destroy=WWN2")]
pub struct Lab {
    /// A plan file, or the name of a plan that comes with fathom
    pub plan: Option<String>,
    /// The target, in the place of the plan's own; NAME=VALUE for parameters of plans that come with fathom
    #[arg(value_name = "TARGET|NAME=VALUE")]
    pub rest: Vec<String>,
    /// A device for plans that build arrays; once for each
    #[arg(long, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// Say everything that would be done, and touch nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Run on without this terminal; fathom attach looks at it
    #[arg(long, conflicts_with_all = ["dry_run", "print"])]
    pub detach: bool,
    /// Show the text of the plan
    #[arg(long, conflicts_with = "dry_run")]
    pub print: bool,
    /// Go on with this run [default: the newest of the plan, when it is unfinished]
    #[arg(long, value_name = "RUN", conflicts_with = "new")]
    pub resume: Option<String>,
    /// Begin anew, also when a run of the plan is unfinished
    #[arg(long)]
    pub new: bool,
    /// Skip this workload, or every cell with this level
    #[arg(long, value_name = "LABEL|FACTOR=LEVEL", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// Vary the settings that these experiments varied, through the levels that they could not tell apart and those before
    #[arg(long, value_name = "RUN", value_delimiter = ',', conflicts_with = "print")]
    pub levels_of: Vec<String>,
    /// Measure the best cell of this experiment against its baseline again, with all memory and sizes in proportion to it
    #[arg(long, value_name = "RUN", conflicts_with_all = ["plan", "levels_of", "skip", "print"])]
    pub winner_of: Option<String>,
    /// What commands that measure any target take.
    #[command(flatten)]
    pub any: MeasureAny,
}

/// `fathom attach`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Shows what fathom lab, raid, layers, saturate or size measures now with this store. d or Ctrl-C leaves, and it runs on; q ends it, \
after a question. Any number of people can look; none of them can slow it down. Without a terminal, or with --plain, there are \
lines. Ends when the run does, with its exit code.

  fathom lab --detach mine.toml
  fathom attach")]
pub struct Attach {
    /// Plain lines instead of the live view, also on a terminal
    #[arg(long)]
    pub plain: bool,
}

/// `fathom restore`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Settings, arrays, filesystems, mounts, loop devices, swap and services that an experiment has changed are in a journal \
beside the store. Every measuring command puts back first what a killed experiment left; this does it without measuring. \
What somebody else has changed since is reported and left alone.

  fathom restore --list
  fathom restore")]
pub struct Restore {
    /// Also put back settings that somebody changed after fathom did: their change is lost
    #[arg(long)]
    pub force: bool,
    /// Say what is still to be put back, and do nothing
    #[arg(long, conflicts_with = "force")]
    pub list: bool,
}

/// How figures are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Style {
    /// fathom's tables
    Fathom,
    /// The form of the classic tool: randomio, seeker, dd, sdd, iozone, sysbench, tiobench, bonnie, hdparm
    Classic,
}

/// `fathom verify`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Only reads. What must be there was noted, beside the store, by a run that wrote with verify=after, during or crash: to a \
device, or with --keep to files. After a crash of the machine run fathom verify first: any other \
measuring command removes the test files of the run that crashed.

  fathom run randwrite /srv/data duration=1m verify=after --keep
  fathom verify /srv/data
  fathom run randwrite /dev/sdb --destroy=ID --db=/mnt/other/fathom.db \\
      fsync_every=1 duration=1h verify=crash
  fathom verify /dev/sdb --db=/mnt/other/fathom.db    after the power was cut

Exit code 0: what could be checked is as written; 1: of a target nothing could be checked, as where no sync had covered \
anything before a crash; 2: nothing is known of the target, it was replaced, its filesystem is away, or it may not be read; 3: a measurement is running; \
4: no more files can be opened (ulimit -n), or there is no memory; 5: a block does not hold what must be there, a file is gone, \
or the target failed; 6: what was noted beside the store cannot be read; 130: interrupted. The most serious of several wins: \
130, 5, 3, 4, 6, 2, 1.")]
pub struct Verify {
    /// The file, the directory that it lies in, or the device
    pub path: PathBuf,
}

/// `fathom compare`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A and B are labels (all finished runs with that label), the first characters of runs, several with commas between them, \
or the file of a store (all its runs). NAME:ROW takes only rows that begin with ROW, NAME@FILE looks in another store.

The run is the unit: one run on each side decides nothing. Eight of each, made in turn, are mostly enough. This leaves the \
setting as the last run had it; fathom lab puts it back:

  one() { echo $1 > /sys/block/sdb/queue/scheduler
          fathom run randread /srv --label=$1; }
  for i in 1 2 3 4; do one none; one bfq; one bfq; one none; done
  fathom compare none bfq
  fathom compare 7f3k:depth=1 7f3k:depth=32   two cells of an experiment
  fathom compare old.db new.db                all runs of two stores

Exit code 1 when B is worse, or when the comparison is void or doubtful.")]
pub struct Compare {
    /// The runs to compare with: labels, runs, RUN:CELL of an experiment, or the file of a store
    pub a: String,
    /// The runs that may be better or worse, named likewise
    pub b: String,
    /// The thing under test, when several things differ: its name in the list, or device, size, region, fill
    #[arg(long, value_name = "NAME")]
    pub factor: Option<String>,
    /// The largest change that does not matter [default: 3%]
    #[arg(long, value_name = "PERCENT")]
    pub margin: Option<String>,
    /// Confidence level of the intervals [default: 95%]
    #[arg(long, value_name = "PERCENT")]
    pub level: Option<String>,
    /// Add pairs until the answer is clear, looking after 8, 12, 18 and 25; intervals allow for the looks
    #[arg(long)]
    pub looks: bool,
    /// B counts as worse only when it is so by this much: slower:5%; void and doubtful are for --fail-on
    #[arg(long, value_name = "slower:PERCENT")]
    pub fail_if: Option<String>,
    /// Exit with code 1 when the verdict is this or worse
    #[arg(long, value_enum, default_value = "doubtful", value_name = "VERDICT")]
    pub fail_on: FailOn,
}

/// `fathom knobs`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nothing is changed: fathom lab tries values and puts them back. Names of older kernels and tools are understood.

  fathom knobs
  fathom knobs /srv/data                   those of its stack
  fathom knobs block.nr_requests           one: effect, range, how it is kept
  fathom knobs vm.dirty_bytes --json
  fathom knobs --setra; fathom knobs cfq   what old words mean today")]
pub struct Knobs {
    /// A setting, in full; or a target: only the settings of its stack
    #[arg(allow_hyphen_values = true)]
    pub id: Option<String>,
    /// A file, directory or device: only its stack
    pub target: Option<String>,
}

/// `fathom workloads`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Nothing is run: fathom run NAME TARGET does that.

  fathom workloads
  fathom workloads randomio    what it does, its jobs, and all keys")]
pub struct Workloads {
    /// A workload, in full
    pub name: Option<String>,
}

/// `fathom raid`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Measures each device alone, then builds every array of them that can be (raid0, raid1, raid5 in four layouts, raid6, raid10 near, \
offset and far), measures it whole, without a member, and while one is rebuilt, and takes it down again. Shows MiB/s, multiples \
of one device, how long a rebuild takes, and whether the members do more than the array must ask of them. Everything on the \
devices is DESTROYED; each takes its --destroy=ID. Started again after it was broken off, it goes on with the next trial.

  fathom raid /dev/sd[b-e] --dry-run    all that would be done, untouched
  fathom raid /dev/sd[b-d] --destroy=WWN1 --destroy=WWN2 --destroy=WWN3
  fathom raid loop:1GiB loop:1GiB loop:1GiB --level=raid5 --chunk=16k,512k")]
pub struct Raid {
    /// Block devices, or loop:SIZE for a loop device over a file of fathom's
    #[arg(required = true, value_name = "DEVICE")]
    pub devices: Vec<String>,
    /// Levels [default: raid0,raid1,raid5,raid6,raid10]
    #[arg(long, value_name = "LEVEL", value_delimiter = ',')]
    pub level: Vec<String>,
    /// Layouts, such as left-symmetric,n2,f2,o2 [default: all usual ones]
    #[arg(long, value_name = "LAYOUT", value_delimiter = ',')]
    pub layout: Vec<String>,
    /// Chunks
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "64k")]
    pub chunk: Vec<String>,
    /// Numbers of members [default: all devices]
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub members: Vec<u32>,
    /// States: normal, degraded, rebuilding [default: all]
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub state: Vec<String>,
    /// How much of each device is used, or all [default: 4GiB; all of loop devices]
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Where that piece begins on each device
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub start: String,
    /// Length of one measurement
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub time: String,
    /// How often everything is measured, each time in another order
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub runs: u32,
    /// Block of the random loads
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub block_size: String,
    /// Requests in flight of the random loads
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub depth: u32,
    /// Share of writes in the random mix
    #[arg(long, value_name = "SHARE", default_value = "30%")]
    pub write_fraction: String,
    /// A setting for all arrays, such as md.sync_speed_max=50000
    #[arg(long, value_name = "KNOB=VALUE")]
    pub knob: Vec<String>,
    /// Skip the initial synchronisation: parity is undefined until written; results say so
    #[arg(long)]
    pub assume_clean: bool,
    /// Say everything that would be done, and touch nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Go on with this run [default: the newest matrix, when it is unfinished]
    #[arg(long, value_name = "RUN", conflicts_with = "new")]
    pub resume: Option<String>,
    /// Begin anew, also when a matrix is unfinished
    #[arg(long)]
    pub new: bool,
    /// What commands that measure any target take.
    #[command(flatten)]
    pub any: MeasureAny,
}

/// `fathom layers`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Reads each disk below TARGET alone, all of them at once, then every layer above (array, volume, filesystem) with the same \
workload, in turn and in random order. Nothing is written but a test file where TARGET is a directory. Each layer's figure \
stands beside what the layer below it does; a disk that is slower than its companions is named.

  fathom layers /srv/data
  fathom layers /dev/md0 randread depth=64 --runs=8
  fathom layers /dev/vg0/data seqread block_size=256k")]
pub struct Layers {
    /// A directory, a file or a block device
    pub target: String,
    /// A reading workload [default: seqread and randread], and its settings, such as block_size=16k
    #[arg(value_name = "WORKLOAD|KEY=VALUE")]
    pub rest: Vec<String>,
    /// Length of one measurement
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub time: String,
    /// How often every layer is measured, each time in another order
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub runs: u32,
    /// What all measuring commands take.
    #[command(flatten)]
    pub measure: Measure,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Options come from several places: none may stand twice in one command.
    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    /// Examples are pasted: no terminal of 80 columns may break a line of them.
    #[test]
    fn examples_fit_eighty_columns() {
        fn check(command: &clap::Command) -> usize {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            // The first line would lose its indentation.
            assert!(!help.starts_with(' '), "{}: words come first", command.get_name());
            let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  ")).collect();
            for line in &examples {
                assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
            }
            examples.len() + command.get_subcommands().map(check).sum::<usize>()
        }
        assert!(check(&Args::command()) > 50);
    }
}
