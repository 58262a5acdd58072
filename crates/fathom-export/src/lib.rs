//! Stored runs in the forms of other programs: tables (CSV, Parquet), HdrHistogram logs, OpenMetrics, Chrome traces.
//!
//! Pure: runs in, bytes out. None of these forms holds everything; the one that does (JSON lines) is the store's own.
