//! Ground floor: quantities with units, random numbers, the clock trait, run identifiers.
//!
//! Nothing here reads the system; everything is a function of its arguments.

pub mod classic_stream;
pub mod clock;
pub mod content;
pub mod distribution;
pub mod glibc_random;
#[cfg(test)]
mod goodness;
pub mod id;
pub mod json;
pub mod ledger;
pub mod lognormal;
mod math;
mod mersenne;
pub mod noise;
pub mod order;
pub mod packed;
pub mod permutation;
pub mod printable;
pub mod prng;
pub mod provenance;
pub mod sequence;
pub mod shell;
pub mod stamp;
pub mod suggest;
pub mod units;
pub mod verify_block;
pub mod zipf;
