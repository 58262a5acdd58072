//! Devices that must not be overwritten, each built for real, with the consent that would be right: only the guard
//! stands between. Needs nothing but the test kit, so that other crates can include this file by its path.

use fathom_testkit::command::{KitError, at, run_tool, tool};
use fathom_testkit::{
    Capability, Content, FsKind, LoopDevice, LoopOptions, MountedElsewhere, Snapshot, Zram,
};
use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

const MIB: u64 = 1 << 20;
/// O_EXCL of open(2).
const O_EXCL: i32 = 0o200;
/// The PARTUUID that [`gpt`] gives its first partition.
pub const PART_UUID: &str = "0fa7403a-0000-4000-8000-000000000001";

/// A situation in which a device must be refused.
pub struct Scenario {
    /// Name of the case.
    pub name: &'static str,
    /// What the machine must offer.
    pub needs: Vec<Capability>,
    /// The variant of the refusal.
    pub refusal: &'static str,
    /// Words that the refusal must contain.
    pub says: &'static str,
    /// Builds it.
    pub build: fn() -> Result<Staged, KitError>,
    /// True when `wipefs -a`, as the refusal says, makes the device writable.
    pub is_cured_by_wipefs: bool,
}

impl Scenario {
    /// How often to try until nothing else wrote to the device: the kernel writes to swap in use when it likes.
    pub fn attempts(&self) -> usize {
        if ["swap-in-use", "its-partition-swap", "swap-on-zram"].contains(&self.name) {
            3
        } else {
            1
        }
    }
}

/// A built situation; taken down when dropped, the newest part first.
pub struct Staged {
    /// What is given as the target.
    pub device: PathBuf,
    /// The identifier that `--destroy` takes for it.
    pub id: String,
    /// What is compared byte by byte before and after.
    pub witness: PathBuf,
    props: Vec<Box<dyn Any>>,
}

impl Staged {
    fn new(device: LoopDevice) -> Self {
        let path = device.path().to_owned();
        let id = device.backing().display().to_string();
        Self { device: path.clone(), id, witness: path, props: vec![Box::new(device)] }
    }

    /// Holds something that goes before all that is held already.
    fn with(mut self, prop: impl Any) -> Self {
        self.props.insert(0, Box::new(prop));
        self
    }

    fn target(mut self, device: PathBuf, id: &str) -> Self {
        (self.device, self.id) = (device, id.to_owned());
        self
    }

    /// The state of the witness.
    ///
    /// # Errors
    /// Those of reading it.
    pub fn snapshot(&self) -> Result<Snapshot, KitError> {
        Snapshot::take(&self.witness)
    }

    /// Names of the target: its own, a symbolic link, and a link to a relative link as in `/dev/disk/by-id`.
    ///
    /// # Errors
    /// Those of making the links in `dir`, which must be empty.
    pub fn aliases(&self, dir: &Path) -> Result<Vec<PathBuf>, KitError> {
        let (link, by_id) = (dir.join("link"), dir.join("by-id"));
        symlink(&self.device, &link).map_err(at(&link))?;
        fs::create_dir(&by_id).map_err(at(&by_id))?;
        let alias = by_id.join("loop-SERIAL_1");
        symlink("../link", &alias).map_err(at(&alias))?;
        Ok(vec![self.device.clone(), link, alias])
    }
}

/// Runs something when dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Ends a process when dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn blank(mib: u64) -> Result<LoopDevice, KitError> {
    LoopDevice::new(mib * MIB)
}

fn run(name: &str, args: &[&str], device: &Path) -> Result<String, KitError> {
    run_tool(name, args.iter().map(Path::new).chain([device]))
}

/// Writes bytes at places; a negative place counts from the end.
fn put(device: &Path, parts: &[(i64, &[u8])]) -> Result<(), KitError> {
    let mut file = OpenOptions::new().write(true).open(device).map_err(at(device))?;
    for (place, bytes) in parts {
        let from = match u64::try_from(*place) {
            Ok(place) => SeekFrom::Start(place),
            Err(_) => SeekFrom::End(*place),
        };
        file.seek(from).map_err(at(device))?;
        file.write_all(bytes).map_err(at(device))?;
    }
    file.sync_all().map_err(at(device))
}

fn staged_by(mib: u64, name: &str, args: &[&str]) -> Result<Staged, KitError> {
    let device = blank(mib)?;
    run(name, args, device.path())?;
    Ok(Staged::new(device))
}

fn staged_bytes(parts: &[(i64, &[u8])]) -> Result<Staged, KitError> {
    let device = blank(16)?;
    put(device.path(), parts)?;
    Ok(Staged::new(device))
}

/// A disk with a GPT of two partitions that the kernel knows; the nodes are `partition(1)` and `partition(2)`.
///
/// # Errors
/// Those of the tools.
pub fn gpt() -> Result<(LoopDevice, Box<dyn Any>), KitError> {
    gpt_with("--typecode=1:8300")
}

fn gpt_with(option: &str) -> Result<(LoopDevice, Box<dyn Any>), KitError> {
    let options = LoopOptions { partition_scan: true, ..LoopOptions::default() };
    let disk = LoopDevice::with(64 * MIB, Content::Sparse, &options)?;
    let unique = format!("--partition-guid=1:{PART_UUID}");
    let guid = "--partition-guid=2:0FA7403A-0000-4000-8000-000000000002";
    let args = ["--new=1:0:+24M", &unique, "--new=2:0:+24M", guid, option];
    run("sgdisk", &args, disk.path())?;
    let guard = tell_kernel(&disk)?;
    Ok((disk, guard))
}

/// Has the kernel know the partitions also where it reads no tables itself; they go when the guard is dropped.
fn tell_kernel(disk: &LoopDevice) -> Result<Box<dyn Any>, KitError> {
    let path = disk.path().to_owned();
    // Fails where the kernel has read the table already.
    run("partx", &["--add"], &path).ok();
    if !disk.partition(1).exists() {
        return Err(KitError::Other(format!("{} was not made", disk.partition(1).display())));
    }
    Ok(Box::new(OnDrop(move || {
        run("partx", &["--delete"], &path).ok();
    })))
}

/// Mounts and freezes: the device does not change by itself.
fn mount_frozen(staged: Staged, device: &Path) -> Result<Staged, KitError> {
    let mount = fathom_testkit::Mount::new("ext4", device, "")?;
    let point = mount.dir().to_owned();
    freeze(staged.with(mount), point)
}

fn freeze(staged: Staged, point: PathBuf) -> Result<Staged, KitError> {
    run("fsfreeze", &["--freeze"], &point)?;
    Ok(staged.with(OnDrop(move || {
        run("fsfreeze", &["--unfreeze"], &point).ok();
    })))
}

fn mounted() -> Result<Staged, KitError> {
    let device = blank(32)?;
    FsKind::Ext4.make(device.path(), &[])?;
    let path = device.path().to_owned();
    mount_frozen(Staged::new(device), &path)
}

fn disk_of_mounted_partition() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    let partition = disk.partition(2);
    FsKind::Ext4.make(&partition, &[])?;
    mount_frozen(Staged::new(disk).with(guard), &partition)
}

fn mounted_partition() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    let partition = disk.partition(1);
    FsKind::Ext4.make(&partition, &[])?;
    let staged = Staged::new(disk).with(guard).target(partition.clone(), PART_UUID);
    mount_frozen(staged, &partition)
}

fn mounted_elsewhere() -> Result<Staged, KitError> {
    let device = blank(32)?;
    FsKind::Ext4.make(device.path(), &[])?;
    let elsewhere = MountedElsewhere::new(device.path())?;
    let pid = elsewhere.pid();
    let mounts = PathBuf::from(format!("/proc/{pid}/mountinfo"));
    let text = fs::read_to_string(&mounts).map_err(at(&mounts))?;
    let source = format!(" {} ", device.path().display());
    let line = text.lines().find(|line| line.contains(&source)).unwrap_or_default();
    let point = line.split(' ').nth(4).unwrap_or_default().trim_start_matches('/').to_owned();
    let point = Path::new(&format!("/proc/{pid}/root")).join(point);
    freeze(Staged::new(device).with(elsewhere), point)
}

fn mounted_btrfs_member() -> Result<Staged, KitError> {
    let (first, second) = (blank(128)?, blank(128)?);
    let paths = ["-q", "-f", "-d", "raid1", "-m", "raid1"].map(Path::new);
    run_tool("mkfs.btrfs", paths.into_iter().chain([first.path(), second.path()]))?;
    let option = format!("device={}", second.path().display());
    let mount = fathom_testkit::Mount::new("btrfs", first.path(), &option)?;
    let point = mount.dir().to_owned();
    freeze(Staged::new(second).with(first).with(mount), point)
}

fn swap_on(staged: Staged, device: &Path) -> Result<Staged, KitError> {
    run("mkswap", &["--quiet"], device)?;
    run("swapon", &["--priority", "0"], device)?;
    let device = device.to_owned();
    Ok(staged.with(OnDrop(move || {
        run("swapoff", &[], &device).ok();
    })))
}

fn swap_in_use() -> Result<Staged, KitError> {
    let device = blank(16)?;
    let path = device.path().to_owned();
    swap_on(Staged::new(device), &path)
}

fn disk_of_swap_partition() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    let partition = disk.partition(2);
    swap_on(Staged::new(disk).with(guard), &partition)
}

fn held_exclusively() -> Result<Staged, KitError> {
    let device = blank(16)?;
    let path = device.path().to_owned();
    let open = OpenOptions::new().read(true).custom_flags(O_EXCL).open(&path).map_err(at(&path))?;
    Ok(Staged::new(device).with(open))
}

fn partition_held_exclusively() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    let path = disk.partition(2);
    let staged = Staged::new(disk).with(guard);
    let open = OpenOptions::new().read(true).custom_flags(O_EXCL).open(&path).map_err(at(&path))?;
    Ok(staged.with(open))
}

/// A process that has the file open for reading, and does nothing.
fn held_open(path: &Path) -> Result<ChildGuard, KitError> {
    let file = File::open(path).map_err(at(path))?;
    let mut command = tool("sleep");
    command.arg("600").stdin(Stdio::from(file));
    command.spawn().map(ChildGuard).map_err(at(path))
}

fn open_elsewhere() -> Result<Staged, KitError> {
    let device = blank(16)?;
    let child = held_open(device.path())?;
    Ok(Staged::new(device).with(child))
}

fn backing_open_elsewhere() -> Result<Staged, KitError> {
    let device = blank(16)?;
    let child = held_open(device.backing())?;
    Ok(Staged::new(device).with(child))
}

fn attached_read_only() -> Result<Staged, KitError> {
    let options = LoopOptions { read_only: true, ..LoopOptions::default() };
    LoopDevice::with(16 * MIB, Content::Sparse, &options).map(Staged::new)
}

fn set_read_only() -> Result<Staged, KitError> {
    let staged = staged_by(16, "blockdev", &["--setro"])?;
    let path = staged.device.clone();
    // The setting would outlive the file behind the device.
    Ok(staged.with(OnDrop(move || {
        run("blockdev", &["--setrw"], &path).ok();
    })))
}

fn second_btrfs_device() -> Result<Staged, KitError> {
    let (first, second) = (blank(128)?, blank(128)?);
    let args = ["-q", "-f"].map(Path::new);
    run_tool("mkfs.btrfs", args.into_iter().chain([first.path(), second.path()]))?;
    Ok(Staged::new(second).with(first))
}

fn luks(version: &str) -> Result<Staged, KitError> {
    let device = blank(32)?;
    let key = device.backing().with_file_name("key");
    fs::write(&key, "a key for a test").map_err(at(&key))?;
    let file = format!("--key-file={}", key.display());
    let fast = ["--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000"];
    let args = ["luksFormat", "--batch-mode", "--type", version, fast[0], fast[1], &file];
    run("cryptsetup", &args, device.path())?;
    Ok(Staged::new(device))
}

fn luks2_secondary_only() -> Result<Staged, KitError> {
    let staged = luks("luks2")?;
    put(&staged.device, &[(0, &[0; 4096])])?;
    Ok(staged)
}

fn lvm() -> Result<Staged, KitError> {
    let config = "devices { use_devicesfile=0 obtain_device_list_from_udev=0 }";
    staged_by(16, "pvcreate", &["--quiet", "--config", config])
}

/// An md superblock of version 1 as far as it is looked at.
fn md_v1() -> Vec<u8> {
    [&0xa92b_4efc_u32.to_le_bytes()[..], &1_u32.to_le_bytes(), &[0; 8], &[7; 16], b"host:10"]
        .concat()
}

fn md_v090() -> Result<Staged, KitError> {
    let superblock = [&0xa92b_4efc_u32.to_le_bytes()[..], &0_u32.to_le_bytes(), &[90, 0, 0, 0]];
    staged_bytes(&[(-65536, &superblock.concat())])
}

fn zfs_uberblock() -> Result<Staged, KitError> {
    staged_bytes(&[(132 << 10, &0x00ba_b10c_u64.to_le_bytes())])
}

fn zfs_last_label_only() -> Result<Staged, KitError> {
    staged_bytes(&[(-(128 << 10) + 4096, &0x00ba_b10c_u64.to_be_bytes())])
}

fn zfs_config_only() -> Result<Staged, KitError> {
    staged_bytes(&[(-(512 << 10) + (16 << 10), b"\x01\x01\0\0\0\0\0\0\0\0\0\x01")])
}

fn gpt_without_kernel_partitions() -> Result<Staged, KitError> {
    staged_by(16, "sgdisk", &["--new=1:0:+4M"])
}

fn gpt_of_large_sectors() -> Result<Staged, KitError> {
    let options = LoopOptions { sector_size_bytes: Some(4096), ..LoopOptions::default() };
    let device = LoopDevice::with(16 * MIB, Content::Sparse, &options)?;
    run("sgdisk", &["--new=1:0:+4M"], device.path())?;
    Ok(Staged::new(device))
}

fn backup_gpt_only() -> Result<Staged, KitError> {
    let staged = gpt_without_kernel_partitions()?;
    put(&staged.device, &[(0, &[0; 34 * 512])])?;
    Ok(staged)
}

fn mbr() -> Result<Staged, KitError> {
    let device = blank(16)?;
    let mut child = tool("sfdisk")
        .args(["--quiet", "--no-reread", "--no-tell-kernel"])
        .arg(device.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(at("sfdisk"))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(b"label: dos\n,8M,83\n").map_err(at("sfdisk"))?;
    }
    let status = child.wait().map_err(at("sfdisk"))?;
    if status.success() {
        Ok(Staged::new(device))
    } else {
        Err(KitError::Other("sfdisk".to_owned()))
    }
}

fn several_signatures() -> Result<Staged, KitError> {
    let staged = staged_by(32, "mkfs.ext4", &["-q", "-F"])?;
    put(&staged.device, &[(4086, b"SWAPSPACE2"), (-8192, &md_v1())])?;
    Ok(staged)
}

fn partitions_only_in_the_kernel() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    put(disk.path(), &[(0, &[0; 34 * 512]), (-(34 * 512), &[0; 34 * 512])])?;
    Ok(Staged::new(disk).with(guard))
}

fn signature_in_partition() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    let partition = disk.partition(1);
    FsKind::Ext4.make(&partition, &[])?;
    Ok(Staged::new(disk).with(guard).target(partition, PART_UUID))
}

fn second_loop(path: &Path, first: LoopDevice) -> Result<Staged, KitError> {
    let second = LoopDevice::over(path, &LoopOptions::default())?;
    Ok(Staged::new(first).with(second))
}

fn same_backing_file() -> Result<Staged, KitError> {
    let first = blank(16)?;
    let path = first.backing().to_owned();
    second_loop(&path, first)
}

fn same_backing_file_by_hard_link() -> Result<Staged, KitError> {
    let first = blank(16)?;
    let other = first.backing().with_file_name("other-name.img");
    fs::hard_link(first.backing(), &other).map_err(at(&other))?;
    second_loop(&other, first)
}

fn same_backing_file_by_bind_mount() -> Result<Staged, KitError> {
    let first = blank(16)?;
    let dir = first.backing().parent().unwrap_or(Path::new("/")).to_owned();
    let mount = fathom_testkit::Mount::new("none", &dir, "bind")?;
    let name = first.backing().file_name().unwrap_or_default().to_owned();
    let second = LoopDevice::over(&mount.dir().join(name), &LoopOptions::default())?;
    Ok(Staged::new(first).with(mount).with(second))
}

fn another_part_of_the_same_file() -> Result<Staged, KitError> {
    let options = LoopOptions { size_limit_bytes: Some(8 * MIB), ..LoopOptions::default() };
    let first = LoopDevice::with(16 * MIB, Content::Sparse, &options)?;
    let options = LoopOptions { offset_bytes: 8 * MIB, ..LoopOptions::default() };
    let second = LoopDevice::over(first.backing(), &options)?;
    Ok(Staged::new(first).with(second))
}

fn loop_over_a_device() -> Result<Staged, KitError> {
    let below = blank(16)?;
    let above = LoopDevice::over(below.path(), &LoopOptions::default())?;
    let (device, id) = (above.path().to_owned(), below.path().display().to_string());
    Ok(Staged::new(below).with(above).target(device, &id))
}

fn loop_on_top() -> Result<Staged, KitError> {
    let below = blank(16)?;
    let above = LoopDevice::over(below.path(), &LoopOptions::default())?;
    Ok(Staged::new(below).with(above))
}

fn loop_on_a_partition() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    let above = LoopDevice::over(&disk.partition(2), &LoopOptions::default())?;
    Ok(Staged::new(disk).with(guard).with(above))
}

fn boot_partition() -> Result<Staged, KitError> {
    let (disk, guard) = gpt_with("--typecode=1:EF02")?;
    let partition = disk.partition(1);
    Ok(Staged::new(disk).with(guard).target(partition, PART_UUID))
}

fn zram_swap() -> Result<Staged, KitError> {
    let zram = Zram::new(16 * MIB)?;
    let path = zram.path().to_owned();
    let id = zram_id(&zram)?;
    let staged =
        Staged { device: path.clone(), id, witness: path.clone(), props: vec![Box::new(zram)] };
    swap_on(staged, &path)
}

/// `NAME:SIZE:DISKSEQ`.
///
/// # Errors
/// Those of reading sysfs.
pub fn zram_id(zram: &Zram) -> Result<String, KitError> {
    let file = PathBuf::from(format!("/sys/block/{}/diskseq", zram.name()));
    let sequence = fs::read_to_string(&file).map_err(at(&file))?;
    Ok(format!("{}:{}:{}", zram.name(), 16 * MIB, sequence.trim()))
}

/// A blank device for the control: the same attempt must succeed there.
///
/// # Errors
/// Those of the tools.
pub fn blank_device() -> Result<Staged, KitError> {
    blank(16).map(Staged::new)
}

/// A blank partition beside another one with a mounted file system.
///
/// # Errors
/// Those of the tools.
pub fn blank_partition() -> Result<Staged, KitError> {
    let (disk, guard) = gpt()?;
    let (target, neighbour) = (disk.partition(1), disk.partition(2));
    FsKind::Ext4.make(&neighbour, &[])?;
    let mut staged = Staged::new(disk).with(guard).target(target.clone(), PART_UUID);
    staged.witness = target;
    mount_frozen(staged, &neighbour)
}

/// A blank zram device.
///
/// # Errors
/// Those of the kernel.
pub fn blank_zram() -> Result<Staged, KitError> {
    let zram = Zram::new(16 * MIB)?;
    let (path, id) = (zram.path().to_owned(), zram_id(&zram)?);
    Ok(Staged { device: path.clone(), id, witness: path, props: vec![Box::new(zram)] })
}

const LOOP: &[Capability] = &[Capability::LoopDevices];
const GPT: &[Capability] =
    &[Capability::LoopDevices, Capability::Tool("sgdisk"), Capability::Tool("partx")];
const EXT4: &[Capability] = &[Capability::FsOnLoop(FsKind::Ext4)];
const BTRFS: &[Capability] = &[Capability::FsOnLoop(FsKind::Btrfs)];

type Build = fn() -> Result<Staged, KitError>;

fn in_use(
    name: &'static str,
    needs: &[&[Capability]],
    refusal: &'static str,
    says: &'static str,
    build: Build,
) -> Scenario {
    Scenario { name, needs: needs.concat(), refusal, says, build, is_cured_by_wipefs: false }
}

fn signature(
    name: &'static str,
    needs: &[Capability],
    says: &'static str,
    build: Build,
) -> Scenario {
    let needs = [LOOP, needs].concat();
    Scenario { name, needs, refusal: "Signature", says, build, is_cured_by_wipefs: true }
}

/// All situations in which a device must be refused although its owner consented.
#[must_use]
pub fn all() -> Vec<Scenario> {
    let mut all = used();
    all.extend(signed());
    all.extend(backed());
    all
}

fn used() -> Vec<Scenario> {
    let namespaces = &[Capability::MountNamespaces][..];
    let swap = &[Capability::Swap, Capability::LoopDevices][..];
    let zram = &[Capability::Swap, Capability::Zram][..];
    vec![
        in_use("mounted", &[EXT4], "Mounted", "umount", mounted),
        in_use(
            "its-partition-mounted",
            &[EXT4, GPT],
            "Mounted",
            "p2 is mounted",
            disk_of_mounted_partition,
        ),
        in_use("mounted-partition", &[EXT4, GPT], "Mounted", "p1 is mounted", mounted_partition),
        in_use(
            "mounted-in-another-namespace",
            &[EXT4, namespaces],
            "Mounted",
            "namespace",
            mounted_elsewhere,
        ),
        in_use("member-of-mounted-btrfs", &[BTRFS], "Mounted", "umount", mounted_btrfs_member),
        in_use("swap-in-use", &[swap], "Swap", "swapoff", swap_in_use),
        in_use("its-partition-swap", &[swap, GPT], "Swap", "swapoff", disk_of_swap_partition),
        in_use("swap-on-zram", &[zram], "Swap", "swapoff", zram_swap),
        in_use("held-exclusively", &[LOOP], "Busy", "exclusively", held_exclusively),
        in_use(
            "its-partition-held-exclusively",
            &[GPT],
            "Busy",
            "exclusively",
            partition_held_exclusively,
        ),
        in_use("open-elsewhere", &[LOOP], "OpenElsewhere", "sleep (process", open_elsewhere),
        in_use("attached-read-only", &[LOOP], "ReadOnly", "read-only", attached_read_only),
        in_use("set-read-only", &[LOOP], "ReadOnly", "blockdev --setrw", set_read_only),
        in_use("boot-partition", &[GPT], "BootPartition", "boot partition", boot_partition),
        in_use(
            "partitions-only-in-kernel",
            &[GPT],
            "KernelPartitions",
            "partx -d",
            partitions_only_in_the_kernel,
        ),
    ]
}

fn backed() -> Vec<Scenario> {
    vec![
        in_use("same-backing-file", &[LOOP], "SameBackingFile", "losetup -d", same_backing_file),
        in_use(
            "same-file-by-hard-link",
            &[LOOP],
            "SameBackingFile",
            "losetup -d",
            same_backing_file_by_hard_link,
        ),
        in_use(
            "same-file-by-bind-mount",
            &[LOOP],
            "SameBackingFile",
            "losetup -d",
            same_backing_file_by_bind_mount,
        ),
        in_use(
            "another-part-of-same-file",
            &[LOOP],
            "SameBackingFile",
            "losetup -d",
            another_part_of_the_same_file,
        ),
        in_use(
            "backing-file-open-elsewhere",
            &[LOOP],
            "BackingOpen",
            "sleep (process",
            backing_open_elsewhere,
        ),
        in_use(
            "loop-over-a-device",
            &[LOOP],
            "LoopOverDevice",
            "give that one",
            loop_over_a_device,
        ),
        in_use("loop-on-top", &[LOOP], "LoopOnTop", "losetup -d", loop_on_top),
        in_use("loop-on-its-partition", &[GPT], "LoopOnTop", "losetup -d", loop_on_a_partition),
    ]
}

fn signed() -> Vec<Scenario> {
    let mkfs = |kind| [Capability::Mkfs(kind)];
    let tool = |name| [Capability::Tool(name)];
    let mut all = vec![
        signature("ext4", &mkfs(FsKind::Ext4), "ext4", || {
            staged_by(32, "mkfs.ext4", &["-q", "-F"])
        }),
        signature("ext2", &mkfs(FsKind::Ext4), "ext2", || {
            staged_by(16, "mkfs.ext4", &["-q", "-F", "-O", "none", "-t", "ext2"])
        }),
        signature("ext-journal", &mkfs(FsKind::Ext4), "ext journal", || {
            staged_by(16, "mkfs.ext4", &["-q", "-F", "-O", "journal_dev"])
        }),
        signature("xfs", &mkfs(FsKind::Xfs), "xfs", || {
            staged_by(320, "mkfs.xfs", &["-q", "-L", "data"])
        }),
        signature("btrfs", &mkfs(FsKind::Btrfs), "btrfs", || staged_by(128, "mkfs.btrfs", &["-q"])),
        signature("second-btrfs-device", &mkfs(FsKind::Btrfs), "btrfs", second_btrfs_device),
        signature("f2fs", &tool("mkfs.f2fs"), "f2fs", || staged_by(64, "mkfs.f2fs", &["-q"])),
        signature("fat16", &tool("mkfs.vfat"), "fat", || staged_by(32, "mkfs.vfat", &["-F", "16"])),
        signature("fat32", &tool("mkfs.vfat"), "fat", || staged_by(64, "mkfs.vfat", &["-F", "32"])),
        signature("minix", &tool("mkfs.minix"), "minix", || staged_by(16, "mkfs.minix", &[])),
        signature("minix3", &tool("mkfs.minix"), "minix", || staged_by(16, "mkfs.minix", &["-3"])),
        signature("swap-signature", &tool("mkswap"), "swap", || {
            staged_by(16, "mkswap", &["--quiet"])
        }),
        signature("swap-of-64k-pages", &tool("mkswap"), "swap", || {
            staged_by(16, "mkswap", &["--quiet", "--pagesize", "65536"])
        }),
        signature("lvm", &tool("pvcreate"), "LVM2 PV", lvm),
        signature("luks1", &tool("cryptsetup"), "LUKS1", || luks("luks1")),
        signature("luks2", &tool("cryptsetup"), "LUKS2", || luks("luks2")),
        signature("luks2-secondary-only", &tool("cryptsetup"), "secondary", luks2_secondary_only),
        signature("bcache-backing", &tool("make-bcache"), "bcache", || {
            staged_by(16, "make-bcache", &["-B"])
        }),
        signature("bcache-cache", &tool("make-bcache"), "bcache", || {
            staged_by(64, "make-bcache", &["-C"])
        }),
        signature("md-0.90", &[], "md 0.90", md_v090),
        signature("md-1.0", &[], "md 1.0", || staged_bytes(&[(-8192, &md_v1())])),
        signature("md-1.1", &[], "md 1.1", || staged_bytes(&[(0, &md_v1())])),
        signature("md-1.2", &[], "md 1.2", || staged_bytes(&[(4096, &md_v1())])),
        signature("zfs-uberblock", &[], "ZFS", zfs_uberblock),
        signature("zfs-last-label-only", &[], "ZFS", zfs_last_label_only),
        signature("zfs-config-only", &[], "zpool labelclear", zfs_config_only),
        signature("gpt", &tool("sgdisk"), "GPT", gpt_without_kernel_partitions),
        signature("gpt-of-4k-sectors", &tool("sgdisk"), "GPT", gpt_of_large_sectors),
        signature("backup-gpt-only", &tool("sgdisk"), "GPT (backup only)", backup_gpt_only),
        signature("mbr", &tool("sfdisk"), "MBR", mbr),
        signature("empty-mbr", &[], "MBR (no partitions)", || staged_bytes(&[(510, b"\x55\xaa")])),
        signature("several-signatures", &mkfs(FsKind::Ext4), "\"host:10\"", several_signatures),
        signature(
            "file-system-in-partition",
            &[GPT, EXT4].concat(),
            "ext4",
            signature_in_partition,
        ),
    ];
    for scenario in &mut all {
        // Bytes that hold no whole superblock or label, which wipefs rightly does not know.
        let is_partial = ["md-", "zfs-", "several"].iter().any(|p| scenario.name.starts_with(p));
        // Its second superblock is left by wipefs; the refusal then says how to go on.
        let is_partial = is_partial || scenario.name == "f2fs";
        scenario.is_cured_by_wipefs &= !is_partial;
    }
    all
}
