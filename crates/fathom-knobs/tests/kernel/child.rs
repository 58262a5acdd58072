//! The same program as a process that changes settings, and is killed at one of the places for it.

use crate::machine::{knobs, undo_all};
use fathom_guard::changes::{ChangeLog, read_all};
use fathom_guard::faults::Faults;
use fathom_knobs::{Scope, ScopeDevice, Wait, apply, resolve};
use fathom_sys::sysroot::SysRoot;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

/// Variable that names the state directory, and makes this program the child.
pub const DIR: &str = "FATHOM_KNOBS_TEST_DIR";
const NAME: &str = "FATHOM_KNOBS_TEST_DEVICE";
const ID: &str = "FATHOM_KNOBS_TEST_ID";
const FAULT: &str = "FATHOM_FAULT";

/// What the child sets, one after the other, in the same journal.
pub const CELLS: &[&[(&str, &str)]] = &[
    &[
        ("block.scheduler", "mq-deadline"),
        ("block.nr_requests", "40"),
        ("mq-deadline.fifo_batch", "4"),
        ("block.read_ahead_kb", "512"),
        ("vm.dirty_background_bytes", "80000000"),
    ],
    &[
        ("block.scheduler", "bfq"),
        ("block.max_sectors_kb", "512"),
        ("bfq.low_latency", "0"),
        ("block.wbt_lat_usec", "3000"),
        ("vm.dirty_expire_centisecs", "2000"),
    ],
];

/// Runs it until it ends or kills itself.
pub fn run(dir: &Path, device: &ScopeDevice, fault: &str) -> ExitStatus {
    let mut command = Command::new("/proc/self/exe");
    command.env(DIR, dir).env(NAME, &device.name).env(ID, &device.id).env(FAULT, fault);
    command.status().unwrap()
}

/// Applies the cells, then takes them back; or, when the journal of a dead one is there, takes that back.
pub fn play(dir: &Path) -> ExitCode {
    let root = SysRoot::live();
    let var = |name: &str| std::env::var(name).unwrap();
    let faults = Faults::parse(std::env::var(FAULT).ok().as_deref());
    let mut dead = read_all(&root, dir).unwrap().dead;
    if let Some(mut log) = dead.pop() {
        log.adopt(&root, faults).unwrap();
        undo_all(&mut log, false);
        let left = log.close().unwrap();
        return if left.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let devices = [ScopeDevice {
        name: var(NAME),
        id: var(ID),
        is_top: true,
        is_member: true,
        is_behind_file: false,
    }];
    let scope = Scope { devices: &devices, mounts: &[], own: &[] };
    let mut log = ChangeLog::create(&root, dir, "child0run", faults).unwrap();
    for cell in CELLS {
        let settings = resolve(&root, &scope, &knobs(cell)).unwrap();
        apply(&root, &mut log, &settings, &[], &mut Wait::to_the_end(&mut |_| ())).unwrap();
    }
    undo_all(&mut log, false);
    if log.close().unwrap().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
