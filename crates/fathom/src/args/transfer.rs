//! `fathom export`, `fathom import`, `fathom completions` and `fathom man`.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::path::PathBuf;

/// `fathom export`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Without RUN all runs that the filters leave; the oldest first. An export holds paths, labels and serial numbers; --anonymise \
replaces them. jsonl is the form that loses nothing: fathom import takes it \
into another store. A name that ends in .gz is packed. docs/export.md says what each form holds.

  fathom export -o all.jsonl.gz                   a copy of everything
  fathom export 7f3k -o rows.csv                  a line for each row and class
  fathom export 7f3k --what=series -o s.csv       one-second samples
  fathom export --what=trials -o trials.csv       for DuckDB, pandas, R
  fathom export 7f3k -o t.json --format=chrome-trace    for ui.perfetto.dev
  ssh db7 fathom export | fathom import -         the runs of another machine")]
pub struct Export {
    /// The runs: their labels, or the first characters of their names [default: all that the filters leave]
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// The form [default: by the name of the file, else csv with --what and jsonl without]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ExportFormat>,
    /// Where to write it; - for standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Which table, for csv and parquet [default: rows]
    #[arg(long, value_enum, value_name = "TABLE")]
    pub what: Option<ExportTable>,
    /// Only runs on this target or below it
    #[arg(long, value_name = "PATH")]
    pub target: Option<String>,
    /// Only runs with this label
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// At most so many, the newest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Replace paths, labels, serial numbers, UUIDs and addresses, the same one by the same word throughout, and leave out what people wrote
    #[arg(long)]
    pub anonymise: bool,
    /// Replace the file when it exists
    #[arg(long)]
    pub overwrite: bool,
}

/// Forms of exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Lines of JSON that lose nothing
    Jsonl,
    /// A table, see --what
    Csv,
    /// A table as Parquet, with its types
    Parquet,
    /// An HdrHistogram log: intervals of latency
    Hdr,
    /// OpenMetrics text, for Prometheus
    Openmetrics,
    /// Trace events, for Perfetto and chrome://tracing
    ChromeTrace,
}

/// Tables of exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportTable {
    /// A line for each row and class of operations: rates and percentiles
    Rows,
    /// A line for each interval and class: what happened over time
    Series,
    /// A line for each occupied bucket of a latency histogram
    Histogram,
    /// A line for each trial, with a column for each factor of experiments
    Trials,
    /// A line for each finding
    Findings,
    /// A line for each block device of a trial
    Devices,
    /// A line for each device and interval of a watch, or of the trials of other runs: what was counted, and the fields of iostat
    Watch,
    /// A line for each interval of a watch: processors, memory, pressure, the application
    WatchHost,
    /// A line for each operation that is kept of a file server or personality: when it began, what it took
    Operations,
    /// A line for each interval of a capture: requests, bytes, seeks, depth, latency
    CaptureSeries,
}

/// `fathom completions`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Each shell reads its own from another place:

  fathom completions bash > /etc/bash_completion.d/fathom
  source <(fathom completions bash)            # for this shell only
  fathom completions zsh > ~/.zfunc/_fathom    # fpath+=~/.zfunc, compinit
  fathom completions fish > ~/.config/fish/completions/fathom.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Shells with completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// `fathom import`.
#[derive(Debug, ClapArgs)]
#[command(
    args_conflicts_with_subcommands = true,
    arg_required_else_help = true,
    after_help = "\
A file is what fathom export wrote as jsonl, or the store of another machine. Runs that are here already stay \
unchanged; if another run has the same name here, the imported one gets another. Both are reported.

  fathom import runs.jsonl.gz
  fathom import /mnt/db7/fathom.db /mnt/db8/fathom.db
  ssh db7 fathom export | fathom import -"
)]
pub struct Import {
    /// Exports as jsonl, or stores; - for standard input
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The form of a table.
    #[command(subcommand)]
    pub from: Option<ImportFrom>,
}

/// Forms of foreign results.
#[derive(Debug, Subcommand)]
pub enum ImportFrom {
    /// Analyse a CSV file of foreign results: the first line names the columns, each further one is a single run
    Csv(ImportCsv),
}

/// `fathom import csv`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Columns that --columns does not name are factors: rows are compared only when they agree in all of them but the one in \
question. Nothing is stored; exit code 1 when rows cannot be right or not be compared.

  fathom import csv old.csv --columns=total_iops:higher:1/s \\
      --columns=r_iops:higher:1/s,r_ms:lower:ms \\
      --columns=w_iops:higher:1/s,w_ms:lower:ms \\
      --little='threads=r_iops*r_ms+w_iops*w_ms' --sweep=threads:total_iops \\
      --best=array:total_iops:block_size \\
      --compare=scheduler:noop:deadline:total_iops")]
pub struct ImportCsv {
    /// The file
    pub file: PathBuf,
    /// What columns are: NAME:higher[:UNIT] and NAME:lower[:UNIT] for metrics, NAME:factor, NAME:skip
    #[arg(long, value_name = "NAME:ROLE[:UNIT]", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Check each row by Little's law (requests in flight = rate x latency); IN_FLIGHT is a column or a number
    #[arg(long, value_name = "IN_FLIGHT=RATE*LATENCY+...")]
    pub little: Option<String>,
    /// Which arrays do the work of one disk: small random requests per second; others columns or numbers
    #[arg(long, value_name = "RATE:DISKS:IN_FLIGHT[:DISK_REQUESTS]")]
    pub one_disk: Option<String>,
    /// How a metric goes with a number, and where it stops growing
    #[arg(long, value_name = "FACTOR:METRIC")]
    pub sweep: Vec<String>,
    /// Which level of a factor is best, for each combination of further factors
    #[arg(long, value_name = "FACTOR:METRIC[:FACTOR...]")]
    pub best: Vec<String>,
    /// Level B of a factor against level A, in rows that differ in nothing else
    #[arg(long, value_name = "FACTOR:A:B:METRIC")]
    pub compare: Vec<String>,
}
