//! Verified blocks around a trial and in later runs: who may verify what, reading back, and what is kept.

use crate::books::{self, Known, Place, Scribe, Shelf, Volume, Whereabouts};
use crate::error::{ErrorClass, LabError};
use crate::lab::Lab;
use crate::target::PreparedTarget;
use crate::trial::Trial;
use fathom_base::ledger::{LastMarks, Ledger, LedgerError};
use fathom_base::prng::Prng;
use fathom_base::shell;
use fathom_base::verify_block::Format;
use fathom_load::plan::JobPlan;
use fathom_load::readback::Page;
use fathom_load::run::{MemoryNeed, Outcome};
use fathom_load::target::LoadTarget;
use fathom_load::verify::{AsOf, Book, MISMATCHES_KEPT, Marks, StoredPlan, as_of};
use fathom_model::event::Event;
use fathom_model::record::TargetKind;
use fathom_model::verification::{MismatchRecord, VerifyRecord};
use fathom_model::workload::{Job, Verify};
use fathom_sys::clock;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::threads;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod forget;
mod read;

pub use forget::{
    Forgotten, finish_forgetting, forget_away, forget_below, forget_removed, remembers,
};
use read::Files;

/// What a trial takes along: what is known of the targets that it will write, and what jobs that verify need.
pub struct Verification {
    shelf: Shelf,
    /// By the job's place in the workload.
    volumes: BTreeMap<usize, Volume>,
    scribe: Option<Scribe>,
    /// True until the first request.
    outdated: Vec<Volume>,
}

/// Forgets what is known of files that the trial empties when it opens them.
///
/// # Errors
/// [`LabError::Usage`] when it cannot be removed; the files must not be emptied then.
pub fn forget_emptied(lab: &Lab<'_>, trial: &Trial<'_>) -> Result<(), LabError> {
    let shelf = Shelf::new(&lab.state_dir);
    let is_emptied = |job: &Job, target: &PreparedTarget| {
        job.starts_empty() && target.kind() != TargetKind::BlockDevice
    };
    let mut known = known_of(lab, trial, &shelf, is_emptied);
    known.try_for_each(Volume::remove).map_err(|error| no_place(&shelf, &error))
}

/// Before a trial: jobs that verify get what they need. What is known of the targets stays until
/// [`Verification::starts`].
///
/// # Errors
/// [`LabError::Usage`] for what cannot be verified; all is as before then.
pub fn begin(
    lab: &mut Lab<'_>,
    trial: &Trial<'_>,
    opened: &mut [(LoadTarget, JobPlan)],
) -> Result<Verification, LabError> {
    let shelf = Shelf::new(&lab.state_dir);
    let outdated = known_of(lab, trial, &shelf, |job, _| job.writes()).collect();
    let mut verification = Verification { shelf, volumes: BTreeMap::new(), scribe: None, outdated };
    match verification.equip(lab, trial, opened) {
        Ok(()) => Ok(verification),
        Err(error) => {
            verification.call_off(lab);
            Err(error)
        }
    }
}

/// All ledgers together may take a quarter of the free memory.
pub fn limit_memory(lab: &Lab<'_>, opened: &mut [(LoadTarget, JobPlan)]) {
    let plans = opened.iter_mut().filter_map(|(_, plan)| plan.verify.as_mut());
    let mut plans: Vec<_> = plans.collect();
    let limit_bytes = lab.free_memory_bytes() / 4 / plans.len().max(1) as u64;
    plans.iter_mut().for_each(|verify| verify.memory_limit_bytes = limit_bytes);
}

/// What is known of the targets of jobs that the trial has and that are chosen.
fn known_of(
    lab: &Lab<'_>,
    trial: &Trial<'_>,
    shelf: &Shelf,
    is_chosen: impl Fn(&Job, &PreparedTarget) -> bool,
) -> impl Iterator<Item = Volume> {
    // Jobs that share a target have it once.
    let mut places: Vec<Place> = Vec::new();
    let is_in_use = shelf.path().exists();
    for (job, target) in trial.workload.jobs.iter().zip(&trial.targets).filter(|_| is_in_use) {
        let Ok(place) = Place::of(&lab.root, target.path()) else { continue };
        if is_chosen(job, target) && !places.contains(&place) {
            places.push(place);
        }
    }
    places.into_iter().flat_map(|place| shelf.about(&place))
}

fn no_place(shelf: &Shelf, error: &io::Error) -> LabError {
    if let Some(limit) = threads::descriptors_limit(error) {
        let reason = format!(
            "what must be found after a crash cannot be noted there: {error}; verify=crash takes a descriptor more for \
             each thread: raise {limit}, or use fewer threads with more depth"
        );
        let path = shelf.path().to_owned();
        return LabError::Target { path, reason, class: ErrorClass::Missing };
    }
    LabError::Usage(format!(
        "{}: what must be found after a crash cannot be noted there: {error}; name a store on a filesystem that can \
         be written (--db=FILE)",
        shelf.path().display()
    ))
}

/// Finds out whether what a job writes to a target can be verified, before anything is written there.
///
/// # Errors
/// [`LabError::Usage`] with the reason.
pub fn check_target(
    verify: Verify,
    target: &PreparedTarget,
    state_dir: &Path,
) -> Result<(), LabError> {
    if verify == Verify::None {
        return Ok(());
    }
    let word = verify.word();
    if target.kind() == TargetKind::Null {
        return Err(LabError::Usage(format!(
            "verify={word} on null: nothing is written there that could be read back; name a file, a directory or a \
             device"
        )));
    }
    let device = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    let is_file = target.kind() != TargetKind::BlockDevice;
    if verify == Verify::Crash && is_file && device(target.path()) == device(state_dir) {
        return Err(LabError::Usage(format!(
            "verify=crash: {} lies on the tested filesystem, and what is noted there would be lost with it; name a \
             store elsewhere (--db=FILE)",
            state_dir.display()
        )));
    }
    if verify == Verify::Crash {
        let shelf = Shelf::new(state_dir);
        std::fs::create_dir_all(shelf.path()).map_err(|error| no_place(&shelf, &error))?;
    }
    Ok(())
}

fn volume(
    lab: &Lab<'_>,
    shelf: &Shelf,
    target: &PreparedTarget,
    plan: &JobPlan,
    has_marks: bool,
) -> io::Result<Volume> {
    let place = Place::of(&lab.root, target.path())?;
    let threads = MemoryNeed::of(&plan.job).map_or(plan.job.threads, |need| need.threads);
    let stored = StoredPlan::of(plan).ok_or_else(|| io::Error::other("it does not verify"))?;
    shelf.add(books::head(place, &lab.run_id, clock::unix_ns(), stored, threads), has_marks)
}

impl Verification {
    fn equip(
        &mut self,
        lab: &Lab<'_>,
        trial: &Trial<'_>,
        opened: &mut [(LoadTarget, JobPlan)],
    ) -> Result<(), LabError> {
        limit_memory(lab, opened);
        let mut prng = Prng::new(hash(&lab.run_id), u64::from(trial.position.0));
        for (job, ((_, plan), target)) in opened.iter_mut().zip(&trial.targets).enumerate() {
            let target_id = prng.next_u64();
            let Some(verify) = &mut plan.verify else { continue };
            verify.target_id = target_id;
            // A trim of a file makes a hole.
            verify.trims_read_zero = target.kind() != TargetKind::BlockDevice;
            if plan.job.verify == Verify::Crash {
                let volume = volume(lab, &self.shelf, target, plan, true)
                    .map_err(|error| no_place(&self.shelf, &error))?;
                self.volumes.insert(job, volume);
            }
        }
        if self.volumes.is_empty() {
            return Ok(());
        }
        let scribe = Scribe::start(&self.volumes).map_err(|error| no_place(&self.shelf, &error))?;
        let marks = scribe.marks();
        for (_, plan) in opened.iter_mut().filter(|(_, plan)| plan.job.verify == Verify::Crash) {
            if let Some(verify) = &mut plan.verify {
                verify.marks = Some(Arc::<Marks>::clone(&marks));
            }
        }
        self.scribe = Some(scribe);
        Ok(())
    }

    /// The first request comes next: what was known of the targets is true no longer.
    ///
    /// # Errors
    /// When it cannot be removed: no request may be issued then.
    pub fn starts(&mut self) -> Result<(), LabError> {
        let mut outdated = self.outdated.drain(..);
        outdated.try_for_each(Volume::remove).map_err(|error| no_place(&self.shelf, &error))
    }

    /// No request was issued: what was known stays, and nothing is known of this trial.
    pub fn call_off(mut self, lab: &mut Lab<'_>) {
        self.end_marks(lab);
        for volume in std::mem::take(&mut self.volumes).into_values() {
            if let Err(error) = volume.remove() {
                lab.note(no_place(&self.shelf, &error).to_string());
            }
        }
    }

    fn end_marks(&mut self, lab: &mut Lab<'_>) {
        if let Some(Err(error)) = self.scribe.take().map(Scribe::end) {
            lab.note(format!(
                "{}: what was acknowledged could not be noted any more: {error}",
                self.shelf.path().display()
            ));
        }
    }

    /// After a trial: keeps what later runs need, reads back where that was asked for, and puts what was found into the
    /// records of the jobs. A job whose target fails does not keep the others from it.
    ///
    /// # Errors
    /// The first job with [`LabError::TargetIo`] for a target that cannot be opened or made durable, or not be read back.
    pub fn end(
        mut self,
        lab: &mut Lab<'_>,
        trial: &Trial<'_>,
        plans: &[JobPlan],
        outcome: &mut Outcome,
    ) -> Result<(), (usize, LabError)> {
        self.end_marks(lab);
        let books = std::mem::take(&mut outcome.books);
        let is_over = outcome.interrupted || outcome.failure.is_some();
        let mut failed = None;
        for (job, (plan, target)) in plans.iter().zip(&trial.targets).enumerate() {
            let own: Vec<&Book> = books.iter().filter(|book| book.id.job == job).collect();
            if plan.verify.is_none() || own.is_empty() {
                continue;
            }
            let mut record = VerifyRecord::default();
            let went = self.conclude(lab, (job, plan, target), &own, is_over, &mut record);
            record.is_partial |= went.is_err();
            failed = failed.or(went.err().map(|error| (job, error)));
            if let Some(done) = outcome.jobs.get_mut(job) {
                done.verify = Some(record);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// The outcome of one job. What later runs need is kept before it is read back, which may take long or fail.
    fn conclude(
        &mut self,
        lab: &mut Lab<'_>,
        (job, plan, target): (usize, &JobPlan, &PreparedTarget),
        books: &[&Book],
        is_over: bool,
        record: &mut VerifyRecord,
    ) -> Result<(), LabError> {
        let files = Files::of(target.path())?;
        for book in books {
            record.checked_bytes += book.checked_bytes;
            record.skipped_bytes += book.skipped_bytes;
            files.note(record, &book.mismatches);
        }
        // What is kept for later says what must be found also after a crash.
        let durable =
            if target.stays(lab.keep) { files.make_durable(plan.job.files) } else { Ok(None) };
        if let Err(error) = self.keep(lab, job, plan, target, books) {
            lab.note(format!(
                "{}: what later runs need to verify {} could not be noted: {error}",
                self.shelf.path().display(),
                target.path_text()
            ));
        }
        if let Some(error) = durable? {
            lab.note(format!("what was written may not be on stable storage yet: {error}"));
        }
        let is_during = plan.job.verify == Verify::During;
        if is_during || is_over {
            record.is_partial = !is_during;
            return Ok(());
        }
        let pages: Vec<Page<'_>> =
            books.iter().map(|book| Page { ledger: &book.ledger, format: &book.format }).collect();
        // What could not be opened is in the record.
        files.check(&pages, &lab.stop, lab.emit, record).map(drop)
    }

    fn keep(
        &mut self,
        lab: &Lab<'_>,
        job: usize,
        plan: &JobPlan,
        target: &PreparedTarget,
        books: &[&Book],
    ) -> io::Result<()> {
        let known = self.volumes.remove(&job);
        if !target.stays(lab.keep) {
            return known.map_or(Ok(()), Volume::remove);
        }
        let volume = match known {
            Some(volume) => volume,
            None => volume(lab, &self.shelf, target, plan, false)?,
        };
        books.iter().try_for_each(|book| volume.close(book))
    }
}

/// A stable number from a run's name (FNV-1a, 64 bits).
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What a later check of one earlier job's blocks came to.
#[derive(Debug)]
pub struct LaterCheck {
    /// What was written.
    pub head: books::Head,
    /// What came of it.
    pub record: VerifyRecord,
    /// The run had not ended: the machine stopped, or it was killed.
    pub was_cut_off: bool,
    /// Writes of which it was known that they must be there, when the run was cut off.
    pub acknowledged: u64,
    /// There is no such file any more, on the filesystem that it was on.
    pub is_gone: bool,
}

/// Where later checks take what they need from.
pub struct Later<'a> {
    /// Where the kernel's files are.
    pub root: &'a SysRoot,
    /// Where journals are kept.
    pub state_dir: &'a Path,
    /// Memory for ledgers in bytes.
    pub memory_limit_bytes: u64,
    /// Somebody asked for the end.
    pub stop: &'a StopFlag,
    /// The receiver of events.
    pub emit: &'a mut dyn FnMut(Event),
}

/// What was noted cannot be read, which says nothing of any target: whether it is one of the targets asked for, nobody knows.
fn not_read(unread: &[(PathBuf, io::Error)]) -> Option<LabError> {
    let (path, error) = unread.first()?;
    let (class, cure) = match threads::descriptors_limit(error) {
        Some(limit) => (ErrorClass::Missing, format!("raise {limit}")),
        None if error.kind() == io::ErrorKind::PermissionDenied => {
            let cure =
                "do this as the owner of the store or as root, or name another store (--db=FILE)";
            (ErrorClass::Store, cure.to_owned())
        }
        None if error.kind() == io::ErrorKind::InvalidData => {
            let dir = path.parent().filter(|_| !books::is_volume(path)).unwrap_or(path);
            let cure = format!("if nobody needs that any more: rm -r {}", shell::path(dir));
            (ErrorClass::Store, cure)
        }
        None => (ErrorClass::Store, "look at dmesg for the disk of the store".to_owned()),
    };
    let more = match unread.len() - 1 {
        0 => String::new(),
        more => format!(" (nor can {more} more)"),
    };
    let reason = format!(
        "what runs with verify= have noted cannot be read{more}: {error}; what was written cannot be checked without it: {cure}"
    );
    Some(LabError::Target { path: path.clone(), reason, class })
}

/// Checks what earlier runs wrote with `verify` to a file, to the files in a directory, or to a device. Only reads.
///
/// Each that cannot be checked has its error: [`LabError::Target`] when it was replaced, or what was written cannot be worked
/// out again; [`LabError::TargetIo`] when it cannot be opened.
///
/// # Errors
/// [`LabError::Target`] when there is no such target, nothing is known of it, or what is known cannot be read.
pub fn verify_later(
    later: &mut Later<'_>,
    path: &Path,
) -> Result<Vec<Result<LaterCheck, LabError>>, LabError> {
    let shelf = Shelf::new(later.state_dir);
    let refuse = |class, reason| LabError::Target { path: path.to_owned(), reason, class };
    let place = match Place::of(later.root, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Place::gone(path),
        place => place.map_err(|error| refuse(ErrorClass::Usage, error.to_string()))?,
    };
    let (mut volumes, unread) = (shelf.about(&place), shelf.unread());
    let not_read = not_read(&unread);
    volumes.retain(|volume| !unread.iter().any(|(path, _)| volume.has(path)));
    if volumes.is_empty() {
        if let Some(error) = not_read {
            return Err(error);
        }
        let reason = nothing_known(later.root, &shelf, &place.path);
        return Err(refuse(ErrorClass::Usage, reason));
    }
    let mut all = Vec::new();
    for mut volume in volumes {
        if place.device_id.is_some() {
            // A device is known by its identifier: since then its name may have become another one's.
            volume.head.target.clone_from(&place.path);
        }
        let mut left_out = Vec::new();
        all.push(check_volume(later, volume, &mut left_out));
        all.extend(left_out.into_iter().map(Err));
    }
    all.extend(not_read.map(Err));
    Ok(all)
}

/// Why there is nothing to verify at a path.
fn nothing_known(root: &SysRoot, shelf: &Shelf, path: &Path) -> String {
    let nothing = "nothing is known of blocks to verify here";
    if let Some(why) = forget::other_device(root, shelf, path) {
        return format!("{nothing}: {why}");
    }
    let known: Vec<String> =
        shelf.targets().iter().map(|target| target.display().to_string()).collect();
    let known = if known.is_empty() {
        "which is empty".to_owned()
    } else {
        format!("which has those of {}", known.join(", "))
    };
    format!(
        "{nothing}: they are noted by runs with verify= on devices, and with --keep on files, in {}, {known}",
        shelf.path().display()
    )
}

/// What is checked; `left_out` gets the errors of what is not, where that is files among others, or what nobody knows any more.
fn check_volume(
    later: &mut Later<'_>,
    volume: Volume,
    left_out: &mut Vec<LabError>,
) -> Result<LaterCheck, LabError> {
    let head = volume.head.clone();
    let found = head.whereabouts(later.root).map_err(|source| LabError::TargetIo {
        path: head.target.clone(),
        what: "looking for it",
        source,
    })?;
    if let Some(reason) = forget::not_there(&head, found) {
        return Err(unusable(&head, (ErrorClass::Usage, reason)));
    }
    let is_gone = found == Whereabouts::Gone;
    let writes = writes_of(&volume, later.memory_limit_bytes);
    let Writes { books, was_cut_off, acknowledged, damaged } =
        writes.map_err(|(class, reason)| {
            let reason = if is_gone { format!("the file is gone, and {reason}") } else { reason };
            unusable(&head, (class, reason))
        })?;
    left_out.extend(damaged.map(|file| {
        let reason = format!(
            "{}: the last note of what was acknowledged as safe is damaged: more may have been than what is asked for; the rest \
             is checked",
            file.display()
        );
        unusable(&head, (ErrorClass::Store, reason))
    }));
    let mut record = VerifyRecord::default();
    if is_gone {
        let books = books.iter().filter(|book| book.durable_writes != Some(0));
        let missing: Vec<MismatchRecord> = books.map(KnownBook::missing).collect();
        record.mismatches = missing.len() as u64;
        record.first = missing.into_iter().take(MISMATCHES_KEPT).collect();
    } else {
        let pages: Vec<Page<'_>> =
            books.iter().map(|book| Page { ledger: &book.ledger, format: &book.format }).collect();
        let files = Files::of(&head.target)?;
        left_out.extend(files.check(&pages, later.stop, later.emit, &mut record)?);
    }
    Ok(LaterCheck { head, record, was_cut_off, acknowledged, is_gone })
}

/// An error about what was written.
fn unusable(head: &books::Head, (class, reason): (ErrorClass, String)) -> LabError {
    LabError::Target { path: head.target.clone(), reason, class }
}

/// What is noted cannot be used: it is damaged or of another form, or takes more memory than is allowed.
fn not_usable(error: &LedgerError) -> (ErrorClass, String) {
    let class = match error {
        LedgerError::Unreadable(_) | LedgerError::Form(_) => ErrorClass::Store,
        _ => ErrorClass::Usage,
    };
    (class, error.to_string())
}

/// Of damage, where it is, and the cure.
fn of_note(
    volume: &Volume,
    thread: u32,
    (class, reason): (ErrorClass, String),
) -> (ErrorClass, String) {
    if class != ErrorClass::Store {
        return (class, reason);
    }
    let (file, dir) = volume.note_of(thread);
    let cure = format!("if nobody needs that any more: rm -r {}", shell::path(dir));
    (class, format!("{}: {reason}; {cure}", file.display()))
}

/// What is known of one thread's writes.
struct KnownBook {
    ledger: Ledger,
    format: Format,
    /// Writes that had been acknowledged when the run was cut off; none of a run that had ended.
    durable_writes: Option<u64>,
}

impl KnownBook {
    /// All of it, where there is no file any more.
    fn missing(&self) -> MismatchRecord {
        let region = self.ledger.region();
        let known = match self.durable_writes {
            Some(writes) => format!(", of which {writes} writes had been acknowledged as safe"),
            None => String::new(),
        };
        MismatchRecord {
            kind: "unreadable".to_owned(),
            file: None,
            path: None,
            offset_bytes: region.start_bytes,
            length_bytes: region.length_bytes,
            expected: format!("what was written there{known}"),
            found: "nothing: the file is gone".to_owned(),
            blocks: 1,
        }
    }
}

/// What is known of a job's writes.
struct Writes {
    books: Vec<KnownBook>,
    was_cut_off: bool,
    acknowledged: u64,
    /// Where what was acknowledged last can no longer be read.
    damaged: Option<PathBuf>,
}

/// What is known of them, or why that cannot be worked out.
fn writes_of(volume: &Volume, memory_limit_bytes: u64) -> Result<Writes, (ErrorClass, String)> {
    let head = &volume.head;
    let usage = |reason: String| (ErrorClass::Usage, reason);
    let plan = head.plan.plan().map_err(|error| usage(error.to_string()))?;
    let limit_bytes = memory_limit_bytes / u64::from(head.threads.max(1));
    let (mut books, mut was_cut_off, mut acknowledged) = (Vec::new(), false, 0);
    let mut damaged = None;
    for thread in 0..head.threads {
        let known = volume.known(thread, limit_bytes);
        match known.map_err(|error| of_note(volume, thread, not_usable(&error)))? {
            Known::Ended(ledger, format) => {
                books.push(KnownBook { ledger: *ledger, format, durable_writes: None });
            }
            Known::Marked(LastMarks { last: marks, is_incomplete }, file) => {
                was_cut_off = true;
                if is_incomplete {
                    damaged.get_or_insert(file);
                }
                // Without marks no request is worked out: a block of any generation is right, and one that is damaged wrong.
                if !marks.is_empty() && head.fathom_version != env!("CARGO_PKG_VERSION") {
                    return Err(usage(format!(
                        "it was written by fathom {}, which alone knows its requests: verify it with that",
                        head.fathom_version
                    )));
                }
                let known = as_of(&plan, (thread, head.threads), &marks, limit_bytes)
                    .map_err(|error| not_usable(&error))?;
                if let Some(AsOf { ledger, format, durable_writes }) = known {
                    acknowledged += durable_writes;
                    books.push(KnownBook { ledger, format, durable_writes: Some(durable_writes) });
                }
            }
        }
    }
    if was_cut_off && !volume.has_marks() {
        return Err(usage(
            "the run that wrote it was cut off, and did not note what was acknowledged: verify=crash does that".into(),
        ));
    }
    Ok(Writes { books, was_cut_off, acknowledged, damaged })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What cannot be read says what would help: rights, limits and damage have nothing in common.
    #[test]
    fn notes_that_cannot_be_read_name_their_own_cure() {
        let of = |error: io::Error| not_read(&[("/state/verify/00 1/head.json".into(), error)]);
        let said = |error| of(error).map_or_else(String::new, |error| error.to_string());
        let damaged = said(io::Error::new(io::ErrorKind::InvalidData, "is damaged: x"));
        assert!(damaged.ends_with("rm -r '/state/verify/00 1'"), "{damaged}");
        assert!(said(io::ErrorKind::PermissionDenied.into()).contains("as the owner of the store"));
        assert!(said(io::Error::from_raw_os_error(24)).contains("ulimit -n"));
        assert!(said(io::Error::from_raw_os_error(5)).contains("dmesg"));
        assert!(not_read(&[]).is_none());
    }
}
