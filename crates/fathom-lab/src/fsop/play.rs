//! The clients of a personality: room for their files, the files that there are when the measurement begins.

use super::{Ground, failure};
use crate::error::LabError;
use crate::lab::Lab;
use fathom_base::units::{format_count, format_size};
use fathom_guard::OwnedDir;
use fathom_model::fsop::{FsopPhase, FsopSpec};
use fathom_model::play::PlaySpec;
use fathom_model::workload::Workload;
use fathom_sys::signals::StopFlag;
use fathom_sys::walked::WalkedDir;
use fathom_tree::ops::{Meter, PLAYS};
use fathom_tree::phase::{Process, Task};
use fathom_tree::play::{Player, Playing};
use fathom_tree::stream::Points;
use fathom_tree::walk::Failed;
use fathom_tree::window::{Schedule, Slot};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often somebody hears how far the files are, and a signal is looked at.
const STEP: Duration = Duration::from_millis(100);
const STEPS_TO_SAY: u32 = 50;

/// The personality as records name it; none where readers and writers are measured.
pub(super) fn named(spec: &FsopSpec) -> Option<Workload> {
    let play = spec.play.as_ref()?;
    Some(Workload {
        name: play.name.clone(),
        title: play.title.clone(),
        description: "A personality: see docs/fsop.md.".into(),
        classic: None,
        jobs: Vec::new(),
        tracked: Vec::new(),
    })
}

/// The clients, each with its files made and on stable storage.
///
/// # Errors
/// [`LabError`] for want of room, or what failed while the files were made.
pub(super) fn clients(
    lab: &mut Lab<'_>,
    ground: &Ground<'_>,
    owned: Option<&mut OwnedDir>,
    play: &PlaySpec,
    seed: u64,
) -> Result<Vec<Process>, LabError> {
    let Some(owned) = owned else { return Ok(Vec::new()) };
    super::clear(lab, owned)?;
    let grove = owned.create_grove(if play.shared { 1 } else { play.clients })?;
    let dirs: Vec<_> = grove.dirs().collect();
    let io = |source| LabError::TargetIo { path: ground.path.clone(), what: "opening", source };
    let mut processes = Vec::new();
    for number in 0..play.clients {
        let Some(dir) = dirs.get(number as usize).or(dirs.first()) else { break };
        let root = WalkedDir::over(dir).map_err(io)?;
        let playing = Playing {
            spec: play.clone(),
            block_bytes: ground.options.spec.block_bytes as usize,
            number,
            seed: seed ^ (u64::from(number) + 1) << 32,
            remembers_trees: ground.options.spec.verify,
        };
        processes.push(Process { task: Task::Play(root, playing), number, first_window: 0 });
    }
    prepare(lab, ground, play, &processes)?;
    Ok(processes)
}

/// All clients make their files, side by side.
fn prepare(
    lab: &mut Lab<'_>,
    ground: &Ground<'_>,
    play: &PlaySpec,
    processes: &[Process],
) -> Result<(), LabError> {
    let clients = FsopPhase { readers: 0, writers: 0, clients: play.clients };
    let trees = match play.tree_files_each_max() {
        0 => String::new(),
        _ => format!(" and {} trees", u64::from(play.trees) * u64::from(play.clients)),
    };
    let files = format_count(play.files);
    lab.note(format!("Making {files} files{trees} for {}.", clients.text()));
    let slots: Vec<Slot> = processes.iter().map(|_| Slot::default()).collect();
    let over = AtomicBool::new(false);
    let stop = lab.stop.clone();
    let clock = lab.clock;
    let failed = std::thread::scope(|scope| {
        let (sender, done) = mpsc::channel();
        for (process, slot) in processes.iter().zip(&slots) {
            let (sender, over, clock) = (sender.clone(), &over, clock);
            let make = move || {
                let Task::Play(root, playing) = &process.task else { return };
                let (schedule, mut none) = (Schedule::new(0, 0, &[]), || Points::new(0, 0, 0));
                let mut meter = Meter::new(&clock, slot, &schedule, 0, &PLAYS, &mut none);
                let player = Player::new(root, playing, &mut meter, over);
                let made = player.and_then(|mut player| player.prepare());
                // The receiver lives until all have ended.
                let _ = sender.send(made.map_err(|failed| (root.path(), failed)));
            };
            scope.spawn(make);
        }
        drop(sender);
        wait(lab, &stop, &slots, &over, &done)
    });
    if let Some((root, Failed { name, error: source, .. })) = failed {
        let path = failure::at(&root.unwrap_or_else(|| ground.path.clone()), &name);
        return Err(LabError::TargetIo { path, what: "making files to begin with", source });
    }
    if stop.is_set() {
        return Err(LabError::Interrupted);
    }
    let io = |source| LabError::TargetIo { path: ground.path.clone(), what: "syncing", source };
    ground.root.sync_filesystem().map_err(io)
}

/// What failed, with the directory of its process.
type Unmade = (Option<PathBuf>, Failed);
type Made = Result<bool, Unmade>;

/// Until all are done: what failed first.
fn wait(
    lab: &mut Lab<'_>,
    stop: &StopFlag,
    slots: &[Slot],
    over: &AtomicBool,
    done: &mpsc::Receiver<Made>,
) -> Option<Unmade> {
    let (mut failed, mut steps) = (None, 0);
    loop {
        match done.recv_timeout(STEP) {
            Ok(Err(error)) => {
                over.store(true, Ordering::Relaxed);
                failed.get_or_insert(error);
            }
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => return failed,
            Err(RecvTimeoutError::Timeout) => {
                steps += 1;
                if stop.is_set() {
                    over.store(true, Ordering::Relaxed);
                }
                if steps % STEPS_TO_SAY == 0 {
                    let bytes: u64 = slots.iter().map(|slot| slot.so_far().1).sum();
                    lab.note(format!("Still making files: {} so far.", format_size(bytes)));
                }
            }
        }
    }
}
