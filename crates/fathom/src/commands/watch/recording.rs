//! The store's side of a watch: the head at the start, then bounded pieces, the last at the end.

use crate::args::Common;
use crate::commands::CommandError;
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_lab::watched;
use fathom_model::record::{Ending, Record, RunHead, RunKind};
use fathom_model::watch::{ApplicationRecord, Sample, WatchRecord};
use fathom_report::findings::findings_text;
use fathom_report::watch::answer::answer_text;
use fathom_store::{Store, StoreError};
use fathom_study::{verdict, watch};
use fathom_sys::clock;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;

/// How much is kept in memory before it goes to the store: an hour of fifty busy devices.
const PIECE_BYTES_MAX: usize = 4 << 20;

/// A watch that is stored.
pub struct Recording {
    store: Store,
    head: RunHead,
    piece: WatchRecord,
    piece_begun_unix_ns: i64,
    pieces: u32,
    /// A store that fails does not end the watch.
    error: Option<StoreError>,
}

impl Recording {
    /// Begins the run, so that a store that cannot be written shows before anything is watched.
    pub fn begin(
        common: &Common,
        output: Output,
        root: &SysRoot,
        label: Option<&str>,
        target: &str,
        interval_ns: u64,
    ) -> Result<Self, CommandError> {
        let failed = |error: StoreError| CommandError::report_as(output, &error, Exit::Internal);
        let path = session::store_path(common).map_err(failed)?;
        let mut store = Store::open(&path, clock::unix_ns()).map_err(failed)?;
        let head = RunHead {
            id: id::new_id(&mut Prng::new(session::system_seed(), 0)),
            kind: RunKind::Watch,
            label: label.map(str::to_owned),
            command: session::command_line(),
            target: target.to_owned(),
            started_unix_ns: clock::unix_ns(),
            host: fathom_inspect::host_facts(root),
            fathom_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        store.begin_run(&head, &session::writer(root)).map_err(failed)?;
        let piece = WatchRecord::new(interval_ns, 0);
        let piece_begun_unix_ns = clock::unix_ns();
        Ok(Self { store, head, piece, piece_begun_unix_ns, pieces: 0, error: None })
    }

    /// Adds an interval.
    pub fn push(&mut self, sample: &Sample) {
        self.piece.push(sample);
        if sample.index % 16 == 15 && self.piece.size_bytes() > PIECE_BYTES_MAX {
            self.store_piece(Ending::Complete);
        }
    }

    fn store_piece(&mut self, ending: Ending) {
        let next = self.piece.first + self.piece.intervals() as u64;
        let next = WatchRecord::new(self.piece.interval_ns, next);
        let piece = std::mem::replace(&mut self.piece, next);
        let begun = std::mem::replace(&mut self.piece_begun_unix_ns, clock::unix_ns());
        let record: Record = watched::record(piece, begun, ending);
        self.pieces += 1;
        if self.error.is_none() {
            self.error = self.store.add_trial(&self.head.id, &record).err();
        }
    }

    /// Stores the rest, and says what it all came to.
    pub fn finish(
        mut self,
        output: Output,
        stop: &StopFlag,
        ended: Option<ApplicationRecord>,
    ) -> Result<Exit, CommandError> {
        let ending = match &ended {
            Some(_) if stop.is_set() => Ending::Interrupted,
            Some(ended) if ended.exit_status != Some(0) => Ending::Failed,
            // A watch without an end is ended by a signal, as it should be.
            _ => Ending::Complete,
        };
        let is_application = ended.is_some();
        self.piece.ended = ended;
        self.store_piece(ending);
        let stored = self.error.is_none().then(|| self.store.load(&self.head.id));
        let records = match stored {
            Some(Ok(run)) => run.records,
            Some(Err(error)) => {
                self.error = Some(error);
                Vec::new()
            }
            None => Vec::new(),
        };
        let study = verdict::judge_run(RunKind::Watch, &records);
        if self.error.is_none() {
            let now_ns = clock::unix_ns();
            let (verdict, findings) = (study.verdict, &study.findings);
            self.error =
                self.store.finish_run(&self.head.id, ending, verdict, findings, now_ns).err();
        }
        // Of a watch alone there is nothing to doubt.
        let mut exit = Exit::of_verdict(study.verdict, !is_application);
        let summary = watch::summary(&records);
        let mut text = answer_text(&summary, output.width());
        text += &findings_text(&study.findings, study.verdict, output.width());
        let prefix = self.store.shortest_prefix(&self.head.id).unwrap_or(self.head.id.clone());
        match &self.error {
            None => text += &format!("Stored as {prefix}. Again: fathom show {prefix}\n"),
            Some(error) => {
                output.error(&format!("the result could not be stored: {error}"));
                exit = exit.max(Exit::Internal);
            }
        }
        output.text(&text)?;
        let result = serde_json::json!({
            "id": self.head.id,
            "stored": self.error.is_none(),
            "verdict": study.verdict,
            "findings": study.findings,
            "summary": summary,
            "exit_code": exit.code(),
        });
        output.json("result", &result)?;
        Ok(exit)
    }
}
