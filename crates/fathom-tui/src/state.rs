//! What is known of a measurement that runs, from its events alone.

use fathom_base::order::Order;
use fathom_base::units::format_count;
use fathom_model::event::{DeviceNow, Event, Layer};
use fathom_model::finding::{Finding, Severity};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Seconds of the past that are kept for the small curves: more than the widest terminal shows.
const SAMPLES_MAX: usize = 300;
/// Finished trials that are kept.
const DONE_MAX: usize = 50;
/// Findings that are kept.
const FOUND_MAX: usize = 100;

/// What a view is told: events, and what only the binary knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// A measurement begins.
    Begun {
        /// The command, short.
        title: String,
        /// Identifier of the run in the store.
        run_id: String,
        /// The process.
        pid: u32,
    },
    /// Something happened.
    Event(Event),
    /// A trial has ended: its figures in words, instead of its record, which may be large.
    Done {
        /// Its row name.
        label: String,
        /// Its figures.
        figures: String,
        /// What was found out about it.
        findings: Vec<Finding>,
    },
    /// Somebody asked for the end.
    Stopping,
    /// The measurement is over.
    Ended {
        /// How fathom ends.
        exit_code: u8,
        /// Where the results are, in words.
        text: String,
    },
}

/// What is going on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// Looking at the machine, building, setting, waiting.
    Preparing,
    /// Writing test files.
    Layout {
        /// Bytes written.
        done_bytes: u64,
        /// Bytes to write.
        total_bytes: u64,
    },
    /// Reading back what was written.
    Verifying {
        /// Bytes checked.
        done_bytes: u64,
        /// Bytes to check.
        total_bytes: u64,
    },
    /// A trial has started and nothing is told of it: at its beginning, and of a command up to its end.
    Started,
    /// A trial is measured, for so long.
    Measuring {
        /// Since the start of the window.
        elapsed_ns: u64,
    },
    /// Nothing is left of it but the syncs at its end.
    Syncing {
        /// Files that are done.
        done_files: u64,
        /// All files.
        total_files: u64,
    },
    /// It is over.
    Ended,
}

/// A place in the order of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Block, from 1, and how many there are at the most.
    pub block: (u32, u32),
    /// Place in the block, from 1, and how many it has.
    pub place: (u32, u32),
    /// Levels of the cell.
    pub cell: String,
    /// What comes after it.
    pub next: Option<String>,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Row name.
    pub label: String,
    /// From 1.
    pub index: u32,
    /// How many there will be, as far as known.
    pub count: u32,
}

/// About one second of measuring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Mean number of requests in flight.
    pub in_flight: f64,
    /// Median service time.
    pub latency_ns_p50: Option<u64>,
    /// p99 of the service time.
    pub latency_ns_p99: Option<u64>,
    /// The longest service time.
    pub latency_ns_max: Option<u64>,
}

/// A finding, and the trial in which it came first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// What it does to the verdict.
    pub severity: Severity,
    /// Name of its rule.
    pub id: String,
    /// What was seen.
    pub summary: String,
    /// Row name of the trial.
    pub label: String,
    /// In how many trials it was found.
    pub trials: u32,
}

/// A finished trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Row name.
    pub label: String,
    /// Figures in words.
    pub figures: String,
}

/// Everything that a view shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The command, short.
    pub title: String,
    /// Identifier of the run.
    pub run_id: String,
    /// Its process.
    pub pid: u32,
    /// What is going on.
    pub phase: Phase,
    /// When that began, on the monotonic clock.
    pub phase_since_ns: u64,
    /// Where the experiment is, if it is one.
    pub slot: Option<Slot>,
    /// The trial that runs or ran last.
    pub trial: Option<Trial>,
    /// Expected rest and when it was told, on the monotonic clock.
    pub eta: Option<(u64, u64)>,
    /// The seconds of the trial, the newest last.
    pub samples: VecDeque<Sample>,
    /// What the targets lie on.
    pub layers: Vec<Layer>,
    /// What the devices do.
    pub devices: Vec<DeviceNow>,
    /// What was found, the worst first.
    pub found: Vec<Found>,
    /// The newest finished trials, the newest last.
    pub done: VecDeque<Done>,
    /// How many have finished.
    pub done_count: u32,
    /// The last line about what is going on.
    pub note: Option<String>,
    /// Somebody asked for the end.
    pub is_stopping: bool,
    /// How it ended: the exit code, and where the results are.
    pub ended: Option<(u8, String)>,
}

impl State {
    /// Nothing is known yet at `now_ns` of the monotonic clock.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        Self {
            title: String::new(),
            run_id: String::new(),
            pid: 0,
            phase: Phase::Preparing,
            phase_since_ns: now_ns,
            slot: None,
            trial: None,
            eta: None,
            samples: VecDeque::new(),
            layers: Vec::new(),
            devices: Vec::new(),
            found: Vec::new(),
            done: VecDeque::new(),
            done_count: 0,
            note: None,
            is_stopping: false,
            ended: None,
        }
    }

    /// Takes in what happened at `now_ns` of the monotonic clock.
    pub fn apply(&mut self, update: &Update, now_ns: u64) {
        match update {
            Update::Begun { title, run_id, pid } => {
                self.title.clone_from(title);
                self.run_id.clone_from(run_id);
                self.pid = *pid;
            }
            Update::Event(event) => self.event(event, now_ns),
            Update::Done { label, figures, findings } => {
                self.found(label, findings);
                self.done.push_back(Done { label: label.clone(), figures: figures.clone() });
                keep_last(&mut self.done, DONE_MAX);
                self.done_count += 1;
                self.devices.clear();
                self.enter(Phase::Preparing, now_ns);
            }
            Update::Stopping => self.is_stopping = true,
            Update::Ended { exit_code, text } => {
                self.ended = Some((*exit_code, text.clone()));
                self.eta = None;
                self.enter(Phase::Ended, now_ns);
            }
        }
    }

    fn event(&mut self, event: &Event, now_ns: u64) {
        match event {
            Event::Note { text } => {
                self.note = Some(text.clone());
                // Files are written, and something else has begun.
                if matches!(self.phase, Phase::Layout { .. } | Phase::Verifying { .. }) {
                    self.enter(Phase::Preparing, now_ns);
                }
            }
            Event::JobAsked { .. } | Event::TrialFinished { .. } => {}
            Event::Layout { done_bytes, total_bytes, eta_ns } => {
                self.eta = eta_ns.map(|ns| (ns, now_ns));
                let (done_bytes, total_bytes) = (*done_bytes, *total_bytes);
                self.enter(Phase::Layout { done_bytes, total_bytes }, now_ns);
            }
            Event::Verifying { done_bytes, total_bytes } => {
                let (done_bytes, total_bytes) = (*done_bytes, *total_bytes);
                self.enter(Phase::Verifying { done_bytes, total_bytes }, now_ns);
            }
            Event::SlotStarted { block, blocks, place, places, cell, next, eta_ns } => {
                self.slot = Some(Slot {
                    block: (*block, *blocks),
                    place: (*place, *places),
                    cell: cell.clone(),
                    next: next.clone(),
                });
                self.eta = Some((*eta_ns, now_ns));
                self.note = None;
                self.enter(Phase::Preparing, now_ns);
            }
            Event::TrialStarted { label, index, count, layers, findings } => {
                self.trial = Some(Trial { label: label.clone(), index: *index, count: *count });
                self.layers.clone_from(layers);
                self.devices.clear();
                self.samples.clear();
                self.note = None;
                self.found(label, findings);
                self.enter(Phase::Started, now_ns);
            }
            Event::Progress { .. } => self.progress(event, now_ns),
            Event::Syncing { done_files, total_files, eta_ns, devices, .. } => {
                self.eta = eta_ns.map(|ns| (ns, now_ns));
                self.devices_now(devices);
                let (done_files, total_files) = (*done_files, *total_files);
                self.enter(Phase::Syncing { done_files, total_files }, now_ns);
            }
        }
    }

    fn progress(&mut self, event: &Event, now_ns: u64) {
        let Event::Progress {
            elapsed_ns,
            eta_ns,
            iops,
            bytes_per_s,
            latency_ns_p50,
            latency_ns_p99,
            latency_ns_max,
            in_flight,
            devices,
            ..
        } = event
        else {
            return;
        };
        self.eta = eta_ns.map(|ns| (ns, now_ns));
        self.samples.push_back(Sample {
            iops: *iops,
            bytes_per_s: *bytes_per_s,
            in_flight: *in_flight,
            latency_ns_p50: *latency_ns_p50,
            latency_ns_p99: *latency_ns_p99,
            latency_ns_max: *latency_ns_max,
        });
        keep_last(&mut self.samples, SAMPLES_MAX);
        self.devices_now(devices);
        self.enter(Phase::Measuring { elapsed_ns: *elapsed_ns }, now_ns);
    }

    /// Intervals shorter than a second do not have them each time.
    fn devices_now(&mut self, devices: &[DeviceNow]) {
        if !devices.is_empty() {
            self.devices = devices.to_vec();
        }
    }

    /// A phase that goes on keeps its beginning.
    fn enter(&mut self, phase: Phase, now_ns: u64) {
        if std::mem::discriminant(&phase) != std::mem::discriminant(&self.phase) {
            self.phase_since_ns = now_ns;
        }
        self.phase = phase;
    }

    /// Findings that are known already are counted.
    fn found(&mut self, label: &str, findings: &[Finding]) {
        for finding in findings {
            if let Some(known) = self.found.iter_mut().find(|known| known.id == finding.id) {
                if known.label != label {
                    known.label = label.to_owned();
                    known.trials += 1;
                }
                known.severity = known.severity.max(finding.severity);
            } else if self.found.len() < FOUND_MAX {
                self.found.push(Found {
                    severity: finding.severity,
                    id: finding.id.clone(),
                    summary: finding.summary.clone(),
                    label: label.to_owned(),
                    trials: 1,
                });
            }
        }
        self.found.order_by_key(|found| std::cmp::Reverse(found.severity));
    }

    /// The expected rest at `now_ns`; none when nothing tells.
    #[must_use]
    pub fn rest_ns(&self, now_ns: u64) -> Option<u64> {
        let (eta_ns, told_ns) = self.eta?;
        Some(eta_ns.saturating_sub(now_ns.saturating_sub(told_ns)))
    }
}

/// How far syncs are, in words.
#[must_use]
pub fn syncing(done_files: u64, total_files: u64) -> String {
    if total_files == 1 {
        return "syncing".to_owned();
    }
    let [at, total] = [(done_files + 1).min(total_files), total_files].map(format_count);
    format!("syncing file {at} of {total}")
}

fn keep_last<T>(list: &mut VecDeque<T>, most: usize) {
    while list.len() > most {
        list.pop_front();
    }
}
