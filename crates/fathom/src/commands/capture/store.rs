//! What was observed goes into the store, after it was observed.

use crate::args::Common;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_model::capture::CaptureRecord;
use fathom_model::finding::Finding;
use fathom_model::record::{Ending, Record, RunHead, RunKind};
use fathom_store::{Store, StoreError};
use fathom_study::verdict::{self, Study};
use fathom_sys::clock;
use fathom_sys::sysroot::SysRoot;

/// The head of the run, as far as the command knows it.
pub struct Run {
    /// Identifier.
    pub id: String,
    /// What kind of run.
    pub kind: RunKind,
    /// The user's word.
    pub label: Option<String>,
    /// The target, as it is told from others.
    pub target: String,
    /// When it began.
    pub started_unix_ns: i64,
    /// The row's name.
    pub label_of_record: String,
}

/// What was stored, and what it is worth.
pub struct Kept {
    /// The run.
    pub id: String,
    /// Shortest prefix that names it; none when it could not be stored.
    pub prefix: Option<String>,
    /// Findings and verdict.
    pub study: Study,
    /// How fathom ends at least.
    pub exit: Exit,
}

impl Kept {
    /// The last line.
    pub fn said(&self, common: &Common) -> String {
        match &self.prefix {
            Some(prefix) => {
                format!("Stored as {prefix}. Again: {}\n", session::show_command(common, prefix))
            }
            None => "Not stored.\n".to_owned(),
        }
    }
}

/// A new identifier.
pub fn new_id() -> String {
    id::new_id(&mut Prng::new(session::system_seed(), 0))
}

/// Judges and stores a capture. A store that fails does not lose the figures: they are shown all the same.
pub fn keep(
    (common, output, root): (&Common, Output, &SysRoot),
    run: Run,
    capture: CaptureRecord,
    findings: Vec<Finding>,
    ending: Ending,
) -> Kept {
    let mut record =
        fathom_lab::captured::record(&run.label_of_record, capture, run.started_unix_ns, ending);
    record.findings = findings;
    let study = verdict::judge_run(run.kind, std::slice::from_ref(&record));
    let head = RunHead {
        id: run.id,
        kind: run.kind,
        label: run.label,
        command: session::command_line(),
        target: run.target,
        started_unix_ns: run.started_unix_ns,
        host: fathom_inspect::host_facts(root),
        fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let interrupted = if ending == Ending::Interrupted { Exit::Interrupted } else { Exit::Done };
    match store(common, root, &head, &record, &study) {
        Ok(prefix) => Kept { id: head.id, prefix: Some(prefix), study, exit: interrupted },
        Err(error) => {
            output.error(&format!("the result could not be stored: {error}"));
            Kept { id: head.id, prefix: None, study, exit: Exit::Internal.max(interrupted) }
        }
    }
}

fn store(
    common: &Common,
    root: &SysRoot,
    head: &RunHead,
    record: &Record,
    study: &Study,
) -> Result<String, StoreError> {
    let path = session::store_path(common)?;
    let mut store = Store::open(&path, clock::unix_ns())?;
    store.begin_run(head, &session::writer(root))?;
    store.add_trial(&head.id, record)?;
    store.finish_run(&head.id, record.ending, study.verdict, &study.findings, clock::unix_ns())?;
    store.shortest_prefix(&head.id)
}
