//! Options of mounted filesystems and their files in `/sys/fs`.

use crate::machine::{Journal, assert_same, drifted, knobs};
use fathom_knobs::knob::{Home, Knob, Values};
use fathom_knobs::scope::of_remote;
use fathom_knobs::{KnobError, Scope, ScopeMount, Setting, Undo, all, read, resolve};
use fathom_sys::mounts;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::command::tool;
use fathom_testkit::{FsKind, LoopDevice, LoopOptions, MountedFs, counted};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn samples(knob: &Knob) -> Vec<String> {
    match knob.values {
        Values::Switch => vec!["0".to_owned(), "1".to_owned()],
        Values::Number(min, max) => [min, 16, 64, max].iter().map(ToString::to_string).collect(),
        Values::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        _ => Vec::new(),
    }
}

/// What the kernel says of the mount, and every setting of the filesystem.
fn state(fs: &MountedFs, kind: FsKind) -> BTreeMap<String, String> {
    let point = fs.dir().display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line =
        mounts.lines().find(|line| line.split(' ').nth(4) == Some(&point)).unwrap().to_owned();
    let name = fs.device().name();
    let options = fs::read_to_string(format!("/proc/fs/ext4/{name}/options")).unwrap_or_default();
    let mut state =
        BTreeMap::from([("mountinfo".to_owned(), line), ("options".to_owned(), options)]);
    let base = match kind {
        FsKind::Ext4 => format!("/sys/fs/ext4/{name}"),
        FsKind::Xfs => format!("/sys/fs/xfs/{name}"),
        FsKind::Btrfs => {
            let all = fs::read_dir("/sys/fs/btrfs").unwrap().flatten();
            let mut all = all.filter(|entry| entry.path().join("devices").join(&name).exists());
            all.next().unwrap().path().display().to_string()
        }
    };
    for file in [
        "inode_readahead_blks",
        "mb_stream_req",
        "mb_group_prealloc",
        "mb_max_to_scan",
        "mb_min_to_scan",
        "extent_max_zeroout_kb",
        "bdi/read_ahead_kb",
        "bg_reclaim_threshold",
        "discard/iops_limit",
        "discard/kbps_limit",
        "read_policy",
    ] {
        if let Ok(text) = fs::read_to_string(format!("{base}/{file}")) {
            state.insert(file.to_owned(), text);
        }
    }
    state
}

/// Each option that can be changed while mounted, to a few values, and back; with a mount that has options already.
pub fn options() {
    let mut tried = 0;
    for (kind, given) in [
        (FsKind::Ext4, ""),
        (FsKind::Ext4, "noatime,nosuid,commit=20,data=writeback"),
        (FsKind::Xfs, "inode32,logbsize=64k"),
        (FsKind::Btrfs, ""),
        (FsKind::Btrfs, "strictatime,compress-force=lzo,nodatasum,nodiscard,commit=20"),
    ] {
        let device = LoopDevice::new(kind.size_bytes_min()).unwrap();
        let device_id = device.backing().display().to_string();
        let fs = MountedFs::with(kind, device, &[], given).unwrap();
        let mount = ScopeMount {
            mount_point: fs.dir().to_owned(),
            device_id,
            fs_type: kind.name().to_owned(),
        };
        let root = SysRoot::live();
        let scope = Scope { devices: &[], mounts: std::slice::from_ref(&mount), own: &[] };
        let before = state(&fs, kind);
        let of_mounts = |knob: &&Knob| {
            matches!(knob.home, Home::AccessTime | Home::Option(..) | Home::FileSystem(..))
        };
        for knob in all().iter().filter(|knob| knob.is_set()).filter(of_mounts) {
            for value in samples(knob) {
                let settings = match resolve(&root, &scope, &knobs(&[(knob.id, &value)])) {
                    Ok(settings) => settings,
                    Err(KnobError::Nowhere { .. }) => continue,
                    Err(error) => panic!("{kind}: {} = {value}: {error}", knob.id),
                };
                let mut journal = Journal::new();
                match journal.apply(&settings) {
                    Ok(_) => {
                        assert_eq!(drifted(&settings, &[]), []);
                        tried += 1;
                    }
                    // Such as a count that must be a power of two.
                    Err(KnobError::Write { .. }) => {}
                    Err(error) => panic!("{kind} {given}: {} = {value}: {error}", knob.id),
                }
                let outcomes = journal.undo_all(false);
                assert!(
                    outcomes.iter().all(Undo::is_done),
                    "{kind} {given}: {} = {value}: {outcomes:?}",
                    knob.id
                );
                assert_same(
                    &before,
                    &state(&fs, kind),
                    &format!("{kind} {given}: {} = {value}", knob.id),
                );
            }
        }
    }
    counted("options of mounts set and put back", tried);
    assert!(tried > 80, "{tried}");
}

/// A filesystem with two directories on which it can be mounted.
struct Ground {
    _device: LoopDevice,
    source: String,
    backing: String,
    first: String,
    second: String,
    // Removed after the device is gone.
    dir: tempfile::TempDir,
}

fn run(name: &str, args: &[&str]) {
    let done = tool(name).args(args).output().unwrap();
    assert!(done.status.success(), "{name} {args:?}: {done:?}");
}

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().canonicalize().unwrap().join(name).display().to_string();
        let (first, second, backing) = (path("first"), path("second"), path("files/backing"));
        for made in [&first, &second, &path("files")] {
            fs::create_dir(made).unwrap();
        }
        fs::File::create(&backing).unwrap().set_len(64 << 20).unwrap();
        let device = LoopDevice::over(backing.as_ref(), &LoopOptions::default()).unwrap();
        FsKind::Ext4.make(device.path(), &[]).unwrap();
        let source = device.path().display().to_string();
        Self { _device: device, source, backing, first, second, dir }
    }

    fn shown(&self, point: &str) -> Option<(String, String)> {
        let own = mounts::own_mounts(&SysRoot::live());
        let mount =
            own.into_iter().rfind(|m| m.mount_point == Path::new(point) && m.fs_type == "ext4");
        mount.map(|mount| (mount.options, mount.super_options))
    }

    /// Options of the mount on the first one, changed.
    fn set(&self) -> Journal {
        let mount = ScopeMount {
            mount_point: self.first.clone().into(),
            device_id: self.backing.clone(),
            fs_type: "ext4".to_owned(),
        };
        let scope = Scope { devices: &[], mounts: std::slice::from_ref(&mount), own: &[] };
        let wanted = knobs(&[("mount.atime", "noatime"), ("ext4.commit", "17")]);
        let mut journal = Journal::new();
        journal.apply(&resolve(&SysRoot::live(), &scope, &wanted).unwrap()).unwrap();
        journal
    }
}

/// A mount is found by its numbers, whatever has become of the paths of its device and of its own; what hides it, or has inherited what it
/// had, keeps the change in the journal.
pub fn moved() {
    let ground = Ground::new();
    let Ground { source, backing, first, second, .. } = &ground;
    run("mount", &[source, first]);
    let before = ground.shown(first);
    // The file has another name.
    let mut journal = ground.set();
    assert_ne!(ground.shown(first), before);
    let renamed = format!("{backing}.renamed");
    fs::rename(backing, &renamed).unwrap();
    assert_eq!(journal.undo_all(false), [Undo::Restored]);
    assert_eq!(ground.shown(first), before);
    fs::rename(&renamed, backing).unwrap();
    // The directory of both has.
    let mut journal = ground.set();
    run("mount", &["--move", first, second]);
    assert_eq!(journal.undo_all(false), [Undo::Restored]);
    assert_eq!(ground.shown(second), before);
    run("mount", &["--move", second, first]);
    // Another one lies on it.
    let mut journal = ground.set();
    run("mount", &["-t", "tmpfs", "none", first]);
    let hidden = journal.undo_all(false);
    assert!(matches!(&hidden[..], [Undo::Failed(why)] if why.contains("hides")), "{hidden:?}");
    run("umount", &[first]);
    assert_eq!(journal.undo_all(false), [Undo::Restored]);
    assert_eq!(ground.shown(first), before);
    // It is gone, and one that was made of it has what it had.
    let mut journal = ground.set();
    run("mount", &["--bind", first, second]);
    run("umount", &[first]);
    for _ in 0..2 {
        let left = journal.undo_all(false);
        assert!(matches!(&left[..], [Undo::NotHere(what)] if what.contains(second)), "{left:?}");
    }
    assert!(!ground.shown(second).unwrap().1.contains("commit=17"), "the filesystem's own is back");
    run("umount", &[second]);
    let gone = journal.undo_all(false);
    assert!(matches!(&gone[..], [Undo::Gone(_)]), "{gone:?}");
}

/// Somebody has mounted it anew, elsewhere or there: the mount may have the number of the old one, and is theirs.
pub fn mounted_anew() {
    let ground = Ground::new();
    let Ground { source, first, second, dir, .. } = &ground;
    for (point, words) in [(second, second.as_str()), (first, "mounted anew")] {
        if mounts::sequence(dir.path()).is_none() {
            return;
        }
        run("mount", &[source, first]);
        let mut journal = ground.set();
        run("umount", &[first]);
        run("mount", &["-o", "noatime", source, point]);
        let left = journal.undo_all(false);
        assert!(matches!(&left[..], [Undo::NotHere(what)] if what.contains(words)), "{left:?}");
        assert!(ground.shown(point).unwrap().0.contains("noatime"), "{point}");
        run("umount", &[point]);
    }
}

const READ_AHEAD: &str = "bdi.read_ahead_kb";

/// A filesystem of another process that has ended: whoever asks it gets an error, as from a server that is gone.
struct Remote<'a>(&'a Path);

impl<'a> Remote<'a> {
    fn new(dir: &'a Path, source: &str) -> Self {
        let words = "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 $1 $2";
        let mut mount = tool("sh");
        mount.args(["-c", words, "sh", source]).arg(dir);
        let done = mount.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        Self(dir)
    }

    fn scope(&self) -> ScopeMount {
        let all = mounts::own_mounts(&SysRoot::live());
        of_remote(all.iter().rfind(|mount| mount.mount_point == self.0).unwrap()).unwrap()
    }

    fn read_ahead(&self) -> String {
        read(&SysRoot::live(), &self.scope().place(), READ_AHEAD).unwrap()
    }

    fn settings(&self, kib: &str) -> Vec<Setting> {
        let mount = self.scope();
        let scope = Scope { devices: &[], mounts: std::slice::from_ref(&mount), own: &[] };
        resolve(&SysRoot::live(), &scope, &knobs(&[(READ_AHEAD, kib)])).unwrap()
    }
}

impl Drop for Remote<'_> {
    fn drop(&mut self) {
        tool("umount").arg(self.0).status().ok();
    }
}

/// Set, read again, put back; what somebody has set since stays, and so does what another mount at the same place has.
pub fn remote() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().canonicalize().unwrap();
    let first = Remote::new(&dir, "server:/one");
    let before = first.read_ahead();
    assert_ne!(before, "512");
    let settings = first.settings("512");
    let mut journal = Journal::new();
    journal.apply(&settings).unwrap();
    assert_eq!((first.read_ahead().as_str(), drifted(&settings, &[])), ("512", vec![]));
    assert_eq!(journal.undo_all(false), [Undo::Restored]);
    assert_eq!(first.read_ahead(), before);
    // Somebody else's.
    let mut journal = Journal::new();
    journal.apply(&settings).unwrap();
    Journal::new().apply(&first.settings("1024")).unwrap();
    assert_eq!(drifted(&settings, &[])[0].1.as_deref(), Some("1024"));
    assert!(matches!(journal.undo_all(false)[..], [Undo::ChangedBySomebody { .. }]));
    assert_eq!(first.read_ahead(), "1024");
    assert_eq!(journal.undo_all(true), [Undo::Restored]);
    assert_eq!(first.read_ahead(), before);
    // Another one comes in its place, and gets its number.
    let mut journal = Journal::new();
    journal.apply(&settings).unwrap();
    let number = first.scope().device_id;
    drop(first);
    let second = Remote::new(&dir, "server:/two");
    println!("{number}, then {}", second.scope().device_id);
    Journal::new().apply(&second.settings("512")).unwrap();
    let outcomes = journal.undo_all(false);
    assert!(matches!(&outcomes[..], [Undo::Gone(what)] if what.contains("not mounted any more")));
    assert_eq!(second.read_ahead(), "512", "it is another's");
}
