//! Trials, quick and run
