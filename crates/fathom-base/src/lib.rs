//! Ground floor: quantities with units, random numbers, the clock trait, run identifiers.
//!
//! Nothing here reads the system; everything is a function of its arguments.

pub mod clock;
pub mod id;
pub mod prng;
pub mod stamp;
pub mod suggest;
pub mod units;
