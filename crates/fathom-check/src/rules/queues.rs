//! Request queues: schedulers, read-ahead, limits, switches.

mod limits;
mod read_ahead;
mod schedulers;
mod switches;
#[cfg(test)]
mod tests;

use crate::rule;
use crate::rule::Rule;

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("scheduler-doubled", "requests are sorted twice", Low, Guest, schedulers::doubled),
    rule!(
        "scheduler-on-nvme",
        "a scheduler that a fast drive does not need",
        Medium,
        Guest,
        schedulers::on_nvme
    ),
    rule!(
        "scheduler-parameters",
        "a scheduler with unusual parameters",
        Low,
        Guest,
        schedulers::parameters
    ),
    rule!(
        "scheduler-idles",
        "a scheduler waits for a drive that has no arm",
        Low,
        Guest,
        schedulers::idles
    ),
    rule!("read-ahead-off", "buffered reads are not read ahead", Medium, Guest, read_ahead::off),
    rule!("read-ahead-excessive", "a very large read-ahead", Medium, Guest, read_ahead::excessive),
    rule!(
        "read-ahead-below-stripe",
        "a read-ahead smaller than the stripe below",
        Medium,
        Guest,
        read_ahead::below_stripe
    ),
    rule!(
        "read-ahead-remote",
        "a network filesystem with a small read-ahead",
        Low,
        Guest,
        read_ahead::remote
    ),
    rule!("requests-few", "a short request queue", Low, Guest, limits::requests_few),
    rule!(
        "requests-cut",
        "requests are cut smaller than the drive takes",
        Low,
        Guest,
        limits::requests_cut
    ),
    rule!(
        "hardware-queues-few",
        "few hardware queues for many processors",
        Medium,
        Guest,
        limits::hardware_queues_few
    ),
    rule!(
        "numa-split",
        "members of an array on several NUMA nodes",
        Low,
        Guest,
        limits::numa_split
    ),
    rule!(
        "numa-unknown",
        "the firmware does not say where a drive is",
        Low,
        Guest,
        limits::numa_unknown
    ),
    rule!(
        "merges-off",
        "neighbouring requests are not joined",
        Medium,
        Guest,
        switches::merges_off
    ),
    rule!("iostats-off", "I/O is not counted", Low, Guest, switches::iostats_off),
    rule!(
        "completion-anywhere",
        "requests end on any processor",
        Low,
        Guest,
        switches::completion_anywhere
    ),
    rule!(
        "entropy-from-disk",
        "a fast drive feeds the random generator",
        Low,
        Guest,
        switches::entropy
    ),
    rule!(
        "writeback-throttle-changed",
        "writeback throttling was changed",
        Low,
        Guest,
        switches::throttle
    ),
    rule!(
        "rotational-wrong",
        "the kernel is wrong about rotation",
        Medium,
        Guest,
        switches::rotational_wrong
    ),
];
