//! Verdicts and conclusions over records
