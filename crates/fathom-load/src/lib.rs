//! The load engine: issues I/O, records every latency, disturbs nothing.
//!
//! One OS thread per worker, one engine per thread. The coordinator ([`run::run`]) starts them together, collects
//! full interval buffers over bounded lock-free queues, and makes the records. Inside the measured loop
//! ([`worker`]) nothing is allocated, no lock is taken, and the clock is read once per submitted and once per reaped
//! batch.
//!
//! Adding an engine is one file in `engines/` plus its calls in `fathom-sys`.

pub mod apart;
mod collect;
mod delivered;
pub mod engine;
mod engines;
mod files;
mod final_sync;
mod generator;
mod in_turn;
mod kinds;
mod lane;
pub mod limits;
mod pace;
mod payload;
pub mod plan;
pub mod readback;
mod recorder;
pub mod replay;
pub mod run;
mod streams;
pub mod target;
pub mod verify;
mod worker;

pub use delivered::delivered;
pub use engines::ability::check_early;
