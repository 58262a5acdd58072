//! Claims of block devices: every refusal provoked with the right consent, and the controls that must write.

use crate::child::Actor;
use crate::scenarios::{self, Scenario, Staged};
use fathom_guard::{Claim, Consent, Protected, Refusal, claim_block_device};
use fathom_sys::blkdev;
use fathom_sys::io::OpenMode;
use fathom_sys::sysroot::SysRoot;
use fathom_testkit::command::run_tool;
use fathom_testkit::{
    Capability, FsKind, Judged, LoopDevice, MountedFs, Scratch, Trial, kernel_test,
};
use std::error::Error;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const LOOP: &[Capability] = &[Capability::LoopDevices];

pub fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = scenarios::all()
        .into_iter()
        .map(|scenario| {
            let needs = scenario.needs.clone();
            kernel_test(&format!("refused_{}", scenario.name), &needs, move || refused(&scenario))
        })
        .collect();
    let gpt = [
        LOOP,
        &[
            Capability::Tool("sgdisk"),
            Capability::Tool("partx"),
            Capability::FsOnLoop(FsKind::Ext4),
        ],
    ]
    .concat();
    let ext4 = [Capability::FsOnLoop(FsKind::Ext4)];
    trials.extend([
        kernel_test(
            "control_blank_device_is_written",
            LOOP,
            || control(scenarios::blank_device()?),
        ),
        kernel_test("control_blank_partition_is_written", &gpt, || {
            control(scenarios::blank_partition()?)
        }),
        kernel_test("control_blank_zram_is_written", &[Capability::Zram], || {
            control(scenarios::blank_zram()?)
        }),
        kernel_test("mistyped_name_creates_nothing", LOOP, mistyped_name),
        kernel_test("consent_missing_wrong_or_for_another", LOOP, consent),
        kernel_test("claim_excludes_others_until_dropped", &ext4, exclusion),
        kernel_test("device_under_the_store_is_refused", &ext4, under_the_store),
        kernel_test("backing_file_in_the_store_is_refused", LOOP, backing_in_store),
        kernel_test("device_of_the_root_is_refused", &[Capability::Root], root_device),
        kernel_test("mounts_above_are_listed", &ext4, mounts_above),
        kernel_test("a_reused_device_number_is_noticed", LOOP, reused_name),
        kernel_test("claim_waits_for_who_lets_go", LOOP, let_go),
        kernel_test("claim_with_direct_io", LOOP, direct_io),
        kernel_test("without_sight_nothing_is_claimed", LOOP, without_sight),
    ]);
    trials
}

fn protect() -> Protected {
    Protected { store_path: PathBuf::from("/no/such/store/fathom.db") }
}

fn claim(path: &Path, ids: &[&str]) -> std::result::Result<Claim, Refusal> {
    let consent = Consent::new(ids.iter().map(|&id| id.to_owned()).collect());
    claim_block_device(&SysRoot::live(), path, &consent, &protect(), OpenMode::default())
}

/// What a workload would do: bytes at the start, in the middle and at the end.
fn claim_and_write(path: &Path, id: &str) -> std::result::Result<(), Refusal> {
    let claim = claim(path, &[id])?;
    let data = [0xa5; 4096];
    let last = claim.size_bytes() - 4096;
    for place in [0, last / 8192 * 4096, last] {
        claim.file().write_all_at(&data, place).unwrap();
    }
    claim.file().sync_all().unwrap();
    Ok(())
}

fn refused(scenario: &Scenario) -> Result {
    // Swap in use belongs to the kernel, which may write to it meanwhile: one quiet attempt of three is enough.
    for _ in 1..scenario.attempts() {
        if refused_once(scenario, false)? {
            return Ok(());
        }
    }
    refused_once(scenario, true).map(|_| ())
}

/// True when nothing changed; with `is_strict` it panics otherwise.
fn refused_once(scenario: &Scenario, is_strict: bool) -> Result<bool> {
    let links = Scratch::new()?;
    let staged = (scenario.build)()?;
    let before = staged.snapshot()?;
    for path in staged.aliases(links.path())? {
        let refusal = match claim_and_write(&path, &staged.id) {
            Ok(()) => panic!("{} was overwritten", path.display()),
            Err(refusal) => refusal,
        };
        let variant = format!("{refusal:?}");
        let text = refusal.to_string();
        assert!(variant.starts_with(&format!("{} ", scenario.refusal)), "{variant}\n{text}");
        assert!(text.contains(scenario.says), "{text}");
        assert!(text.lines().count() <= 3, "{text}");
    }
    if !is_strict && !before.is_same(&staged.witness) {
        return Ok(false);
    }
    before.assert_same(&staged.witness);
    if scenario.is_cured_by_wipefs {
        run_tool("wipefs", [Path::new("-q"), Path::new("-a"), &staged.device])?;
        claim_and_write(&staged.device, &staged.id)?;
    }
    Ok(true)
}

/// The same attempt where it is allowed: the device is claimed and written.
fn control(staged: Staged) -> Result {
    let links = Scratch::new()?;
    for path in staged.aliases(links.path())? {
        let before = staged.snapshot()?;
        claim_and_write(&path, &staged.id)?;
        let changed = before.differences(&staged.snapshot()?);
        assert_eq!(changed.len(), 3, "{}: {changed:?}", path.display());
        // Blank again, so that the next name finds what the first found.
        run_tool("dd", zeroing(&staged.device))?;
    }
    Ok(())
}

/// After a kill the kernel lets go of a device only when its filesystem is written out, and says nothing of it meanwhile.
fn let_go() -> Result {
    let device = LoopDevice::new(16 << 20)?;
    let id = device.backing().display().to_string();
    let held = blkdev::hold(device.path())?;
    let dying = thread::spawn(move || {
        thread::sleep(Duration::from_millis(700));
        drop(held);
    });
    let claimed = claim(device.path(), &[&id]);
    dying.join().map_err(|_| "the holder")?;
    claimed?;
    Ok(())
}

fn zeroing(device: &Path) -> Vec<String> {
    let size = run_tool("blockdev", [Path::new("--getsize64"), device]).unwrap();
    let to = format!("of={}", device.display());
    let count = format!("count={size}");
    let fixed = ["if=/dev/zero", "bs=1M", "iflag=count_bytes", "conv=fsync", "status=none"];
    fixed.iter().map(|&word| word.to_owned()).chain([to, count]).collect()
}

fn mistyped_name() -> Result {
    let device = LoopDevice::new(16 << 20)?;
    let id = device.backing().display().to_string();
    let links = Scratch::new()?;
    let dangling = links.join("dangling");
    std::os::unix::fs::symlink("/dev/fathom-nothing", &dangling)?;
    let name = format!("/dev/{}x", device.name());
    for path in ["/dev/fathom-nothing", &name, "/dev/disk/by-id/none", "/dev"].map(PathBuf::from) {
        let refusal = claim_and_write(&path, &id).unwrap_err();
        assert!(refusal.is_usage(), "{refusal:?}");
        let text = refusal.to_string();
        assert!(path == Path::new("/dev") || text.contains("does not exist"), "{text}");
        assert!(path == Path::new("/dev") || !path.exists());
    }
    let text = claim_and_write(Path::new(&name), &id).unwrap_err().to_string();
    assert!(text.contains("did you mean 'loop"), "{text}");
    assert!(matches!(claim_and_write(&dangling, &id), Err(Refusal::Missing { .. })));
    assert!(!Path::new("/dev/fathom-nothing").exists());
    Ok(())
}

fn consent() -> Result {
    let (device, other) = (LoopDevice::new(16 << 20)?, LoopDevice::new(16 << 20)?);
    let staged = scenarios::blank_device()?;
    let before = fathom_testkit::Snapshot::take(device.path())?;
    let id = device.backing().display().to_string();
    let other_id = other.backing().display().to_string();
    let wrong = [
        vec![],
        vec![other_id.as_str()],
        vec![&staged.id, &other_id],
        vec![""],
        vec!["/dev/loop0"],
        vec![device.path().to_str().unwrap_or_default()],
        vec![&id[1..]],
    ];
    for ids in wrong {
        let refusal = claim(device.path(), &ids).unwrap_err();
        let text = refusal.to_string();
        assert!(matches!(refusal, Refusal::ConsentMissing { .. }), "{text}");
        assert!(text.ends_with(&format!("--destroy={id}")), "{text}");
        assert!(text.contains("16 MiB") && text.contains("verified backup"), "{text}");
        before.assert_same(device.path());
    }
    // One consent is not used up by a device that it does not name.
    let both = claim(device.path(), &[&other_id, &id])?;
    let second = claim(other.path(), &[&other_id, &id])?;
    assert_ne!(both.id(), second.id());
    Ok(())
}

fn exclusion() -> Result {
    let device = LoopDevice::new(32 << 20)?;
    let id = device.backing().display().to_string();
    let held = claim(device.path(), &[&id])?;
    assert_eq!((held.id(), held.path()), (id.as_str(), device.path()));
    assert_eq!((held.size_bytes(), held.logical_block_size_bytes()), (32 << 20, 512));
    let second = claim(device.path(), &[&id]).unwrap_err();
    assert!(matches!(second, Refusal::Busy { .. }), "{second}");
    assert!(FsKind::Ext4.make(device.path(), &[]).is_err(), "mkfs must not get in");
    let again = held.reopen(OpenMode::default())?;
    again.write_all_at(&[1; 512], 0)?;
    let mut back = [0; 512];
    held.file().read_exact_at(&mut back, 0)?;
    assert_eq!(back, [1; 512]);
    drop((held, again));
    claim(device.path(), &[&id])?;
    Ok(())
}

fn under_the_store() -> Result {
    let fs = MountedFs::new(FsKind::Ext4, 32 << 20)?;
    let id = fs.device().backing().display().to_string();
    let protect = Protected { store_path: fs.dir().join("not/yet/fathom.db") };
    let consent = Consent::new(vec![id]);
    let root = SysRoot::live();
    let path = fs.device().path();
    let refusal = claim_block_device(&root, path, &consent, &protect, OpenMode::default());
    let refusal = refusal.unwrap_err();
    assert!(
        matches!(&refusal, Refusal::System { what, .. } if what.starts_with("the store")),
        "{refusal}"
    );
    Ok(())
}

fn backing_in_store() -> Result {
    let device = LoopDevice::new(16 << 20)?;
    let consent = Consent::new(vec![device.backing().display().to_string()]);
    let dir = device.backing().parent().unwrap_or(Path::new("/")).to_owned();
    for store_path in [dir, device.backing().to_owned()] {
        let protect = Protected { store_path };
        let root = SysRoot::live();
        let refusal =
            claim_block_device(&root, device.path(), &consent, &protect, OpenMode::default());
        let refusal = refusal.unwrap_err();
        assert!(matches!(refusal, Refusal::System { .. }), "{refusal}");
    }
    Ok(())
}

/// Looks at the device of the root file system without opening it.
fn root_device() -> Judged {
    use fathom_guard::target::Target;
    use fathom_sys::mounts::{mount_of, own_mounts};
    use fathom_sys::sysfs_block::BlockDir;
    let root = SysRoot::live();
    let mounts = own_mounts(&root);
    let devno = mount_of(&mounts, Path::new("/")).map(|mount| mount.devno);
    let Some(device) = devno.and_then(|devno| BlockDir::by_devno(&root, devno)) else {
        return Judged::Skipped("the root lies on no single device here, as in a container".into());
    };
    for device in [device.clone(), device.disk().unwrap()] {
        let devno = device.devno().unwrap();
        let target = Target { path: device.dev_path().into(), devno, device };
        let refusal = fathom_guard::protected::check(&root, &target, &protect()).unwrap_err();
        assert!(matches!(refusal, Refusal::System { .. }), "{refusal}");
    }
    Judged::Passed
}

fn mounts_above() -> Result {
    let fs = MountedFs::new(FsKind::Ext4, 32 << 20)?;
    let root = SysRoot::live();
    let number = |path: &Path| {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|meta| fathom_sys::devno::DevNo::from_raw(meta.rdev()))
    };
    let devno = number(fs.device().path())?;
    let mounts = fathom_guard::mounted_above(&root, devno);
    assert!(mounts.iter().any(|mount| mount.mount_point == fs.dir()), "{mounts:?}");
    let device = fs.unmount();
    assert_eq!(fathom_guard::mounted_above(&root, number(device.path())?), []);
    Ok(())
}

/// A consent names what was consented to: another file behind the same loop device is another device.
fn reused_name() -> Result {
    let first = LoopDevice::new(16 << 20)?;
    let path = first.path().to_owned();
    let id = first.backing().display().to_string();
    claim(&path, &[&id])?;
    drop(first);
    let second = LoopDevice::new(16 << 20)?;
    let refusal = claim(second.path(), &[&id]).unwrap_err();
    assert!(matches!(refusal, Refusal::ConsentMissing { .. }), "{refusal}");
    Ok(())
}

/// Others than root cannot see who has a device open, even one that they may write to.
fn without_sight() -> Result {
    const NOBODY: u32 = 65534;
    let staged = scenarios::blank_device()?;
    let id = Path::new(&staged.id);
    let (_, answer) = Actor::start_and_listen("claim", &staged.device, id, None);
    assert_eq!(answer, "claimed", "the control");
    run_tool("chmod", [Path::new("o+rw"), &staged.device])?;
    let (_, answer) = Actor::start_and_listen("claim", &staged.device, id, Some(NOBODY));
    run_tool("chmod", [Path::new("o-rw"), &staged.device])?;
    assert!(answer.starts_with("CannotCheck") && answer.contains("run as root"), "{answer}");
    // Root is not always one that sees everybody, as in a container.
    let lost = |word: &'static str| format!("--bounding-set={word}");
    let inherited = |word: &'static str| format!("--inh-caps={word}");
    let without_ptrace = (lost("-sys_ptrace"), inherited("-sys_ptrace"));
    let mappings = "-sys_admin,-checkpoint_restore";
    let without_mappings = (lost(mappings), inherited(mappings));
    for (wrapper, cure) in [
        (&["setpriv", &without_ptrace.0, &without_ptrace.1][..], "CAP_SYS_PTRACE"),
        (&["setpriv", &without_mappings.0, &without_mappings.1], "CAP_CHECKPOINT_RESTORE"),
        (&["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"], "--pid=host"),
    ] {
        let (_, answer) = Actor::start_under(wrapper, "claim", &staged.device, id);
        assert!(
            answer.starts_with("CannotCheck") && answer.contains(cure),
            "{wrapper:?}: {answer}"
        );
    }
    // A recorded machine says nothing about a real device.
    let recorded = SysRoot::at("/proc/self/root");
    let consent = Consent::new(vec![staged.id.clone()]);
    let refusal =
        claim_block_device(&recorded, &staged.device, &consent, &protect(), OpenMode::default());
    assert!(matches!(refusal, Err(Refusal::CannotCheck { .. })));
    Ok(())
}

fn direct_io() -> Result {
    let staged = scenarios::blank_device()?;
    let consent = Consent::new(vec![staged.id.clone()]);
    let mode = OpenMode { direct: true, ..OpenMode::default() };
    let claim = claim_block_device(&SysRoot::live(), &staged.device, &consent, &protect(), mode)?;
    // One byte cannot be written directly: that it is refused shows that the flag took effect.
    assert!(claim.file().write_at(&[1], 0).is_err());
    claim.reopen(OpenMode::default())?.write_all_at(&[1], 0)?;
    Ok(())
}
