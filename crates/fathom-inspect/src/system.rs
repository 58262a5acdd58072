//! Facts about the system that matter to its storage in use: memory, processors, interrupts, timers, daemons, configuration
//! files, limits, the kernel's log.
//!
//! No process is started, nothing is written, and no device is asked anything. The parsers are pure functions from text.

pub mod calendar;
pub mod cgroups;
pub mod civil;
pub mod cloud;
pub mod config;
pub mod cron;
pub mod io_now;
pub mod kernel;
pub mod kernel_log;
pub mod memory;
pub mod processes;
pub mod processors;
mod reader;
pub mod schedule;
pub mod timers;
pub mod units;

use fathom_model::snapshot::{Machine, Unread};
use fathom_model::system::{SystemFacts, Timer};
use fathom_sys::sysroot::SysRoot;
use reader::Reader;
use std::path::Path;

/// What the caller knows of the time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Moment {
    /// Seconds since 1970.
    pub now_unix_s: i64,
    /// What local time is ahead of UTC, in seconds: timers and cron count in local time. A change of the clock between now
    /// and the next start of a timer makes that start wrong by the change.
    pub utc_offset_s: i64,
}

/// The timers of systemd and the jobs of cron that touch storage, with their next starts. What cannot be read is left out.
#[must_use]
pub fn timers(root: &SysRoot, moment: &Moment) -> Vec<Timer> {
    let mut reader = Reader::new(root);
    let processes = processes::all(&mut reader);
    timers::all(&mut reader, &processes, moment)
}

/// Whether a first line is what it should be.
type MakesSense = fn(&str) -> bool;

/// Files whose first line shows whether they are what they should be: what is there and makes no sense is not the same as what is not
/// there. `/proc/diskstats` is none of them: no look is taken of it once devices were asked, see [`io_now::Look::unread`].
const SENSE: [(&str, MakesSense); 3] = [
    ("proc/meminfo", |line| line.starts_with("MemTotal:")),
    ("proc/stat", |line| line.starts_with("cpu ")),
    ("proc/swaps", |line| line.starts_with("Filename")),
];

fn note_nonsense(reader: &mut Reader<'_>) {
    for (file, makes_sense) in SENSE {
        let text = reader.text(file).unwrap_or_default();
        if text.lines().next().is_some_and(|line| !makes_sense(line)) {
            let error = std::io::Error::other("what it holds makes no sense");
            reader.note(Path::new(file), &error);
        }
    }
}

/// All facts of the system, and what could not be read. Adapters ([`SystemFacts::hosts`]) are left empty, as they belong to the
/// devices, and so is [`SystemFacts::io_now`], which takes two looks ([`io_now::Look`]).
#[must_use]
pub fn system_facts(
    root: &SysRoot,
    machine: &Machine,
    moment: &Moment,
) -> (SystemFacts, Vec<Unread>) {
    let mut reader = Reader::new(root);
    note_nonsense(&mut reader);
    let processes = processes::all(&mut reader);
    let (kernel_log, kernel_log_read) = kernel_log::read(&mut reader);
    let facts = SystemFacts {
        host_name: root.text("proc/sys/kernel/hostname").filter(|name| name != "(none)"),
        vm: memory::vm(&mut reader),
        raid_speed_limit_kib: memory::raid_speed_limit_kib(&mut reader),
        swaps: memory::swaps(&mut reader, machine),
        cpu_frequency: processors::frequency_policies(&mut reader),
        cpu_idle: processors::idle_states(&mut reader),
        cpus_online: processors::online(root),
        stolen_share: processors::stolen_share(root),
        command_line: reader.line("proc/cmdline").map(|line| kernel::without_secrets(&line)),
        module_parameters: kernel::module_parameters(&mut reader),
        interrupts: processors::storage_interrupts(&mut reader),
        timers: timers::all(&mut reader, &processes, moment),
        daemons: processes::daemons(&processes),
        kernel_threads: processes::kernel_threads(&processes),
        configuration: config::all(&mut reader),
        io_limits: cgroups::io_limits(&mut reader),
        cloud: cloud::cloud(root),
        kernel_log,
        kernel_log_read,
        io_now: Vec::new(),
        hosts: Vec::new(),
    };
    (facts, reader.into_unread())
}
