//! Records as text: tables for people, and the classic tools' forms. Pure functions: data in, text out.
//!
//! Texts are ASCII, end with a newline, and are at most [`text::WIDTH`] columns wide, except for remarks behind a
//! row, paths, and commands that are to be copied whole.

pub mod answer;
pub mod asked;
pub mod brief;
pub mod capture;
pub mod check;
pub mod classic;
pub mod comparison;
pub mod detail;
pub mod experiment;
pub mod figures;
pub mod findings;
pub mod fsop;
pub mod history;
pub mod imported;
mod job;
pub mod layers;
pub mod list;
mod open_loop;
pub mod play;
#[cfg(test)]
mod properties;
pub mod raid;
mod ratio;
pub mod rounds;
#[cfg(test)]
mod sample;
pub mod saturation;
mod series;
pub mod sizes;
pub mod summary;
pub mod table;
pub mod text;
pub mod verification;
pub mod watch;
