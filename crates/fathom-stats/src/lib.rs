//! Statistics: pure functions and mergeable accumulators, no system access, no clock.

pub mod bootstrap;
pub mod change;
#[cfg(test)]
mod coverage_tests;
pub mod equivalence;
pub mod error;
pub mod factorial;
pub mod histogram;
pub mod interval;
pub mod jackknife;
pub mod means;
mod moments;
pub mod multiple;
pub mod nested;
pub mod percentiles;
pub mod quantile;
pub mod rank;
pub mod sequential;
pub mod series;
#[cfg(test)]
mod simulated;
pub mod sparse;
pub mod special;
pub mod steady;
pub mod trend;
pub mod warm_up;

pub use histogram::Histogram;
pub use sparse::SparseHistogram;
