//! The SQLite store of runs
