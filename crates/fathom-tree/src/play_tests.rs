//! Tests of clients: what they choose, that their files are those that they know, and that leftovers know them too.

use super::*;
use crate::ops::PLAYS;
use crate::stream::Points;
use crate::window::Slot;
use fathom_base::provenance::Provenance;
use fathom_model::fsop::{FsopProcess, Role};
use fathom_model::play::PlaySync;
use fathom_sys::clock::FastClock;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn playing(spec: PlaySpec) -> Playing {
    Playing { spec, block_bytes: 4096, number: 0, seed: 7, remembers_trees: false }
}

fn spec(mix: &[(PlayAct, u32)]) -> PlaySpec {
    PlaySpec {
        mix: mix.to_vec(),
        files: 40,
        sizes: Sizes::Uniform { min: 500, max: 10_000 },
        append_sizes: Sizes::Uniform { min: 1, max: 3_000 },
        log_bytes_max: 20_000,
        trees: 2,
        tree_dirs: 2,
        tree_files: 12,
        ..PlaySpec::default()
    }
}

/// What a client is to do, done in a directory that is prepared before.
fn with<T>(
    dir: &Path,
    playing: &Playing,
    body: impl FnOnce(&mut Player<'_, '_, FastClock>) -> T,
) -> (T, FsopProcess) {
    let (done, _, process) = with_kept(dir, playing, body);
    (done, process)
}

/// As `with`; also what the client has at its end.
fn with_kept<T>(
    dir: &Path,
    playing: &Playing,
    body: impl FnOnce(&mut Player<'_, '_, FastClock>) -> T,
) -> (T, Kept, FsopProcess) {
    let (clock, slot) = (FastClock::monotonic(), Slot::default());
    let schedule = Schedule::new(0, u64::MAX / 4, &[0]);
    let (root, over) = (WalkedDir::open(dir).expect("there"), AtomicBool::new(false));
    let mut points = || Points::new(10, 1, 0);
    let mut meter = Meter::new(&clock, &slot, &schedule, 0, &PLAYS, &mut points);
    assert!(
        Player::new(&root, playing, &mut meter, &over).expect("opened").prepare().expect("room")
    );
    let mut meter = Meter::new(&clock, &slot, &schedule, 0, &PLAYS, &mut points);
    let mut player = Player::new(&root, playing, &mut meter, &over).expect("opened");
    let done = body(&mut player);
    let kept = player.kept();
    (done, kept, meter.finish(Role::Client, 0).remove(0).0)
}

fn transactions(player: &mut Player<'_, '_, FastClock>, count: usize) -> Vec<PlayAct> {
    let choose_one = |_| {
        let act = choose(player.playing.mix(), &mut player.random).expect("one");
        assert!(done(player, act), "{act:?}");
        act
    };
    (0..count).map(choose_one).collect()
}

/// Every file below: its path and bytes.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(path) = pending.pop() {
        for entry in std::fs::read_dir(path).expect("directory") {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let data = std::fs::read(&path).expect("file");
                found.insert(path.strip_prefix(dir).expect("below").to_owned(), data);
            }
        }
    }
    found
}

fn count(process: &FsopProcess, class: OpClass) -> u64 {
    process.class(class).map_or(0, |record| record.latency_ns.count())
}

/// One transaction, or what can be done of it.
fn done<C: Clock>(player: &mut Player<'_, '_, C>, act: PlayAct) -> bool {
    player.fit(act).is_some_and(|todo| player.act(todo).is_ok())
}

#[test]
fn weights_are_honoured() {
    let mix = [(PlayAct::Read, 7), (PlayAct::Stat, 0), (PlayAct::Create, 2), (PlayAct::Delete, 1)];
    let mut random = Prng::new(3, 1);
    let mut counts = BTreeMap::new();
    for _ in 0..100_000 {
        *counts.entry(choose(&mix, &mut random).expect("one")).or_insert(0u32) += 1;
    }
    assert_eq!(counts.len(), 3, "what weighs nothing never comes");
    // Standard deviations are 145, 126 and 95.
    for (act, expected) in
        [(PlayAct::Read, 70_000), (PlayAct::Create, 20_000), (PlayAct::Delete, 10_000)]
    {
        assert!(counts[&act].abs_diff(expected) < 800, "{counts:?}");
    }
}

/// Every kind of transaction many times, in all forms of directories: nothing fails, the set stays within its bounds, what
/// lies there is what the client knows, and every byte of every file is known as fathom's also where a kill cuts it.
#[test]
fn a_client_leaves_only_files_that_are_known() {
    let acts: Vec<(PlayAct, u32)> = PlayAct::ALL
        .iter()
        .map(|(act, ..)| (*act, if act.is_on_trees() { 1 } else { 10 }))
        .collect();
    for (dirs, sync, batch) in
        [(0, PlaySync::None, 1), (3, PlaySync::FsReverse, 3), (2, PlaySync::Dir, 1)]
    {
        let dir = tempfile::tempdir().expect("temporary directory");
        let playing = playing(PlaySpec { dirs, sync, batch, ..spec(&acts) });
        let ((most, known), process) = with(dir.path(), &playing, |player| {
            let mut most = 0;
            for _ in 0..100 {
                transactions(player, 5);
                most = most.max(player.set.len());
            }
            let beside = u64::from(player.log.current.is_some())
                + u64::from(player.streams.writing.is_some());
            (most, player.set.len() + beside)
        });
        assert!(most <= playing.spec.files_each_max(), "{most}");
        let found = contents(dir.path());
        let is_flat = |path: &&PathBuf| !path.to_string_lossy().starts_with("d1");
        assert_eq!(found.keys().filter(is_flat).count() as u64, known);
        for (path, data) in &found {
            let name = path.file_name().expect("one").to_string_lossy();
            assert!(name.starts_with('f') && name.len() == 8, "{name}");
            for length in [data.len(), data.len() / 4096 * 4096] {
                let mut known = Provenance::default();
                assert!(known.explains(&data[..length]), "{}: {length}", path.display());
            }
        }
        let classes =
            [OpClass::OpenWrite, OpClass::Append, OpClass::Rename, OpClass::Link, OpClass::List];
        assert!(classes.iter().all(|class| count(&process, *class) > 10));
        assert_eq!(count(&process, OpClass::Sync) > 0, sync != PlaySync::None);
        assert_eq!(count(&process, OpClass::SyncDir) > 0, sync == PlaySync::Dir);
    }
}

#[test]
fn what_is_done_follows_from_the_seed() {
    let mix =
        [PlayAct::Create, PlayAct::Delete, PlayAct::Append, PlayAct::Rename, PlayAct::Replace]
            .map(|act| (act, 1));
    let run = |seed| {
        let dir = tempfile::tempdir().expect("temporary directory");
        let playing = Playing { seed, ..playing(spec(&mix)) };
        let (acts, _) = with(dir.path(), &playing, |player| transactions(player, 300));
        (acts, contents(dir.path()))
    };
    let (first, second, other) = (run(5), run(5), run(6));
    assert_eq!(first, second);
    assert_ne!(first.0, other.0);
    assert_ne!(first.1, other.1);
}

#[test]
fn deliveries_keep_the_spool_and_sync_as_asked() {
    for (sync, batch, syncs, opens) in [
        (PlaySync::None, 1, 0, 0),
        (PlaySync::File, 1, 1, 0),
        (PlaySync::Fs, 4, 1, 0),
        (PlaySync::FsOne, 4, 2, 1),
        (PlaySync::Reverse, 4, 4, 4),
        (PlaySync::FsAfter, 4, 5, 4),
    ] {
        let dir = tempfile::tempdir().expect("temporary directory");
        let playing = playing(PlaySpec { sync, batch, ..spec(&[(PlayAct::Deliver, 1)]) });
        let (_, process) = with(dir.path(), &playing, |player| transactions(player, 30));
        let batch = u64::from(batch);
        for class in [OpClass::OpenWrite, OpClass::CloseWrite, OpClass::Unlink] {
            assert_eq!(count(&process, class), 30 * batch, "{sync:?} {class:?}");
        }
        assert_eq!(count(&process, OpClass::Sync), 30 * syncs, "{sync:?}");
        assert_eq!(count(&process, OpClass::OpenRead), 30 * opens, "{sync:?}");
        assert_eq!(contents(dir.path()).len(), 40);
    }
}

#[test]
fn clients_in_one_directory_do_not_touch_each_others_files() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let mix = [PlayAct::Create, PlayAct::Delete, PlayAct::Rename, PlayAct::Link, PlayAct::Stat]
        .map(|act| (act, 1));
    let shared = PlaySpec { shared: true, clients: 2, ..spec(&mix) };
    let mut known = 0;
    for number in 0..2 {
        let playing = Playing { number, ..playing(shared.clone()) };
        let (count, _) = with(dir.path(), &playing, |player| {
            transactions(player, 200);
            player.set.len()
        });
        known += count;
    }
    assert_eq!(contents(dir.path()).len() as u64, known);
}

/// Trees go through their states, and what no tree is fit for makes one fit.
#[test]
fn trees_are_made_compiled_cleaned_and_deleted() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let playing = playing(PlaySpec { files: 0, ..spec(&[(PlayAct::TreeRead, 1)]) });
    let ((), process) = with(dir.path(), &playing, |player| {
        let files = || contents(dir.path()).len();
        assert_eq!(files(), 2 * 24, "two trees of two directories");
        let mut then = |act, expected| {
            assert!(done(player, act), "{act:?}");
            assert_eq!(files(), expected, "{act:?}");
        };
        then(PlayAct::TreeCompile, 72);
        then(PlayAct::TreeCompile, 96);
        then(PlayAct::TreeCompile, 72);
        then(PlayAct::TreePatch, 72);
        then(PlayAct::TreeStat, 72);
        then(PlayAct::TreeClean, 48);
        then(PlayAct::TreeCreate, 24);
        then(PlayAct::TreeDelete, 0);
        then(PlayAct::TreeRead, 24);
    });
    assert_eq!(count(&process, OpClass::RemoveDir), 6);
    assert_eq!(count(&process, OpClass::MakeDir), 3);
    assert!(count(&process, OpClass::Rename) >= 2 && count(&process, OpClass::Read) == 48);
}

#[test]
fn a_set_that_is_full_is_emptied_and_an_empty_one_is_filled() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let playing = playing(PlaySpec { files: 4, ..spec(&[(PlayAct::Create, 1)]) });
    let most = playing.spec.files_each_max();
    with(dir.path(), &playing, |player| {
        transactions(player, 100);
        assert!(player.set.len().abs_diff(most) <= 1, "{}", player.set.len());
        (0..2 * most).for_each(|_| assert!(done(player, PlayAct::Delete)));
        assert!(player.set.len() <= 1, "deleting from nothing makes one");
        assert!(done(player, PlayAct::Append) && done(player, PlayAct::Read));
    });
}

/// What clients that share directories leave is what they know; whatever somebody does to it is found.
#[test]
fn what_is_left_is_read_back() {
    let acts = PlayAct::ALL.iter().map(|(act, ..)| *act).filter(|act| !act.is_on_trees());
    let acts: Vec<(PlayAct, u32)> = acts.map(|act| (act, 10)).collect();
    for dirs in [0, 3] {
        let scratch = tempfile::tempdir().expect("room");
        let spec = PlaySpec { dirs, clients: 2, shared: true, batch: 3, ..spec(&acts) };
        let both = [0, 1].map(|number| Playing {
            number,
            seed: 9 + number as u64,
            ..playing(spec.clone())
        });
        let kept = both.each_ref().map(|playing| {
            let (_, kept, _) =
                with_kept(scratch.path(), playing, |player| transactions(player, 400));
            kept
        });
        let root = WalkedDir::open(scratch.path()).expect("there");
        let look = || {
            let clients: Vec<_> = both.iter().zip(&kept).collect();
            kept::verify(&root, &clients, &fathom_sys::signals::StopFlag::default())
                .expect("not stopped")
        };
        let clean = look();
        assert_eq!((clean.wrong, clean.listed.len()), (0, 0), "{:?}", clean.listed);
        assert_eq!(clean.files, contents(scratch.path()).len() as u64);
        let bytes: usize = contents(scratch.path()).values().map(Vec::len).sum();
        assert_eq!((clean.bytes, clean.dirs), (bytes as u64, u64::from(dirs)));
        let long = contents(scratch.path()).into_iter().filter(|(_, data)| data.len() > 2_000);
        let mut long = long.map(|(path, data)| (scratch.path().join(path), data));
        let (flipped, mut data) = long.next().expect("one");
        data[1_234] ^= 1;
        std::fs::write(&flipped, data).expect("written");
        let (cut, data) = long.next().expect("a second");
        std::fs::write(&cut, &data[..700]).expect("written");
        let (gone, _) = long.next().expect("a third");
        std::fs::remove_file(&gone).expect("there");
        std::fs::write(gone.with_file_name("f9999999"), "foreign").expect("written");
        let found = look();
        assert_eq!((found.wrong, found.files), (4, clean.files - 3), "{:?}", found.listed);
        for part in [
            "has 1 other bytes of",
            "the first at 1234",
            "is 700 bytes long instead of",
            "cannot be read",
            "f9999999 is there, and no client left it",
        ] {
            assert!(
                found.listed.iter().any(|line| line.contains(part)),
                "{part}: {:?}",
                found.listed
            );
        }
        if dirs > 0 {
            std::fs::write(scratch.path().join("f7777777"), "foreign").expect("written");
            let found = look();
            let is_said = found.listed.iter().any(|line| line.starts_with("f7777777 is there"));
            assert!(found.wrong == 5 && is_said, "{:?}", found.listed);
            // A check makes nothing.
            let name = crate::name::Name::dir(0).to_string_lossy().into_owned();
            let (dir, elsewhere) = (scratch.path().join(&name), scratch.path().join("elsewhere"));
            std::fs::rename(&dir, elsewhere).expect("there");
            let found = look();
            assert!(found.wrong == 1 && found.listed[0].contains(&name), "{:?}", found.listed);
            assert!(!dir.exists());
        }
    }
}

/// Trees too, as they were made at first and after transactions of all kinds.
#[test]
fn trees_are_read_back() {
    let acts = PlayAct::ALL.iter().map(|(act, ..)| *act);
    let acts: Vec<(PlayAct, u32)> =
        acts.map(|act| (act, if act.is_on_trees() { 10 } else { 3 })).collect();
    for count in [0, 1, 2, 3, 5, 8, 60] {
        let scratch = tempfile::tempdir().expect("room");
        let spec = PlaySpec { files: 20, trees: 3, ..spec(&acts) };
        let own = Playing { remembers_trees: true, ..playing(spec) };
        let (_, kept, _) = with_kept(scratch.path(), &own, |player| transactions(player, count));
        let root = WalkedDir::open(scratch.path()).expect("there");
        let stop = fathom_sys::signals::StopFlag::default();
        let look = || kept::verify(&root, &[(&own, &kept)], &stop).expect("not stopped");
        let (clean, there) = (look(), contents(scratch.path()));
        assert_eq!((clean.wrong, clean.listed.len()), (0, 0), "{count}: {:?}", clean.listed);
        assert_eq!(clean.files, there.len() as u64, "{count}");
        let in_trees = || there.keys().filter(|path| path.components().count() == 3);
        let (Some(flipped), Some(gone)) = (in_trees().next(), in_trees().next_back()) else {
            panic!("{count}: no tree is left: {there:?}");
        };
        let [flipped, gone] = [flipped, gone].map(|path| scratch.path().join(path));
        let mut data = std::fs::read(&flipped).expect("there");
        data[400] ^= 1;
        std::fs::write(&flipped, data).expect("written");
        std::fs::remove_file(&gone).expect("there");
        std::fs::write(gone.with_file_name("f9999999"), "foreign").expect("written");
        std::fs::create_dir(gone.parent().expect("one").with_file_name("d9")).expect("made");
        let found = look();
        assert_eq!((found.wrong, found.files), (4, clean.files - 2), "{:?}", found.listed);
        for part in ["the first at 400", "cannot be read", "f9999999 is there", "/d9 is there"] {
            let is_said = found.listed.iter().any(|line| line.contains(part));
            assert!(is_said, "{part}: {:?}", found.listed);
        }
    }
}
