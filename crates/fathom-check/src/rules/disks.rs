//! Drives: health, caches, what they say of themselves.

mod caches;
mod features;
mod health;
mod state;
#[cfg(test)]
mod tests;
mod zones;

pub(super) use health::is_failing;

use crate::rule;
use crate::rule::Rule;

/// The rules of this group.
pub const RULES: &[Rule] = &[
    rule!("drive-failing", "a drive reports damage", High, Guest, health::failing),
    rule!(
        "drive-worn",
        "a drive is near the end of its promised life",
        Medium,
        Guest,
        health::worn
    ),
    rule!("drive-hot", "a drive is too hot", High, Guest, health::hot),
    rule!("drive-cable-errors", "errors on the cable of a drive", Medium, Guest, health::cable),
    rule!(
        "drive-self-test-missing",
        "a drive was not tested for long",
        Low,
        Guest,
        health::untested
    ),
    rule!("drive-offline", "a drive does not take requests", High, Guest, state::offline),
    rule!("drive-read-only", "a drive refuses writes", Low, Guest, state::read_only),
    rule!(
        "flushes-dropped",
        "a volatile cache that is never flushed",
        High,
        Guest,
        caches::flushes_dropped
    ),
    rule!(
        "write-cache-off",
        "the write cache of a drive is off",
        Medium,
        Guest,
        caches::write_cache_off
    ),
    rule!(
        "flushes-slow",
        "a drive takes long to flush its cache",
        Low,
        Guest,
        caches::flushes_slow
    ),
    rule!(
        "command-queueing-off",
        "a drive takes one command at a time",
        High,
        Guest,
        features::queueing_off
    ),
    rule!(
        "drive-features",
        "a drive is set to save power or noise",
        Medium,
        Guest,
        features::settings
    ),
    rule!(
        "nvme-format-slow",
        "a faster sector format is offered",
        Low,
        Guest,
        features::nvme_format
    ),
    rule!("smr-in-array", "a shingled drive in an array", High, Guest, zones::smr_in_array),
    rule!(
        "zoned-scheduler",
        "a zoned drive without the scheduler that it needs",
        High,
        Guest,
        zones::zoned_scheduler
    ),
];
