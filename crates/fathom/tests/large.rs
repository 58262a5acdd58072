//! A machine with ten thousand block devices: how long a look, its judgement and all that is shown of it take, and how much
//! memory.
//!
//! A test program of its own, since memory is counted for a whole process.

#![expect(unsafe_code, reason = "a global allocator cannot be written without")]
#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

use fathom_check::anonymise::anonymise;
use fathom_inspect::scan;
use fathom_model::snapshot::{Machine, Snapshot};
use fathom_model::stack::detail::{Content, Detail, MdSuperblock};
use fathom_model::stack::{
    DmFacts, DriveFacts, FsFacts, MdFacts, MdMember, MountFacts, Node, NodeKind, QueueFacts,
};
use fathom_model::system::{LvmConfiguration, MultipathConfiguration};
use fathom_report::check::{findings, metrics, table, tree_text};
use fathom_sys::threads::process_cpu;
use fathom_testkit::Tree;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What an optimised build shall take on two processors that have nothing else to do: a look, its judgement, tree and JSON.
const GOAL: Duration = Duration::from_secs(1);
/// No step holds more, whatever the build; with the program itself and what the allocator keeps that is less than 200 MiB.
const MEMORY_BYTES_MAX: u64 = 150 << 20;
/// This runs unoptimised and beside other tests: it ends what never would. What holds is the work below, which is the same however
/// busy a machine is.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Files that may be read for each device on average: half of them have a queue, of which some forty attributes say something.
const READS_OF_A_DEVICE: u64 = 25;
/// Pieces of memory that a step may ask for, for each device on average.
const ALLOCATIONS_OF_A_DEVICE: [(&str, u64); 7] = [
    ("look", 170),
    ("judge", 60),
    ("OpenMetrics", 30),
    ("table", 180),
    ("findings", 25),
    ("anonymise", 700),
    ("tree", 50),
];
/// How many times the work may grow with four times the devices: sixteen times is what a rule would take that holds each against
/// each other.
const GROWTH_MAX: f64 = 8.0;
/// Rounds in which it may be shown that the work grows by less.
const GROWTH_ROUNDS: usize = 20;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);
static PEAK_BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let size_bytes = layout.size() as u64;
        let live_bytes = LIVE_BYTES.fetch_add(size_bytes, Ordering::Relaxed) + size_bytes;
        PEAK_BYTES.fetch_max(live_bytes, Ordering::Relaxed);
        // SAFETY: the caller's obligations are those of the system allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        let (old, new) = (layout.size() as u64, new_size as u64);
        let live_bytes = LIVE_BYTES.fetch_add(new, Ordering::Relaxed) + new - old;
        LIVE_BYTES.fetch_sub(old, Ordering::Relaxed);
        PEAK_BYTES.fetch_max(live_bytes, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a step cost.
struct Cost {
    name: &'static str,
    took: Duration,
    worked_ns: u64,
    allocations: u64,
    /// The most memory that was held during it beyond what was held before any of the steps.
    peak_bytes: u64,
}

/// Steps one after the other; `before_bytes` were held before the first.
struct Steps {
    before_bytes: u64,
    done: Vec<Cost>,
}

impl Steps {
    fn step<R>(&mut self, name: &'static str, work: impl FnOnce() -> R) -> R {
        PEAK_BYTES.store(LIVE_BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed);
        let (start, worked) = (Instant::now(), process_cpu());
        let result = work();
        let (took, worked) = (start.elapsed(), process_cpu().since(worked));
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        let peak_bytes = PEAK_BYTES.load(Ordering::Relaxed) - self.before_bytes;
        let worked_ns = worked.user_ns + worked.system_ns;
        println!(
            "{name:12} {:7.1} ms, {:4} ms of processors, {allocations:8} allocations, {:4} MiB",
            took.as_secs_f64() * 1e3,
            worked_ns / 1_000_000,
            peak_bytes >> 20
        );
        self.done.push(Cost { name, took, worked_ns, allocations, peak_bytes });
        result
    }
}

const ARRAYS: usize = 250;
const DISKS_OF_AN_ARRAY: usize = 10;
const PARTITIONS: usize = 2;
const VOLUMES_ON_AN_ARRAY: usize = 9;

/// 250 arrays of ten disks with two partitions each, nine logical volumes on each array, a filesystem on each volume.
///
/// Making a million files would take longer than the look at them. So all disks share their queue attributes, through
/// links to one directory: to the reader that is the same number of opened files.
fn machine() -> (Tree, usize) {
    let tree = Tree::new();
    shared_queue(&tree);
    let mut mounts = "20 1 0:20 / / rw - tmpfs tmpfs rw\n".to_owned();
    for array in 0..ARRAYS {
        let md = format!("sys/devices/virtual/block/md{array}");
        tree.put(format!("{md}/dev"), format!("9:{array}\n")).put(format!("{md}/size"), "800000\n");
        whole_device(&tree, &md, "../../../../../queue");
        for (name, text) in [("level", "raid10"), ("layout", "258"), ("chunk_size", "65536")] {
            tree.put(format!("{md}/md/{name}"), text);
        }
        for disk in 0..DISKS_OF_AN_ARRAY {
            let name = disk_with_partitions(&tree, array * DISKS_OF_AN_ARRAY + disk);
            tree.link(format!("{md}/slaves/{name}1"), format!("../../{name}1"));
            tree.put(format!("{md}/md/dev-{name}1/state"), "in_sync\n");
        }
        for volume in 0..VOLUMES_ON_AN_ARRAY {
            let minor = array * VOLUMES_ON_AN_ARRAY + volume;
            logical_volume(&tree, array, minor);
            let id = minor + 30;
            mounts += &format!("{id} 20 253:{minor} / /srv/{minor} rw - xfs /dev/dm-{minor} rw\n");
        }
    }
    tree.put("proc/self/mountinfo", mounts);
    (tree, ARRAYS * (1 + DISKS_OF_AN_ARRAY * (1 + PARTITIONS) + VOLUMES_ON_AN_ARRAY))
}

fn shared_queue(tree: &Tree) {
    let names = std::fs::read_dir("/sys/block").unwrap().flatten().next().unwrap().path();
    // As many attributes as this machine's kernel has.
    for entry in std::fs::read_dir(names.join("queue")).unwrap().flatten() {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            tree.put(format!("queue/{}", entry.file_name().to_string_lossy()), text);
        }
    }
}

/// What every block device has.
fn device(tree: &Tree, dir: &str, uevent: &str) {
    for (name, text) in [("ro", "0\n"), ("alignment_offset", "0\n"), ("uevent", uevent)] {
        tree.put(format!("{dir}/{name}"), text);
    }
}

/// What it has unless it is a partition; the place of its queue is relative to it.
fn whole_device(tree: &Tree, dir: &str, queue: &str) {
    device(tree, dir, "DEVTYPE=disk\n");
    tree.put(format!("{dir}/stat"), "0 0 0 0 0 0 0 0 0 0 0").put(format!("{dir}/inflight"), "0 0");
    tree.link(format!("{dir}/queue"), queue);
}

fn disk_with_partitions(tree: &Tree, index: usize) -> String {
    let name = format!("sd{}", letters(index));
    let scsi = format!(
        "sys/devices/pci0000:00/0000:00:1f.2/host{}/target0:0:{index}/0:0:{index}:0",
        index % 16
    );
    for (attribute, text) in [("vendor", "X"), ("model", "Y"), ("state", "running"), ("type", "0")]
    {
        tree.put(format!("{scsi}/{attribute}"), text);
    }
    // As every disk of SCSI has it: whoever asks need not look further up.
    tree.put(format!("{scsi}/power/runtime_status"), "active");
    tree.link(format!("{scsi}/subsystem"), "../../../../../../bus/scsi");
    let dir = format!("{scsi}/block/{name}");
    // No number that arrays or volumes have.
    let major = 1000 + index / 16;
    tree.put(format!("{dir}/dev"), format!("{major}:{}\n", index % 16 * 16));
    tree.put(format!("{dir}/size"), "2000000\n");
    tree.link(format!("{dir}/device"), format!("../../../0:0:{index}:0"));
    whole_device(tree, &dir, "../../../../../../../../../queue");
    tree.link(format!("dev/disk/by-id/wwn-{index}"), format!("../../{name}"));
    for number in 1..=PARTITIONS {
        let part = format!("{dir}/{name}{number}");
        tree.put(format!("{part}/dev"), format!("{major}:{}\n", index % 16 * 16 + number));
        tree.put(format!("{part}/partition"), number.to_string());
        device(tree, &part, &format!("DEVTYPE=partition\nPARTN={number}\nPARTUUID=0b1c\n"));
        tree.put(format!("{part}/size"), "900000\n").put(format!("{part}/start"), "2048\n");
    }
    name
}

fn logical_volume(tree: &Tree, array: usize, minor: usize) {
    let dir = format!("sys/devices/virtual/block/dm-{minor}");
    tree.put(format!("{dir}/dev"), format!("253:{minor}\n")).put(format!("{dir}/size"), "80000\n");
    tree.put(format!("{dir}/dm/name"), format!("vg-{minor}"))
        .put(format!("{dir}/dm/uuid"), "LVM-x");
    tree.link(format!("{dir}/slaves/md{array}"), format!("../../md{array}"));
    whole_device(tree, &dir, "../../../../../queue");
    tree.put(format!("dm/dm-{minor}.table"), format!("0 80000 linear 9:{array} 2048\n"));
}

/// `a` to `z`, `aa` and on.
fn letters(mut index: usize) -> String {
    let mut name = String::new();
    loop {
        name.insert(0, char::from(b'a' + (index % 26) as u8));
        if index < 26 {
            return name;
        }
        index = index / 26 - 1;
    }
}

/// How often this process has read a file: the same for the same machine and kernel, however busy it is.
fn reads() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

/// A host on a storage network: so many drives with four paths each, a map on the paths and a volume on the map.
fn on_a_network(drives: usize) -> Snapshot {
    let mut nodes = Vec::new();
    for drive in 0..drives {
        let first = nodes.len();
        for path in first..first + 4 {
            let mut node = block(NodeKind::Disk, &format!("sd{}", letters(path)), path);
            node.drive = Some(DriveFacts {
                wwn: Some(format!("naa.6{drive:015x}")),
                serial: Some(drive.to_string()),
                transport: Some("fc".into()),
                state: Some("running".into()),
                ..DriveFacts::default()
            });
            nodes.push(node);
        }
        let numbers: Vec<String> = (first..first + 4).map(|path| format!("1:{path} 1")).collect();
        let paths = numbers.join(" ");
        for (number, below, kind) in [
            (
                2 * drive,
                (first..first + 4).collect(),
                format!("multipath 0 0 1 1 service-time 0 4 1 {paths}"),
            ),
            (2 * drive + 1, vec![first + 4], format!("linear 1:{} 2048", first + 4)),
        ] {
            let mut node = block(NodeKind::Dm, &format!("dm-{number}"), nodes.len());
            let target = kind.split(' ').next().unwrap_or_default().to_owned();
            let (name, uuid) = (Some(format!("x{number}")), Some("LVM-x".into()));
            let table = vec![format!("0 80000 {kind}")];
            node.dm =
                Some(DmFacts { name, uuid, targets: vec![target], table, ..DmFacts::default() });
            node.below = below;
            nodes.push(node);
        }
    }
    let tops = (0..nodes.len()).filter(|index| index % 6 == 5).collect();
    let machine = Machine { nodes, tops };
    let mut snapshot = Snapshot { machine, ..Snapshot::default() };
    snapshot.system.configuration.multipath = Some(MultipathConfiguration::default());
    snapshot.system.configuration.lvm = Some(LvmConfiguration::default());
    snapshot
}

/// One volume group on eight drives, with so many volumes, each with a filesystem that is mounted.
fn in_one_group(volumes: usize) -> Snapshot {
    let mut nodes: Vec<Node> =
        (0..8).map(|disk| block(NodeKind::Disk, &format!("sd{}", letters(disk)), disk)).collect();
    for volume in 0..volumes {
        let index = nodes.len();
        let mut node = block(NodeKind::Dm, &format!("dm-{volume}"), index);
        let (name, uuid) = (Some(format!("vg-{volume}")), Some("LVM-x".into()));
        let table = vec![format!("0 80000 linear 1:{} {}", volume % 8, volume * 80_000)];
        let targets = vec!["linear".to_owned()];
        node.dm = Some(DmFacts { name, uuid, targets, table, ..DmFacts::default() });
        node.below = vec![volume % 8];
        nodes.push(node);
        let mut fs = Node::new(NodeKind::FileSystem, "xfs");
        fs.fs = Some(FsFacts {
            fs_type: "xfs".into(),
            uuid: Some(volume.to_string()),
            ..FsFacts::default()
        });
        fs.below = vec![index];
        nodes.push(fs);
        let point = format!("/srv/{volume}");
        let mut mount = Node::new(NodeKind::Mount, point.clone());
        mount.mount =
            Some(MountFacts { mount_point: point, fs_type: "xfs".into(), ..MountFacts::default() });
        mount.below = vec![index + 1];
        nodes.push(mount);
    }
    let tops = (0..volumes).map(|volume| 8 + 3 * volume + 2).collect();
    Snapshot { machine: Machine { nodes, tops }, ..Snapshot::default() }
}

/// So many mirrors of two disks, each with its superblock.
fn mirrors(arrays: usize) -> Snapshot {
    let mut nodes = Vec::new();
    for array in 0..arrays {
        let first = nodes.len();
        let uuid = format!("{array:08x}:0:0:0");
        let names = [first, first + 1].map(|disk| format!("sd{}", letters(disk)));
        for (role, name) in names.iter().enumerate() {
            let mut node = block(NodeKind::Disk, name, nodes.len());
            let md = Some(MdSuperblock {
                version: "1.2".into(),
                array_uuid: Some(uuid.clone()),
                device_uuid: Some(format!("{array:08x}:{role}:0:0")),
                level: Some(1),
                raid_disks: Some(2),
                events: Some(7),
                role: Some(role.to_string()),
                ..MdSuperblock::default()
            });
            let content = Some(Content { md, ..Content::default() });
            node.detail = Some(Box::new(Detail { content, ..Detail::default() }));
            nodes.push(node);
        }
        let mut node = block(NodeKind::Md, &format!("md{array}"), nodes.len());
        let member = |name: &String| MdMember { name: name.clone(), ..MdMember::default() };
        node.md = Some(MdFacts {
            level: Some("raid1".into()),
            uuid: Some(uuid),
            degraded: Some(0),
            members: names.iter().map(member).collect(),
            ..MdFacts::default()
        });
        node.below = vec![first, first + 1];
        nodes.push(node);
    }
    let tops = (0..arrays).map(|array| 3 * array + 2).collect();
    Snapshot { machine: Machine { nodes, tops }, ..Snapshot::default() }
}

fn block(kind: NodeKind, name: &str, minor: usize) -> Node {
    let mut node = Node::new(kind, name);
    node.path = Some(format!("/dev/{name}"));
    node.devno = Some(format!("1:{minor}"));
    node.size_bytes = Some(80_000 * 512);
    node.alignment_offset_bytes = Some(0);
    node.queue = Some(QueueFacts {
        logical_block_bytes: Some(512),
        physical_block_bytes: Some(4096),
        rotational: Some(false),
        max_sectors_kib: Some(512),
        max_hw_sectors_kib: Some(4096),
        ..QueueFacts::default()
    });
    node
}

/// How many times the work of rules and tables grows with four times the devices, at the best of as many rounds as show it: what
/// others take of the processors and their caches only ever adds, and what grows too fast does so in every round.
fn growth(make: fn(usize) -> Snapshot, few: usize) -> f64 {
    let snapshots = [make(few), make(4 * few)];
    let mut best_ns = [u64::MAX; 2];
    let mut growth = f64::INFINITY;
    for _ in 0..GROWTH_ROUNDS {
        for (snapshot, best_ns) in snapshots.iter().zip(&mut best_ns) {
            let worked = process_cpu();
            let defects = fathom_check::check(snapshot);
            let text = metrics::metrics_text(snapshot, &defects);
            assert!(text.ends_with("# EOF\n"));
            let worked = process_cpu().since(worked);
            *best_ns = (*best_ns).min(worked.user_ns + worked.system_ns);
        }
        growth = best_ns[1] as f64 / best_ns[0].max(1) as f64;
        if growth < GROWTH_MAX {
            break;
        }
    }
    growth
}

#[test]
fn ten_thousand_devices() {
    let (tree, devices) = machine();
    assert_eq!(devices, 10_000);
    let before_bytes = LIVE_BYTES.load(Ordering::Relaxed);
    let mut steps = Steps { before_bytes, done: Vec::new() };
    let read = reads();
    let scan = steps.step("look", || scan(&tree.root(), &[]).unwrap());
    let read = reads().zip(read).map(|(after, before)| after - before);
    let snapshot = Snapshot { machine: scan.machine, ..Snapshot::default() };
    let defects = steps.step("judge", || fathom_check::check(&snapshot));
    let json = steps.step("JSON", || serde_json::to_vec_pretty(&snapshot).unwrap()).len();
    let metrics = steps.step("OpenMetrics", || metrics::metrics_text(&snapshot, &defects));
    let table = steps.step("table", || table::table_text(&snapshot.machine, usize::MAX));
    let findings = steps.step("findings", || findings::findings_text(&defects, true, 100));
    assert!(metrics.ends_with("# EOF\n") && !findings.is_empty());
    assert_eq!(table.lines().filter(|line| line.starts_with("sd")).count(), 7500);
    drop((metrics, table, findings));
    let machine = &snapshot.machine;
    let count = |kind| machine.nodes.iter().filter(|node| node.kind == kind).count();
    assert_eq!(count(NodeKind::Disk), ARRAYS * DISKS_OF_AN_ARRAY);
    assert_eq!(count(NodeKind::Dm), ARRAYS * VOLUMES_ON_AN_ARRAY);
    assert_eq!(count(NodeKind::Mount), ARRAYS * VOLUMES_ON_AN_ARRAY + 1);
    assert_eq!(machine.disks_under(machine.by_key()["/srv/17"]).len(), DISKS_OF_AN_ARRAY);
    assert!(!defects.is_empty());
    let snapshot = steps.step("anonymise", || anonymise(snapshot, 7));
    let text = steps.step("tree", || tree_text(snapshot, &defects));
    // Every node once, and once more where others stand on it as well.
    assert!(text.lines().count() > 14_000, "{} lines", text.lines().count());
    hold(&steps.done, devices as u64, read, json);
    // Tests of this program count for the whole process: one after the other.
    for (what, growth) in [
        ("maps", growth(on_a_network, 400)),
        ("volumes of a group", growth(in_one_group, 800)),
        ("mirrors", growth(mirrors, 400)),
    ] {
        println!("four times the {what}: {growth:.1} times the work");
        assert!(growth < GROWTH_MAX, "{what}: {growth:.1}");
    }
}

/// Holds what was done against what may be.
fn hold(done: &[Cost], devices: u64, read: Option<u64>, json: usize) {
    let shown: Vec<&Cost> =
        done.iter().filter(|cost| ["look", "judge", "JSON", "tree"].contains(&cost.name)).collect();
    let took: Duration = shown.iter().map(|cost| cost.took).sum();
    let worked_ns: u64 = shown.iter().map(|cost| cost.worked_ns).sum();
    println!(
        "{devices} devices: {read:?} reads, JSON of {} MiB; look, judgement, tree and JSON {took:?} ({} ms of processors), goal {GOAL:?}",
        json >> 20,
        worked_ns / 1_000_000
    );
    assert!(took < TIME_MAX, "{took:?}");
    for cost in done {
        assert!(cost.peak_bytes < MEMORY_BYTES_MAX, "{}: {} bytes", cost.name, cost.peak_bytes);
        let allowed = ALLOCATIONS_OF_A_DEVICE.iter().find(|(name, _)| *name == cost.name);
        if let Some((name, allowed)) = allowed {
            assert!(cost.allocations < allowed * devices, "{name}: {}", cost.allocations);
        }
    }
    assert!(read.is_none_or(|read| read < READS_OF_A_DEVICE * devices), "{read:?} reads");
}
