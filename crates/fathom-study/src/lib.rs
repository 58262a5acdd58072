//! Conclusions over records: verdicts and knees. Pure: records in, findings out, recomputable at any time.

pub mod knee;
pub mod rules;
pub mod verdict;

#[cfg(test)]
mod fixtures;
