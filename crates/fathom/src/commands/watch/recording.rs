//! The store's side of a watch: the head at the start, then bounded pieces, the last at the end.

use crate::args::Common;
use crate::commands::{self, CommandError, standing};
use crate::exit::Exit;
use crate::output::Output;
use crate::session;
use fathom_base::id;
use fathom_base::prng::Prng;
use fathom_lab::watched;
use fathom_model::record::{Ending, Record, RunHead, RunKind};
use fathom_model::stack::{Stack, StackAround};
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
/// The same while an application is measured, whose storage the store may be on, and while the store cannot be written.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How long a store that failed is left alone.
const AGAIN_NS: u64 = 60_000_000_000;

/// When pieces of a watch go to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// When they are so old: what a kill can take.
    Every(u64),
    /// At the end: nothing is written while an application is measured.
    AtTheEnd,
}

impl Pieces {
    /// True when a piece of that age and size is due. One that failed before is, after a while.
    fn are_due(self, age_ns: u64, size_bytes: usize, failed_since_ns: Option<u64>) -> bool {
        match (self, failed_since_ns) {
            (_, Some(since_ns)) => since_ns >= AGAIN_NS,
            (Self::AtTheEnd, None) => size_bytes > WAITING_BYTES_MAX,
            (Self::Every(ns), None) => age_ns >= ns || size_bytes > PIECE_BYTES_MAX,
        }
    }
}

/// A watch that is stored.
pub struct Recording {
    store: Store,
    /// What leads a later command to it.
    db_option: String,
    root: SysRoot,
    head: RunHead,
    /// What it stands on, as it was when it began.
    stacks: Vec<Stack>,
    piece: WatchRecord,
    piece_begun_unix_ns: i64,
    pieces: Pieces,
    /// When the piece that is being gathered began, by the clock of the watch.
    piece_begun_ns: u64,
    /// Why the last piece could not be stored, and when that was. It is kept, and tried again.
    error: Option<(StoreError, u64)>,
    /// Intervals that were given up, because the store failed for too long.
    lost: u64,
}

impl Recording {
    /// Begins the run, so that a store that cannot be written shows before anything is watched.
    pub fn begin(
        common: &Common,
        output: Output,
        root: &SysRoot,
        label: Option<&str>,
        target: &str,
        (interval_ns, pieces): (u64, Pieces),
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
        let (piece_begun_unix_ns, piece_begun_ns) = (head.started_unix_ns, 0);
        let (error, lost) = (None, 0);
        Ok(Self {
            store,
            db_option: session::db_option(common),
            root: root.clone(),
            head,
            stacks: Vec::new(),
            piece,
            piece_begun_unix_ns,
            pieces,
            piece_begun_ns,
            error,
            lost,
        })
    }

    /// What is watched stands on these: in the first piece as they are now, in the last as they are then.
    pub fn stands_on(&mut self, stacks: Vec<Stack>) {
        let around = |before: &Stack| StackAround { before: before.clone(), after: None };
        self.piece.stacks = stacks.iter().map(around).collect();
        self.stacks = stacks;
    }

    /// Nothing was watched: nothing is remembered of it.
    pub fn forget(mut self, output: Output) {
        if let Err(error) = self.store.remove(&self.head.id) {
            output.error(&format!("an empty run stays in the store: {error}"));
        }
    }

    /// Adds an interval.
    pub fn push(&mut self, output: Output, sample: &Sample) {
        if self.piece.intervals() == 0 {
            self.piece_begun_ns = sample.start_ns;
            self.piece_begun_unix_ns = sample.unix_ns.saturating_sub_unsigned(sample.length_ns);
        }
        self.piece.push(sample);
        let now_ns = sample.start_ns + sample.length_ns;
        let age_ns = now_ns - self.piece_begun_ns;
        let failed_since_ns = self.error.as_ref().map(|(_, at_ns)| now_ns.saturating_sub(*at_ns));
        let size_bytes = self.piece.size_bytes();
        if self.pieces.are_due(age_ns, size_bytes, failed_since_ns) {
            self.store_piece(Ending::Complete, now_ns);
            self.tell(output, failed_since_ns.is_some());
        }
        if self.error.is_some() && size_bytes > WAITING_BYTES_MAX {
            self.lost += self.piece.intervals() as u64;
            self.begin_piece();
        }
    }

    /// Says at once that the store fails, and that it does no longer.
    fn tell(&self, output: Output, has_failed_before: bool) {
        match (&self.error, has_failed_before) {
            (Some((error, _)), false) => output.error(&format!(
                "the series cannot be stored: {error}; it is kept in memory and tried again every minute"
            )),
            (None, true) => output.note("The series is stored again."),
            _ => {}
        }
    }

    /// The next piece; gives that which was gathered.
    fn begin_piece(&mut self) -> WatchRecord {
        let next = self.piece.first + self.piece.intervals() as u64;
        let next = WatchRecord::new(self.piece.interval_ns, next);
        std::mem::replace(&mut self.piece, next)
    }

    /// Stores what was gathered; keeps it when that fails.
    fn store_piece(&mut self, ending: Ending, now_ns: u64) {
        let piece = self.begin_piece();
        let mut record: Record = watched::record(piece, self.piece_begun_unix_ns, ending);
        let failed = self.store.add_trial(&self.head.id, &record).err();
        if failed.is_some() {
            self.piece = record.watch.take().map_or_else(WatchRecord::default, |piece| *piece);
        }
        self.error = failed.map(|error| (error, now_ns));
    }

    /// All that was stored, with what could not be.
    fn records(&mut self) -> Vec<Record> {
        let mut records = match self.store.load(&self.head.id) {
            Ok(run) => run.records,
            Err(error) => {
                self.error.get_or_insert((error, 0));
                Vec::new()
            }
        };
        if self.error.is_some() && (self.piece.intervals() > 0 || self.piece.ended.is_some()) {
            let piece = self.begin_piece();
            records.push(watched::record(piece, self.piece_begun_unix_ns, Ending::Failed));
        }
        records
    }

    /// Stores the rest, leaves the view, and says what it all came to.
    pub fn finish(
        mut self,
        output: Output,
        stop: &StopFlag,
        ended: Option<ApplicationRecord>,
        leave: impl FnOnce(),
    ) -> Result<Exit, CommandError> {
        let ending = match &ended {
            Some(_) if stop.is_set() => Ending::Interrupted,
            Some(ended) if ended.exit_status != Some(0) => Ending::Failed,
            // A watch without an end is ended by a signal, as it should be.
            _ => Ending::Complete,
        };
        let is_application = ended.is_some();
        self.piece.ended = ended;
        self.piece.stacks = standing::again(&self.root, std::mem::take(&mut self.stacks));
        self.store_piece(ending, 0);
        let records = self.records();
        let study = verdict::judge_run(RunKind::Watch, &records);
        let (verdict, findings) = (study.verdict, &study.findings);
        // A run that lacks a piece is no whole one; what was stored of it stays.
        let ending = if self.error.is_some() || self.lost > 0 { Ending::Failed } else { ending };
        let now_ns = clock::unix_ns();
        let failed = self.store.finish_run(&self.head.id, ending, verdict, findings, now_ns).err();
        if let Some(error) = failed {
            self.error.get_or_insert((error, 0));
        }
        leave();
        // Of a watch alone there is nothing to doubt.
        let exit = Exit::of_verdict(study.verdict, !is_application).max(self.exit(output));
        let summary = watch::summary(&records);
        let mut text = answer_text(&summary, output.width());
        text += &findings_text(&study.findings, study.verdict, output.width());
        if self.error.is_none() {
            let prefix = self.store.shortest_prefix(&self.head.id).unwrap_or(self.head.id.clone());
            text += &format!("Stored as {prefix}. Again: fathom show {prefix}{}\n", self.db_option);
        }
        let result = serde_json::json!({
            "id": self.head.id,
            "stored": self.error.is_none(),
            "verdict": study.verdict,
            "findings": study.findings,
            "summary": summary,
            "exit_code": exit.code(),
        });
        commands::finish(output, &text, &result, exit)
    }

    /// Says what could not be stored.
    fn exit(&self, output: Output) -> Exit {
        if let Some((error, _)) = &self.error {
            output.error(&format!("the result could not be stored: {error}"));
        }
        if self.lost > 0 {
            let lost = self.lost;
            output.error(&format!(
                "the store could not be written for too long: {lost} intervals are lost"
            ));
        }
        if self.error.is_some() || self.lost > 0 { Exit::Internal } else { Exit::Done }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_stored_by_age_and_size_and_never_beside_an_application() {
        const MINUTE_NS: u64 = 60_000_000_000;
        let watch = Pieces::Every(10 * MINUTE_NS);
        assert!(!watch.are_due(9 * MINUTE_NS, 100, None));
        assert!(watch.are_due(10 * MINUTE_NS, 100, None));
        assert!(watch.are_due(MINUTE_NS, PIECE_BYTES_MAX + 1, None));
        assert!(!Pieces::AtTheEnd.are_due(1000 * MINUTE_NS, PIECE_BYTES_MAX + 1, None));
        assert!(Pieces::AtTheEnd.are_due(0, WAITING_BYTES_MAX + 1, None));
        // A store that fails is not tried with every interval, whatever has gathered.
        assert!(!watch.are_due(100 * MINUTE_NS, WAITING_BYTES_MAX, Some(MINUTE_NS - 1)));
        assert!(watch.are_due(100 * MINUTE_NS, 100, Some(MINUTE_NS)));
    }
}
