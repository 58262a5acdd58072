//! `fathom doctor`.

use super::CommandResult;
use crate::args::Common;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::units::format_size;
use fathom_guard::MeasuringLock;
use fathom_model::host::HostFacts;
use fathom_store::{Store, StoreError};
use fathom_sys::clock::{Calibration, FastClock};
use fathom_sys::io::check_writable;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{process, ring, threads};
use serde::Serialize;
use std::fmt::Write;
use std::path::Path;

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    works: bool,
    detail: String,
}

/// Says what works on this machine, and why not.
pub fn run(common: &Common, output: Output) -> CommandResult {
    let root = SysRoot::live();
    let host = fathom_inspect::host_facts(&root);
    let checks = vec![
        rights(),
        io_uring(&host),
        libaio(&root),
        clock(&host),
        store(common),
        lock(&root),
        left_changed(common, &root),
        cpus(),
        memory(&host),
        block_devices(&root),
        tracing(&root),
        pressure(&root),
    ];
    let mut text = headline(&host);
    for check in &checks {
        let word = if check.works { "ok" } else { "no" };
        let _ = writeln!(text, "{word:3} {:18} {}", check.what, check.detail);
    }
    output.text(&text)?;
    output.json("result", &serde_json::json!({ "host": host, "checks": checks }))?;
    Ok(Exit::Done)
}

/// What killed experiments left changed.
fn left_changed(common: &Common, root: &SysRoot) -> Check {
    const WHAT: &str = "settings";
    let pending = session::store_path(common).map_err(|error| error.to_string()).and_then(|path| {
        let state_dir = path.parent().unwrap_or(Path::new("."));
        fathom_lab::restore::pending(root, state_dir).map_err(|error| error.to_string())
    });
    match pending {
        Err(error) => check(WHAT, false, error),
        Ok(all) => match all.iter().filter(|change| !change.is_running).count() {
            0 => check(WHAT, true, "nothing that a killed experiment left changed"),
            count => check(
                WHAT,
                false,
                format!(
                    "killed experiments left something changed (entries: {count}): fathom restore puts it back, or says what helps"
                ),
            ),
        },
    }
}

fn headline(host: &HostFacts) -> String {
    let parts = [
        host.machine.clone(),
        host.virtualisation.clone(),
        host.distribution.clone(),
        host.kernel.clone().map(|k| format!("Linux {k}")),
        host.cpu_model.clone(),
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    format!("fathom {} on {}\n\n", env!("CARGO_PKG_VERSION"), known.join(", "))
}

fn check(what: &'static str, works: bool, detail: impl Into<String>) -> Check {
    Check { what, works, detail: detail.into() }
}

fn rights() -> Check {
    if process::is_root() {
        return check("root", true, "devices can be read and, with consent, written");
    }
    check(
        "root",
        false,
        "files and directories only; reading devices and seeing other users' processes needs root",
    )
}

fn io_uring(host: &HostFacts) -> Check {
    match ring::supported_features() {
        Ok(features) => {
            let words: Vec<&str> = features.iter().map(|f| f.word()).collect();
            check("io_uring", true, format!("with {}", words.join(", ")))
        }
        Err(error) => {
            let switch = match host.io_uring_disabled {
                Some(n) if n > 0 => format!(
                    "; kernel.io_uring_disabled is {n}: sysctl -w kernel.io_uring_disabled=0"
                ),
                _ => "; a kernel without it, or a seccomp filter (containers have one)".to_owned(),
            };
            check(
                "io_uring",
                false,
                format!("{error}{switch}; psync threads are used in its place"),
            )
        }
    }
}

fn libaio(root: &SysRoot) -> Check {
    let number = |name: &str| root.value::<u64>(format!("/proc/sys/fs/{name}"));
    match (number("aio-nr"), number("aio-max-nr")) {
        (Some(used), Some(limit)) => check(
            "libaio",
            used < limit,
            format!("{used} of {limit} places for requests in use (sysctl fs.aio-max-nr)"),
        ),
        _ => check("libaio", false, "this kernel was built without it"),
    }
}

fn clock(host: &HostFacts) -> Check {
    let source = host.clock_source.clone().unwrap_or_else(|| "unknown".into());
    let fast = FastClock::calibrated(Calibration::begin(), host.clock_source.as_deref());
    match fast.source() {
        "tsc" => check("clock", true, "time-stamp counter, as the kernel itself uses"),
        other => check(
            "clock",
            true,
            format!("{other}; the kernel's clock source is {source}, so each reading costs more"),
        ),
    }
}

/// Looks at the store without making it.
fn store(common: &Common) -> Check {
    let path = match session::store_path(common) {
        Ok(path) => path,
        Err(error) => return check("store", false, error.to_string()),
    };
    let shown = path.display();
    let mut store = match Store::open_read_only(&path) {
        Ok(store) => store,
        Err(StoreError::Missing { .. }) => {
            return to_be_made("store", &path, "made by the first measurement");
        }
        Err(error) => return check("store", false, error.to_string()),
    };
    // A transaction has its journal beside the file.
    let directory = path.parent().unwrap_or(Path::new("/"));
    match check_writable(&path).and_then(|()| check_writable(directory)) {
        Ok(()) => match store.check() {
            Ok(()) => check("store", true, shown.to_string()),
            Err(error) => check("store", false, error.to_string()),
        },
        Err(error) => {
            check("store", false, format!("{shown} cannot be written to: {error}; --db FILE"))
        }
    }
}

/// A file that is not there yet: whether it can be.
fn to_be_made(what: &'static str, path: &Path, when: &str) -> Check {
    let shown = path.display();
    let nearest = path.ancestors().skip(1).find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    match check_writable(nearest) {
        Ok(()) if !nearest.is_dir() => check(
            what,
            false,
            format!("{shown} cannot be made: {} is no directory", nearest.display()),
        ),
        Ok(()) => check(what, true, format!("{shown}, {when}")),
        Err(error) => {
            check(what, false, format!("{shown} cannot be made: {}: {error}", nearest.display()))
        }
    }
}

/// Tries the lock without making its file.
fn lock(root: &SysRoot) -> Check {
    let path = MeasuringLock::default_path();
    if path.symlink_metadata().is_err() {
        return to_be_made("measuring lock", &path, "made by the first measurement");
    }
    match MeasuringLock::acquire(root) {
        Ok(lock) => check("measuring lock", true, lock.path().display().to_string()),
        Err(error) => check("measuring lock", false, error.to_string().replace('\n', "; ")),
    }
}

fn cpus() -> Check {
    match threads::allowed_cpus() {
        Ok(cpus) => check("processors", true, format!("{} may be used", cpus.len())),
        Err(error) => check("processors", false, error.to_string()),
    }
}

fn memory(host: &HostFacts) -> Check {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".into(), format_size);
    let limit = host
        .cgroup_memory_limit_bytes
        .map_or_else(String::new, |b| format!(", control group limit {}", format_size(b)));
    let detail = format!(
        "{} of {} available{limit}",
        size(host.memory_available_bytes),
        size(host.memory_total_bytes)
    );
    check("memory", host.memory_total_bytes.is_some(), detail)
}

fn block_devices(root: &SysRoot) -> Check {
    let names = root.names("sys/block");
    let real: Vec<String> = names
        .into_iter()
        .filter(|n| root.value::<u64>(format!("sys/block/{n}/size")).is_some_and(|s| s > 0))
        .collect();
    check(
        "block devices",
        !real.is_empty(),
        if real.is_empty() { "none".into() } else { real.join(", ") },
    )
}

fn tracing(root: &SysRoot) -> Check {
    let events = ["sys/kernel/tracing/events/block", "sys/kernel/debug/tracing/events/block"];
    match events.iter().find(|e| !root.names(e).is_empty()) {
        Some(path) => check("block tracing", true, format!("/{path}")),
        None => check(
            "block tracing",
            false,
            "no tracefs to be read: mount -t tracefs nodev /sys/kernel/tracing, as root",
        ),
    }
}

fn pressure(root: &SysRoot) -> Check {
    match root.text("proc/pressure/io") {
        Some(_) => check("pressure stall", true, "/proc/pressure/io"),
        None => check(
            "pressure stall",
            false,
            "the kernel does not tell (CONFIG_PSI, or boot with psi=1)",
        ),
    }
}
