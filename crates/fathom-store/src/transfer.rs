//! Runs from store to store, word for word: what is stored is handed on as it is, so that nothing can be lost on the way.

mod import;
pub mod jsonl;
mod rows;

pub use import::{ImportError, Imported, Trials};
pub use rows::{PlanRow, RunCopy, RunRow, TrialRow, WriterRow};
