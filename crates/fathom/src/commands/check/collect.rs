//! All facts of the machine that runs fathom.

use super::empty;
use crate::args::{Check, Common};
use crate::commands::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::order::Order;
use fathom_inspect::system::io_now::Look;
use fathom_inspect::vendor::{self, Tools};
use fathom_inspect::{Moment, scan_untouched, system_facts};
use fathom_model::host::HostFacts;
use fathom_model::snapshot::{Machine, Measured, Snapshot, Unread};
use fathom_store::{Filter, RunState, Store, StoreError};
use fathom_study::measured;
use fathom_sys::clock;
use fathom_sys::sysroot::SysRoot;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long other I/O is looked at, at least.
const LOOK_AT_IO: Duration = Duration::from_millis(500);

/// Reads everything; what cannot be read is listed and no error.
pub fn snapshot(common: &Common, output: Output, args: &Check) -> Result<Snapshot, CommandError> {
    for target in &args.targets {
        exists(output, target)?;
    }
    let root = SysRoot::live();
    let targets: Vec<PathBuf> = args.targets.iter().map(PathBuf::from).collect();
    // Attributes are read meanwhile, which takes no I/O.
    let (look, mut io_now) = (Look::begin(&root), Vec::new());
    let no_counters = look.unread();
    let scan = scan_untouched(&root, &targets, || io_now = look.end(&root, LOOK_AT_IO))
        .map_err(|error| CommandError::report_as(output, &error, Exit::Usage))?;
    let now_unix_s = clock::unix_ns() / 1_000_000_000;
    let moment = Moment { now_unix_s, utc_offset_s: session::utc_offset_s() };
    let (mut system, mut unread) = system_facts(&root, &scan.machine, &moment);
    (system.hosts, system.io_now) = (scan.hosts, io_now);
    unread.extend(scan.unread.into_iter().chain(no_counters));
    let mut controllers = Vec::new();
    if args.vendor_tools {
        let (found, silent) = vendor::ask(&Tools::installed());
        controllers = found;
        unread.extend(silent);
    }
    let rest = empty();
    let measured = measurements(common, &scan.machine, &rest.host, &mut unread);
    unread.order();
    unread.dedup();
    Ok(Snapshot {
        targets: args.targets.iter().map(|target| session::absolute_target(target)).collect(),
        machine: scan.machine,
        system,
        controllers,
        measured,
        unread,
        ..rest
    })
}

/// Refuses a target that is not there: what lies above it was not asked about. Of devices the scan says more.
fn exists(output: Output, target: &str) -> Result<(), CommandError> {
    let path = Path::new(target);
    let is_missing = || {
        let found = std::fs::symlink_metadata(path);
        found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    if target.is_empty() || (!is_device && is_missing()) {
        let shown = if target.is_empty() { "''" } else { target };
        return Err(CommandError::usage(output, &format!("{shown}: does not exist")));
    }
    Ok(())
}

/// The newest run of each workload on each node, from the store; a store that cannot be read is no error here. Runs of other
/// machines, which a store may hold too, and of what was here before are left out.
fn measurements(
    common: &Common,
    machine: &Machine,
    host: &HostFacts,
    unread: &mut Vec<Unread>,
) -> Vec<Measured> {
    const RUNS_LOOKED_AT: u32 = 500;
    let unreadable = |error: &dyn std::fmt::Display| Unread {
        what: "the store of results".to_owned(),
        why: error.to_string(),
    };
    let opened = session::store_path(common).and_then(|path| Store::open_read_only(&path));
    let store = match opened {
        Ok(store) => store,
        // Nothing has been measured yet.
        Err(StoreError::Missing { .. }) => return Vec::new(),
        Err(error) => {
            unread.push(unreadable(&error));
            return Vec::new();
        }
    };
    let filter = Filter { limit: Some(RUNS_LOOKED_AT), ..Filter::default() };
    let by_key = machine.by_key();
    let mut found: Vec<Measured> = Vec::new();
    let runs = match store.list(&filter) {
        Ok(runs) => runs,
        Err(error) => {
            unread.push(unreadable(&error));
            return found;
        }
    };
    for summary in runs.into_iter().filter(|summary| summary.state == RunState::Complete) {
        let Ok(stored) = store.load(&summary.id) else { continue };
        if !measured::may_be_same_host(&stored.head.host, host) {
            continue;
        }
        for record in &stored.records {
            let Some(one) = measured::from_record(&summary.id, record) else { continue };
            let known = |m: &Measured| {
                (&m.target, &m.workload, m.in_flight) == (&one.target, &one.workload, one.in_flight)
            };
            let is_here = by_key.get(&one.target).is_some_and(|&top| {
                record.targets.iter().all(|target| measured::is_of(&target.stack, machine, top))
            });
            // The newest come first.
            if is_here && !found.iter().any(known) {
                found.push(one);
            }
        }
    }
    found
}
