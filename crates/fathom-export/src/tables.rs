//! What is in tables: one row for each class of operations of a job, for each interval, for each bucket, for each trial.

mod rows;
mod traced;
mod watched;

use crate::Run;
use crate::columns::{Cell, Column, Kind};
use fathom_model::fsop_jobs::with_jobs;
use std::collections::BTreeSet;

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A row for each class of operations of each job of each trial.
    Rows,
    /// A row for each class in each interval.
    Series,
    /// A row for each occupied bucket of a latency histogram.
    Histogram,
    /// A row for each trial, with a column for each factor of the experiments.
    Trials,
    /// A row for each finding.
    Findings,
    /// A row for each block device of each trial.
    Devices,
    /// A row for each device in each interval of a watch.
    Watch,
    /// A row for each interval of a watch: the machine and the application.
    WatchHost,
    /// A row for each operation that is kept of a file server.
    Operations,
    /// A row for each interval of a capture.
    CaptureSeries,
}

impl What {
    /// All tables.
    pub const ALL: [Self; 10] = [
        Self::Rows,
        Self::Series,
        Self::Histogram,
        Self::Trials,
        Self::Findings,
        Self::Devices,
        Self::Watch,
        Self::WatchHost,
        Self::Operations,
        Self::CaptureSeries,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Series => "series",
            Self::Histogram => "histogram",
            Self::Trials => "trials",
            Self::Findings => "findings",
            Self::Devices => "devices",
            Self::Watch => "watch",
            Self::WatchHost => "watch-host",
            Self::Operations => "operations",
            Self::CaptureSeries => "capture-series",
        }
    }
}

/// A table: its columns, and how it makes rows of runs.
#[derive(Debug, Clone)]
pub struct Table {
    what: What,
    factors: Vec<String>,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// What stands in front of every row.
const RUN: &[(&str, Kind)] = &[
    ("run_id", Kind::Text),
    ("run_kind", Kind::Text),
    ("run_label", Kind::Text),
    ("target", Kind::Text),
    ("started_utc", Kind::Text),
    ("trial_index", Kind::Whole),
    ("row_label", Kind::Text),
];

const JOB: &[(&str, Kind)] =
    &[("job_index", Kind::Whole), ("job", Kind::Text), ("class", Kind::Text)];

const ROWS: &[(&str, Kind)] = &[
    ("engine", Kind::Text),
    ("threads", Kind::Whole),
    ("depth", Kind::Whole),
    ("verdict", Kind::Text),
    ("window_s", Kind::Number),
    ("operations", Kind::Whole),
    ("bytes", Kind::Whole),
    ("operations_per_s", Kind::Number),
    ("bytes_per_s", Kind::Number),
    ("service_mean_ns", Kind::Number),
    ("service_stddev_ns", Kind::Number),
    ("service_min_ns", Kind::Whole),
    ("service_p50_ns", Kind::Whole),
    ("service_p90_ns", Kind::Whole),
    ("service_p95_ns", Kind::Whole),
    ("service_p99_ns", Kind::Whole),
    ("service_p99_9_ns", Kind::Whole),
    ("service_p99_99_ns", Kind::Whole),
    ("service_max_ns", Kind::Whole),
    ("response_p50_ns", Kind::Whole),
    ("response_p99_ns", Kind::Whole),
    ("response_p99_9_ns", Kind::Whole),
    ("response_max_ns", Kind::Whole),
    ("unfinished", Kind::Whole),
    ("job_cpu_s", Kind::Number),
    ("machine_busy_share", Kind::Number),
];

const SERIES: &[(&str, Kind)] = &[
    ("sample", Kind::Whole),
    ("start_s", Kind::Number),
    ("length_s", Kind::Number),
    ("operations", Kind::Whole),
    ("bytes", Kind::Whole),
    ("operations_per_s", Kind::Number),
    ("bytes_per_s", Kind::Number),
    ("service_mean_ns", Kind::Number),
    ("service_p50_ns", Kind::Whole),
    ("service_p99_ns", Kind::Whole),
    ("service_max_ns", Kind::Whole),
    ("backlog_end", Kind::Whole),
];

const HISTOGRAM: &[(&str, Kind)] = &[
    ("time", Kind::Text),
    ("low_ns", Kind::Whole),
    ("high_ns", Kind::Whole),
    ("count", Kind::Whole),
    ("cumulative", Kind::Whole),
];

const TRIALS: &[(&str, Kind)] = &[
    ("block", Kind::Whole),
    ("place", Kind::Whole),
    ("cell", Kind::Whole),
    ("is_sentinel", Kind::Truth),
    ("workload", Kind::Text),
    ("void", Kind::Text),
    ("prepare_s", Kind::Number),
    ("window_s", Kind::Number),
    ("operations_per_s", Kind::Number),
    ("bytes_per_s", Kind::Number),
    ("service_mean_ns", Kind::Number),
    ("service_p50_ns", Kind::Whole),
    ("service_p99_ns", Kind::Whole),
    ("service_p99_9_ns", Kind::Whole),
    ("service_max_ns", Kind::Whole),
    ("cpu_per_operation_ns", Kind::Number),
    ("application", Kind::Text),
];

const FINDINGS: &[(&str, Kind)] = &[
    ("finding", Kind::Text),
    ("severity", Kind::Text),
    ("summary", Kind::Text),
    ("advice", Kind::Text),
];

const DEVICES: &[(&str, Kind)] = &[
    ("device", Kind::Text),
    ("window_s", Kind::Number),
    ("reads", Kind::Whole),
    ("read_bytes", Kind::Whole),
    ("writes", Kind::Whole),
    ("written_bytes", Kind::Whole),
    ("flushes", Kind::Whole),
    ("busy_share", Kind::Number),
    ("in_flight_mean", Kind::Number),
];

impl Table {
    /// A table of that kind; `factors` are those of all experiments in it, in the order of their columns.
    #[must_use]
    pub fn new(what: What, factors: &[String]) -> Self {
        let mut seen = BTreeSet::new();
        let factors: Vec<String> =
            factors.iter().filter(|name| seen.insert((*name).clone())).cloned().collect();
        let job = match what {
            What::Rows | What::Series | What::Histogram => JOB,
            _ => &[],
        };
        let own = match what {
            What::Rows => ROWS,
            What::Series => SERIES,
            What::Histogram => HISTOGRAM,
            What::Trials => TRIALS,
            What::Findings => FINDINGS,
            What::Devices => DEVICES,
            What::Watch => watched::DEVICES,
            What::WatchHost => watched::HOST,
            What::Operations => traced::OPERATIONS,
            What::CaptureSeries => traced::CAPTURE_SERIES,
        };
        let column = |(name, kind): &(&str, Kind)| Column { name: (*name).to_owned(), kind: *kind };
        let mut columns: Vec<Column> = RUN.iter().chain(job).chain(own).map(column).collect();
        let is_named = |columns: &[Column], name: &str| columns.iter().any(|c| c.name == name);
        for factor in factors.iter().filter(|_| what == What::Trials) {
            let name = if is_named(&columns, factor) {
                format!("factor_{factor}")
            } else {
                factor.clone()
            };
            columns.push(Column { name, kind: Kind::Text });
        }
        Self { what, factors, columns }
    }

    /// Gives the rows of a run, in the order of trials, jobs, classes.
    ///
    /// # Errors
    /// That of `put`, which ends it.
    pub fn rows<E>(
        &self,
        run: &Run,
        mut put: impl FnMut(Vec<Cell>) -> Result<(), E>,
    ) -> Result<(), E> {
        let whole = rows::before(run, None);
        if self.what == What::Findings {
            run.findings
                .iter()
                .try_for_each(|f| put([whole.clone(), rows::finding(f)].concat()))?;
        }
        for (index, record) in run.records.iter().enumerate() {
            let before = rows::before(run, Some((index, record)));
            let mut each = |rest: Vec<Cell>| put([before.clone(), rest].concat());
            match self.what {
                // Of a file server, readers are one job and writers another.
                What::Rows => rows::classes(run, &with_jobs(record), &mut each)?,
                What::Series => rows::series(record, &mut each)?,
                What::Histogram => rows::histogram(&with_jobs(record), &mut each)?,
                What::Trials => each(rows::trial(record, &self.factors))?,
                What::Findings => {
                    record.findings.iter().try_for_each(|finding| each(rows::finding(finding)))?;
                }
                What::Devices => {
                    record
                        .devices
                        .iter()
                        .try_for_each(|device| each(rows::device(record, device)))?;
                }
                What::Watch => {
                    record.watch.iter().try_for_each(|piece| watched::devices(piece, &mut each))?;
                }
                What::WatchHost => {
                    record.watch.iter().try_for_each(|piece| watched::host(piece, &mut each))?;
                }
                What::Operations => {
                    record.fsop.iter().try_for_each(|of| traced::operations(of, &mut each))?;
                }
                What::CaptureSeries => {
                    let captures = record.capture.iter();
                    captures
                        .into_iter()
                        .try_for_each(|of| traced::capture_series(of, &mut each))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
