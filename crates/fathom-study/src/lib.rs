//! Conclusions over records: verdicts, knees, what limited a sweep. Pure: records in, findings out, recomputable at any time.

pub mod against;
mod blocks;
pub mod capture;
pub mod compare;
mod counters;
pub mod course;
mod delivered;
pub mod drift;
mod endings;
pub mod experiment;
pub mod figures;
pub mod fsop;
pub mod history;
pub mod knee;
pub mod layers;
pub mod measured;
mod open_loop;
mod others;
pub mod play;
pub mod raid;
pub mod repeats;
pub mod rounds;
pub mod rules;
pub mod safety;
mod sample;
pub mod saturate;
pub mod size;
mod steadiness;
pub mod sweep;
pub mod table;
pub mod verdict;
mod verification;
pub mod watch;

#[cfg(test)]
mod fixtures;
