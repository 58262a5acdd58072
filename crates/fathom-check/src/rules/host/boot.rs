//! The kernel's command line.

use crate::rules::shared::kernel_version;
use crate::scene::Scene;
use fathom_model::defect::{Certainty, Defect, Gravity};

/// Parameters that people give for a trial: name, the value that counts (any where there is none), what they do.
const TRIALS: [(&str, Option<&str>, &str); 9] = [
    ("mem", None, "the kernel uses only that much memory"),
    ("maxcpus", None, "only so many processors are started"),
    ("nr_cpus", None, "only so many processors are started"),
    ("nosmp", None, "one processor does everything"),
    ("noapic", None, "interrupts are shared, and one processor serves them all"),
    ("nolapic", None, "interrupts are shared, and one processor serves them all"),
    ("acpi", Some("off"), "the kernel does not know how interrupts and memory are wired"),
    ("pci", Some("nomsi"), "drives have one queue, and share their interrupts"),
    ("elevator", None, "the kernel ignores it: schedulers are set in /sys/block/*/queue/scheduler"),
];

/// Since 5.4 the kernel only warns of `elevator=`.
const SCHEDULER_IGNORED_SINCE: (u64, u64) = (5, 4);

/// Parameters of trials that the kernel was started with.
pub(super) fn parameters(scene: &Scene<'_>) -> Vec<Defect> {
    let line = scene.snapshot.system.command_line.as_deref().unwrap_or_default();
    let host = &scene.snapshot.host;
    let version = host.kernel.as_deref().and_then(kernel_version);
    // A kernel that is a process has its memory in no other way.
    let is_process = host.virtualisation.as_deref() == Some("uml");
    let left: Vec<(&str, &str)> = line
        .split_ascii_whitespace()
        .filter_map(|word| {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let (_, _, does) = TRIALS.iter().find(|(known, wanted, _)| {
                let fits = wanted.is_none_or(|wanted| value.split(',').any(|one| one == wanted));
                *known == name && fits
            })?;
            let counts = match name {
                "mem" => !is_process,
                "elevator" => version.is_some_and(|version| version >= SCHEDULER_IGNORED_SINCE),
                _ => true,
            };
            counts.then_some((word, *does))
        })
        .collect();
    let Some((first, does)) = left.first() else { return Vec::new() };
    let only_ignored = left.iter().all(|(word, _)| word.starts_with("elevator="));
    let summary = format!("the kernel was started with {first}: {does}");
    let gravity = if only_ignored { Gravity::Low } else { Gravity::Medium };
    let mut defect =
        Defect::new("boot-parameters-left", gravity, None, summary).sure(Certainty::Likely);
    for (word, does) in &left {
        defect = defect.seen("/proc/cmdline", format!("{word}: {does}"));
    }
    let defect = defect
        .because("such parameters are given to make a test small or to get round a fault, and are forgotten: less is cached, fewer processors serve requests, or somebody believes in a scheduler that is not there")
        .advise("take them out of the boot loader's configuration (/etc/default/grub and update-grub or grub2-mkconfig; grubby --update-kernel=ALL --remove-args=...; /etc/kernel/cmdline), if nobody knows why they are there")
        .risking("one that gets round a fault of the machine is needed to start it: keep an entry of the boot menu with it")
        .verified_by("cat /proc/cmdline after the next start");
    vec![defect]
}
