//! Options of commands about stored runs: `fathom list`, `show`, `report`, `history` and `rm`.

use super::Style;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

/// `fathom list`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Where a command asks for a run, its label or the first characters of its name are enough.

  fathom list
  fathom list --target=/srv --limit=10
  fathom list --label=nightly --json")]
pub struct List {
    /// Only runs on this target or below it
    #[arg(long, value_name = "PATH")]
    pub target: Option<String>,
    /// Only runs with this label
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// At most so many, the newest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

/// `fathom show`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The run is judged anew from its records, by the rules of today.

  fathom show 7f3k
  fathom show 7f3k --style=classic
  fathom show 7f3k --json    everything, for programs")]
pub struct Show {
    /// The run: its label, or the first characters of its name
    pub run: String,
    /// How figures are shown
    #[arg(long, value_enum, default_value = "fathom", value_name = "STYLE")]
    pub style: Style,
}

/// `fathom report`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
The file holds everything that it shows, charts and their figures: it can be mailed, opened without network, printed, and read \
with scripts switched off.

  fathom report                        the last run, as fathom-ID.html
  fathom report 7f3k -o disk.html      that run
  fathom report before after           two runs or labels, as by fathom compare
  fathom report --history=/srv/data    results of one target over time
  fathom report -o -                   on standard output
  fathom report -o disk.md             as Markdown, for an issue or a wiki")]
pub struct Report {
    /// The run: its label, or the first characters of its name; two to compare [default: the last run]
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// All finished runs on this target over time instead
    #[arg(long, value_name = "TARGET", conflicts_with = "runs")]
    pub history: Option<String>,
    /// Where to write it; - for standard output [default: fathom-RUN.html in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What is written [default: by the name of the file, else html]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,
    /// Replace the file also when it is no report of fathom
    #[arg(long)]
    pub overwrite: bool,
    /// Replace paths, labels, serial numbers, UUIDs and addresses, the same one by the same word throughout, and leave out what people wrote
    #[arg(long)]
    pub anonymise: bool,
    /// Of a comparison: the largest change that does not matter [default: 3%]
    #[arg(long, value_name = "PERCENT")]
    pub margin: Option<String>,
    /// Of a history: the smallest change of level to look for [default: 5%]
    #[arg(long, value_name = "PERCENT", requires = "history")]
    pub step: Option<String>,
}

/// What a report is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One self-contained file with charts
    Html,
    /// Text and tables for an issue or a wiki
    Markdown,
}

impl ReportFormat {
    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Markdown => "markdown",
        }
    }
}

/// `fathom history`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Runs with the same settings on the same device and size form a series. From 16 runs on, changes of its level are looked \
for; each is shown with everything that differed from one run to the next as near to it as its place is known: one run and a
twentieth of all.

  fathom history /srv/data
  fathom history /srv/data --row='random read' --label=nightly")]
pub struct History {
    /// As it was given to quick or run, or a directory above
    pub target: String,
    /// Only rows that begin with this
    #[arg(long, value_name = "NAME")]
    pub row: Option<String>,
    /// Only runs with this label
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// The smallest change of level to look for
    #[arg(long, default_value = "5%", value_name = "PERCENT")]
    pub step: String,
}

/// `fathom rm`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
All that were named go, or, when one is not there or still running, none. There is no way back but a copy that was made before.

  fathom export 7f3k -o 7f3k.jsonl.gz    a copy; fathom import takes it back
  fathom rm 7f3k")]
pub struct Rm {
    /// The runs: their labels, or the first characters of their names
    #[arg(required = true, value_name = "RUN")]
    pub run: Vec<String>,
}
