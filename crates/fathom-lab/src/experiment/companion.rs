//! The load beside the measured one: what else a system in use does.

use fathom_sys::threads;
use std::ffi::OsString;

/// The commands of a companion, one for each program: `cpu` keeps every processor busy, `memory` the path to memory; anything
/// else is a command for the shell.
#[must_use]
pub(crate) fn commands(companion: &str) -> Vec<Vec<OsString>> {
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let cpus = threads::allowed_cpus().map_or(1, |cpus| cpus.len().max(1));
    match companion {
        "" | "none" => Vec::new(),
        // A digest of what never ends: computing, almost no system calls.
        "cpu" => vec![words(&["sha256sum", "/dev/zero"]); cpus],
        // Far more at once than processors' caches hold, so every byte goes to memory.
        "memory" => {
            vec![
                words(&["dd", "if=/dev/zero", "of=/dev/null", "bs=256M", "status=none"]);
                cpus.div_ceil(2)
            ]
        }
        command => vec![words(&["/bin/sh", "-c", command])],
    }
}

/// In words, for the outline.
#[must_use]
pub(crate) fn words(companion: &str) -> String {
    let commands = commands(companion);
    let text = |words: &Vec<OsString>| {
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    };
    match commands.as_slice() {
        [] => "nothing".to_owned(),
        [_] if !matches!(companion, "cpu" | "memory") => companion.to_owned(),
        [one] => text(one),
        [one, ..] => format!("{} x {}", commands.len(), text(one)),
    }
}
