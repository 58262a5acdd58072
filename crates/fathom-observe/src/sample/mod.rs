//! Counters of the kernel, read once in a while, and what happened between two readings.
//!
//! `between` turns two readings of a device into what it did, over wraps of counters and devices that were replaced;
//! `layers` says which device stands on which; `companions` marks the one that is slower than its like; `host` and
//! `family` are the machine and a watched application; `watcher` puts all of it together, and `metrics` says it in
//! the form of OpenMetrics. `latency` tells requests one by one, where block tracepoints can be read.

pub mod between;
pub mod companions;
pub mod family;
mod host;
pub mod latency;
pub mod layers;
pub mod listen;
pub mod metrics;
pub mod watcher;

pub use family::Family;
pub use latency::Latency;
pub use listen::Listener;
pub use watcher::{Choice, Moment, Watcher};
