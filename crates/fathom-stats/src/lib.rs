//! Statistics: pure functions and mergeable accumulators, no system access, no clock.

pub mod histogram;
pub mod quantile;

pub use histogram::Histogram;
