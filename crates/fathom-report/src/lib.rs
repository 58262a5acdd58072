//! Records as text: tables for people, and the classic tools' forms. Pure functions: data in, text out.
//!
//! Texts are ASCII, end with a newline, and are at most [`text::WIDTH`] columns wide, except for remarks behind a
//! row, paths, and commands that are to be copied whole.

pub mod classic;
pub mod detail;
mod figures;
pub mod findings;
mod job;
pub mod list;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod sample;
mod series;
pub mod summary;
pub mod table;
pub mod text;
