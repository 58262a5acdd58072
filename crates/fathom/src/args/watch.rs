//! The command line of `fathom watch`.

use clap::Args as ClapArgs;
use std::ffi::OsString;

/// `fathom watch`.
#[derive(Debug, Default, ClapArgs)]
#[command(after_help = "\
Shows what iostat -x shows, by the same definitions, for every layer of a stack as a tree, with what arrays, memory and \
processors do besides. Watching is no measurement: it loads nothing, and runs beside any. With a command it runs that, and \
says what it did to the storage and whether it waited for it.

  fathom watch                           all devices, each second, until Ctrl-C
  fathom watch /srv/data --interval=200ms
  fathom watch md0 --count=600 --record --label=monday
  fathom watch sda --latency             also p50, p99, longest (root)
  fathom watch --listen=127.0.0.1:9184   for Prometheus: GET /metrics there
  fathom watch /srv/db --figure='tps=tps = {}' -- pgbench -c 8 -T 60 bench
  fathom watch --figure=r=json:jobs[0].read.iops -- fio --output-format=json f
  fathom watch --recipe=sqlite /srv/data    a ready application

DEV is a device, a directory or a file. A figure is a text with {} where the number stands, json: \
and a place, or re: and a regular expression with one group.")]
pub struct Watch {
    /// Devices, or directories and files whose devices are meant [default: all that have had a request; with a command those
    /// of this directory]
    #[arg(value_name = "DEV")]
    pub devices: Vec<String>,
    /// Length of an interval, 10ms to 1h
    #[arg(long, default_value = "1s", value_name = "TIME")]
    pub interval: String,
    /// End after so many intervals
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Store the series; with a command or a recipe it always is
    #[arg(long)]
    pub record: bool,
    /// How often what was recorded goes to the store: so much is lost when the machine fails. With a command it goes there when
    /// that has ended
    #[arg(long, default_value = "10m", value_name = "TIME")]
    pub store_every: String,
    /// A word to find the stored run by
    #[arg(long, value_name = "WORD")]
    pub label: Option<String>,
    /// Also idle devices
    #[arg(long)]
    pub all: bool,
    /// Also show interrupts of each queue, and svctm (for old scripts; without meaning on parallel devices)
    #[arg(long)]
    pub details: bool,
    /// Plain lines instead of a view, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Also p50, p99 and the longest of the times that devices took for requests, from the kernel's block tracepoints (needs
    /// root; about half a microsecond of a processor for each request)
    #[arg(long)]
    pub latency: bool,
    /// Serve the figures as OpenMetrics on this address, unencrypted and to whoever reaches it; a port alone is one of this machine only
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub listen: Option<String>,
    /// A figure that the command prints; repeat for more
    #[arg(long, value_name = "NAME=PATTERN")]
    pub figure: Vec<String>,
    /// How long the command may take [default: as long as it wants]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Run a ready application on a directory: pgbench, vacuum-full,
    /// optimize-table, sqlite, dd, copy, build-tree
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub recipe: Option<String>,
    /// It is a part of another command, which says what that came to.
    #[arg(skip)]
    pub is_part: bool,
    /// The application to run and watch
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
