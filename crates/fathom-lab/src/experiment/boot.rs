//! Cells that need another boot: what to boot, and whether this is it.

use fathom_model::plan::cell::Cell;
use fathom_sys::sysroot::SysRoot;

/// What the machine must be booted with for a cell, in words; none when it is.
pub(crate) fn wanted(root: &SysRoot, cell: &Cell) -> Option<String> {
    let line = root.text("proc/cmdline").unwrap_or_default();
    let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let is_so = |(parameter, level): &(&String, &String)| match parameter.as_str() {
        "kernel" => release == **level,
        _ => has(&line, parameter, level),
    };
    let words = |(parameter, level): (&String, &String)| match (parameter.as_str(), level.as_str())
    {
        ("kernel", level) => format!("the kernel {level}"),
        (parameter, "absent") => format!("no {parameter} on the kernel's command line"),
        (parameter, "present") => format!("{parameter} on the kernel's command line"),
        (parameter, level) => format!("{parameter}={level} on the kernel's command line"),
    };
    let missing: Vec<String> = cell.boot.iter().filter(|pair| !is_so(pair)).map(words).collect();
    (!missing.is_empty()).then(|| missing.join(" and "))
}

/// The last one given counts, as for most of the kernel's parameters.
fn has(line: &str, parameter: &str, level: &str) -> bool {
    let mut given = line.split_ascii_whitespace().filter_map(|word| match word.split_once('=') {
        Some((name, value)) if name == parameter => Some(Some(value)),
        None if word == parameter => Some(None),
        _ => None,
    });
    match (level, given.next_back()) {
        ("absent", found) => found.is_none(),
        ("present", found) => found.is_some(),
        (level, found) => found == Some(Some(level)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_command_line() {
        let line = "quiet mem=2G nvme.poll_queues=2 mem=4G";
        for (parameter, level, is_so) in [
            ("mem", "4G", true),
            ("mem", "2G", false),
            ("quiet", "present", true),
            ("quiet", "absent", false),
            ("splash", "absent", true),
            ("nvme.poll_queues", "2", true),
            ("poll_queues", "2", false),
        ] {
            assert_eq!(has(line, parameter, level), is_so, "{parameter}={level}");
        }
    }
}
