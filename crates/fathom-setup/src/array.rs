//! Software arrays, and the states in which they are measured.

use crate::capacity::{self, ArrayShape, Copies};
use crate::error::SetupError;
use crate::known;
use crate::site::{Device, Site, device_of};
use crate::tools::Call;
use fathom_base::units::parse_size;
use fathom_check::array::{Striping, kib_words};
use fathom_inspect::identity;
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::{ArraySpec, ArrayState};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// mdadm's own since 3.1; given always, so that it does not depend on the version.
const CHUNK_BYTES_DEFAULT: u64 = 512 << 10;
/// Given always, too.
const METADATA_DEFAULT: &str = "1.2";
/// Numbers of our arrays: above those that are taken by udev (127 downward) and by custom (0 upward).
const NUMBERS: std::ops::Range<u32> = 200..500;

/// An array that was built.
#[derive(Debug, Clone)]
pub(crate) struct Array {
    pub device: Device,
    pub members: Vec<Device>,
    pub spec: ArraySpec,
}

/// What the description comes to.
struct Shape {
    members: Vec<usize>,
    spares: Vec<usize>,
    chunk_bytes: Option<u64>,
    layout: Option<String>,
    data_offset_bytes: Option<u64>,
    copies: Copies,
}

impl Shape {
    fn for_capacity<'a>(&self, spec: &'a ArraySpec) -> ArrayShape<'a> {
        ArrayShape {
            level: &spec.level,
            members: self.members.len(),
            chunk_bytes: self.chunk_bytes,
            data_offset_bytes: self.data_offset_bytes,
            metadata: spec.metadata.as_deref().unwrap_or(METADATA_DEFAULT),
            copies: self.copies,
        }
    }
}

fn shape(spec: &ArraySpec, devices: usize) -> Result<Shape, SetupError> {
    let wrong = |text: String| Err(SetupError::Spec(format!("array: {text}")));
    let spares = spec.spares as usize;
    let count = spec.members.map_or(devices.saturating_sub(spares), |members| members as usize);
    let least = match spec.level.as_str() {
        "raid0" | "raid1" | "raid10" => 2,
        "raid4" | "raid5" => 3,
        "raid6" => 4,
        other => return wrong(format!("level '{other}' is none of raid0, 1, 4, 5, 6, 10")),
    };
    if count < least || count + spares > devices {
        return wrong(format!(
            "{} needs at least {least} members; {count} members and {spares} spares of {devices} devices",
            spec.level
        ));
    }
    let mut members: Vec<usize> = spec.order.iter().map(|place| *place as usize).collect();
    if members.is_empty() {
        members = (0..count).collect();
    }
    let is_once =
        |place: &usize| *place < devices && members.iter().filter(|m| *m == place).count() == 1;
    if members.len() != count || !members.iter().all(is_once) {
        return wrong(format!(
            "order must name {count} of the {devices} devices once each, from 0"
        ));
    }
    let rest = (0..devices).filter(|place| !members.contains(place));
    let spares: Vec<usize> = rest.take(spares).collect();
    let has_state = spec.state != ArrayState::Normal;
    if has_state && spec.level == "raid0" {
        return wrong("raid0 has no redundancy: it knows only the state normal".to_owned());
    }
    if spec.state == ArrayState::Degraded && !spares.is_empty() {
        return wrong("a spare would take the failed member's place at once: no spares".to_owned());
    }
    let chunk_bytes = match (&spec.chunk, spec.level.as_str()) {
        (None, "raid1") => None,
        (Some(_), "raid1") => return wrong("raid1 has no chunks".to_owned()),
        (None, _) => Some(CHUNK_BYTES_DEFAULT),
        (Some(text), _) => match parse_size(text) {
            Ok(bytes) if bytes >= 4096 && bytes.is_multiple_of(4096) => Some(bytes),
            Ok(_) => return wrong(format!("chunk {text}: a multiple of 4k")),
            Err(error) => return wrong(format!("chunk: {error}")),
        },
    };
    let copies = if spec.level == "raid10" { copies(spec)? } else { Copies::default() };
    let most = copies.near.max(copies.far);
    if most > count as u64 {
        return wrong(format!("{most} copies need {most} members"));
    }
    let layout = spec.layout.clone();
    let data_offset_bytes = match spec.data_offset_bytes() {
        Ok(bytes) => bytes,
        Err(error) => return wrong(format!("data_offset: {error}")),
    };
    Ok(Shape { members, spares, chunk_bytes, layout, data_offset_bytes, copies })
}

fn copies(spec: &ArraySpec) -> Result<Copies, SetupError> {
    let layout = spec.layout.as_deref().unwrap_or("n2");
    let copies = layout.strip_prefix(['n', 'f', 'o']).and_then(|copies| copies.parse().ok());
    let copies = copies.filter(|copies| *copies > 0).map(|copies| match layout.starts_with('n') {
        true => Copies { near: copies, far: 1 },
        false => Copies { near: 1, far: copies },
    });
    copies.ok_or_else(|| {
        SetupError::Spec(format!(
            "array: layout '{layout}' of raid10 is none of n2, f2, o2, n3, ..."
        ))
    })
}

/// How it deals its addresses out: known before it is there, so that filesystems can be planned.
pub(crate) fn striping(spec: &ArraySpec, devices: usize) -> Option<Striping> {
    let shape = shape(spec, devices).ok()?;
    let disks = shape.members.len() as u64;
    let chunk_bytes = shape.chunk_bytes?;
    let near_copies = shape.copies.near;
    let (data_disks, parity) = match spec.level.as_str() {
        "raid4" | "raid5" => (disks - 1, true),
        "raid6" => (disks - 2, true),
        "raid10" if disks.is_multiple_of(near_copies) => (disks / near_copies, false),
        _ => (disks, false),
    };
    let is_copy = data_disks == 1 && !parity;
    Some(Striping { chunk_bytes, data_disks, disks, near_copies, parity, is_copy })
}

/// Makes it, waits for the first synchronisation, and brings it into its state.
pub(crate) fn build(
    site: &mut Site<'_, '_>,
    spec: &ArraySpec,
    devices: &[Device],
) -> Result<Array, SetupError> {
    let shape = shape(spec, devices.len())?;
    let all: Vec<Device> = shape
        .members
        .iter()
        .chain(&shape.spares)
        .filter_map(|place| devices.get(*place))
        .cloned()
        .collect();
    has_room(&shape, &all)?;
    let sizes: Vec<u64> = all.iter().map(|device| device.size_bytes).collect();
    let of_sizes = shape.for_capacity(spec);
    site.outline
        .capacity
        .extend(capacity::lines(&all, &capacity::used_by_array(&of_sizes, &sizes)));
    let uuid = md_uuid(&site.uuid()?);
    let name = free_name(site.root);
    let call = create(site, spec, &shape, &name, &uuid, &all);
    let change = SetupChange::Array {
        name: name.clone(),
        uuid: uuid.clone(),
        members: all.iter().map(Device::built_on).collect(),
    };
    site.known.add(&uuid);
    let held: Vec<&Device> = all.iter().collect();
    let old = site.make_new(&name, change, &held, &call)?;
    if spec.is_assumed_clean {
        site.remark(format!("{} was assumed clean: no first synchronisation", spec.level));
    }
    if site.is_dry() {
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        let size = capacity::of_array(&of_sizes, &sizes);
        let below = all.first().cloned();
        let below = below.ok_or_else(|| SetupError::Spec("array: no devices".to_owned()))?;
        let device = site.imagined(&format!("/dev/{name}"), size, &below);
        if has_first_sync(spec) {
            site.outline.sync_ns = Some(sync_ns(site.root, &all, smallest));
            site.outline.written_bytes += smallest * spec_written(spec);
            site.commands.push(format!("# wait until /sys/block/{name}/md/sync_action says idle"));
        }
        let array = Array { device, members: all, spec: spec.clone() };
        bring_into_state(site, &array)?;
        return Ok(array);
    }
    let device = verify(site, &name, &uuid, &all)?;
    let array = Array { device, members: all, spec: spec.clone() };
    // Held from the first moment on: nobody can put anything on it while it is synchronised for hours.
    site.hold_new(&array.device, Some(old))?;
    check_data_offset(site, &shape, &array)?;
    if has_first_sync(spec) {
        wait_for_sync(site, &array, "first synchronisation")?;
    }
    bring_into_state(site, &array)?;
    // A member that was added again has been given an offset anew.
    check_data_offset(site, &shape, &array)?;
    if let Some(bytes) = shape.data_offset_bytes {
        site.facts.push(format!("data begin {} into each member", kib_words(bytes)));
    }
    Ok(array)
}

/// Data must begin on a block of every member, and well before its end: mdadm looks at neither.
fn has_room(shape: &Shape, all: &[Device]) -> Result<(), SetupError> {
    let Some(bytes) = shape.data_offset_bytes else { return Ok(()) };
    let wrong = |text: String| Err(SetupError::Spec(format!("array: data_offset {text}")));
    let offset = kib_words(bytes);
    for device in all {
        if !bytes.is_multiple_of(device.logical_block_bytes.max(1)) {
            let block = device.logical_block_bytes;
            let word = device.word();
            return wrong(format!("{offset}: a multiple of {block} bytes, the block of {word}"));
        }
        if device.size_bytes / 2 < bytes {
            return wrong(format!("{offset}: at most half of {}", device.word()));
        }
    }
    Ok(())
}

/// The data begin where they were asked to.
fn check_data_offset(site: &Site<'_, '_>, shape: &Shape, array: &Array) -> Result<(), SetupError> {
    let Some(bytes) = shape.data_offset_bytes else { return Ok(()) };
    let members: Vec<&str> = array.members.iter().map(|member| member.name.as_str()).collect();
    match other_offset(site.root, &array.device.name, &members, bytes) {
        Some(text) => Err(SetupError::NotAsAsked(text)),
        None => Ok(()),
    }
}

/// The first member whose data begin elsewhere, by what the kernel says; one that was removed has no data.
fn other_offset(root: &SysRoot, array: &str, members: &[&str], bytes: u64) -> Option<String> {
    const SECTOR_BYTES: u64 = 512;
    members.iter().find_map(|member| {
        let slot = format!("sys/block/{array}/md/dev-{member}");
        let sectors: Option<u64> = root.value(format!("{slot}/offset"));
        let is_as_asked = match sectors {
            Some(sectors) => sectors.checked_mul(SECTOR_BYTES) == Some(bytes),
            None => !root.exists(&slot),
        };
        let found = sectors.map_or_else(
            || "at an offset that the kernel does not tell".to_owned(),
            |sectors| format!("at sector {sectors} of it"),
        );
        (!is_as_asked).then(|| {
            format!(
                "data_offset {}: the data of {array} on {member} begin {found}, not at {}, where mdadm was asked to put them",
                kib_words(bytes),
                bytes / SECTOR_BYTES
            )
        })
    })
}

fn has_first_sync(spec: &ArraySpec) -> bool {
    !spec.is_assumed_clean && spec.level != "raid0"
}

/// Members that the first synchronisation writes.
fn spec_written(spec: &ArraySpec) -> u64 {
    if spec.level == "raid6" { 2 } else { 1 }
}

/// About, at what disks of their kind do: the first synchronisation reads and writes every member from end to end.
fn sync_ns(root: &SysRoot, members: &[Device], bytes: u64) -> u64 {
    let is_rotational = |device: &Device| {
        let disk = BlockDir::by_name(root, &device.name).and_then(|device| device.disk());
        disk.and_then(|disk| disk.flag("queue/rotational")).unwrap_or(false)
    };
    let bytes_per_s = if members.iter().any(is_rotational) { 120e6 } else { 400e6 };
    (bytes as f64 / bytes_per_s * 1e9) as u64
}

/// As mdadm writes it: four groups of eight.
fn md_uuid(uuid: &str) -> String {
    let digits: Vec<char> = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    if digits.len() != 32 {
        return uuid.to_owned();
    }
    digits.chunks(8).map(|group| group.iter().collect()).collect::<Vec<String>>().join(":")
}

fn free_name(root: &SysRoot) -> String {
    let is_free = |number: &u32| {
        !root.exists(format!("sys/block/md{number}")) && !root.exists(format!("dev/md{number}"))
    };
    let mut numbers = NUMBERS;
    let number = numbers.find(is_free).unwrap_or(NUMBERS.end);
    format!("md{number}")
}

fn create(
    site: &Site<'_, '_>,
    spec: &ArraySpec,
    shape: &Shape,
    name: &str,
    uuid: &str,
    all: &[Device],
) -> Call {
    let metadata = spec.metadata.as_deref().unwrap_or(METADATA_DEFAULT);
    let number = spec.level.trim_start_matches("raid");
    let mut call = Call::new("mdadm", ["--create", &format!("/dev/{name}")])
        .args(["--run", "--quiet", "--auto=md"])
        .arg(format!("--level={number}"))
        .arg(format!("--metadata={metadata}"))
        .arg(format!("--uuid={uuid}"));
    if metadata != "0.90" {
        // Without the machine's name: longer names have no room in the superblock.
        call = call.args(["--homehost=any".to_owned(), format!("--name=fathom-{}", site.id())]);
    }
    if let Some(bytes) = shape.chunk_bytes {
        call = call.arg(format!("--chunk={}", kib_words(bytes).to_uppercase()));
    }
    if let Some(bytes) = shape.data_offset_bytes {
        call = call.arg(format!("--data-offset={}", kib_words(bytes).to_uppercase()));
    }
    if let Some(layout) = &shape.layout {
        call = call.arg(format!("--layout={layout}"));
    }
    if spec.level != "raid0" {
        call = call.arg(format!("--bitmap={}", spec.bitmap.as_deref().unwrap_or("none")));
        if spec.is_assumed_clean {
            call = call.arg("--assume-clean");
        }
    }
    call = call.arg(format!("--raid-devices={}", shape.members.len()));
    if !shape.spares.is_empty() {
        call = call.arg(format!("--spare-devices={}", shape.spares.len()));
    }
    call.args(all.iter().map(Device::word))
}

/// The array that mdadm made is ours, of our members.
fn verify(
    site: &Site<'_, '_>,
    name: &str,
    uuid: &str,
    members: &[Device],
) -> Result<Device, SetupError> {
    let disk = site.wait_for(&format!("/dev/{name}"), |root| {
        let is_member = |devno| {
            let id = identity::device_id(root, devno);
            members.iter().any(|member| id.is_meant_by(&member.id))
        };
        let arrays = known::arrays(root, uuid, name, &is_member);
        let disk = arrays.into_iter().find(|disk| disk.name() == name)?;
        let is_there = root.exists(disk.dev_path().trim_start_matches('/'));
        (is_there && disk.size_bytes().is_some_and(|size| size > 0)).then_some(disk)
    })?;
    let holders = |member: &Device| {
        let device = BlockDir::by_name(site.root, &member.name);
        device.map(|device| device.holders()).unwrap_or_default()
    };
    for member in members {
        if !holders(member).iter().any(|holder| holder.name() == name) {
            let text = format!("{} is no member of {name}, which mdadm has just made", member.name);
            return Err(SetupError::NotAsAsked(text));
        }
    }
    let path = disk.dev_path().into();
    let below = members.first();
    let is_own_loop = below.is_some_and(|member| member.is_own_loop);
    Ok(Device { is_own_loop, ..device_of(site.root, &disk, path) })
}

/// Brings the array into the state in which it is to be measured, as far as it is not in it.
pub(crate) fn bring_into_state(site: &mut Site<'_, '_>, array: &Array) -> Result<(), SetupError> {
    match array.spec.state {
        ArrayState::Normal => Ok(()),
        ArrayState::Degraded => fail_member(site, array),
        ArrayState::Rebuilding => {
            if is_syncing(site.root, &array.device.name) {
                return Ok(());
            }
            fail_member(site, array)?;
            add_member(site, array)
        }
        ArrayState::Checking => {
            if is_syncing(site.root, &array.device.name) {
                return Ok(());
            }
            write_attribute(site, array, "sync_action", "check")
        }
    }
}

/// The last of the members proper.
fn victim(array: &Array) -> Option<&Device> {
    let spares = array.spec.spares as usize;
    array.members.get(array.members.len().saturating_sub(spares + 1))
}

fn fail_member(site: &mut Site<'_, '_>, array: &Array) -> Result<(), SetupError> {
    let Some(member) = victim(array).cloned() else { return Ok(()) };
    let slot = format!("sys/block/{}/md/dev-{}", array.device.name, member.name);
    if !site.is_dry() && !site.root.exists(&slot) {
        return Ok(());
    }
    let path = array.device.word();
    site.run(&Call::new("mdadm", [&path, "--fail", &member.word()]))?;
    // What was in flight must have ended before it can be removed.
    const TRIES: u32 = 50;
    let call = Call::new("mdadm", [&path, "--remove", &member.word()]);
    for attempt in 1..=TRIES {
        match site.attempt(&call)? {
            Some(ended) if !ended.is_success() && attempt == TRIES => {
                let said = ended.said();
                let cause = String::new();
                return Err(SetupError::Tool { command: call.line(), said, cause });
            }
            Some(ended) if !ended.is_success() => {
                site.commands.pop();
                thread::sleep(Duration::from_millis(100));
            }
            _ => break,
        }
    }
    if site.is_dry() {
        return Ok(());
    }
    site.wait_for(&format!("the removal of {}", member.name), |root| {
        (!root.exists(&slot)).then_some(())
    })?;
    site.hold(&member)
}

fn add_member(site: &mut Site<'_, '_>, array: &Array) -> Result<(), SetupError> {
    let Some(member) = victim(array).cloned() else { return Ok(()) };
    // Without its superblock it is new to the array, and rebuilt as a whole, bitmap or not.
    site.on(&[&member], &Call::new("mdadm", ["--zero-superblock", &member.word()]))?;
    let call = Call::new("mdadm", [&array.device.word(), "--add", &member.word()]);
    site.on(&[&member], &call)?;
    if site.is_dry() {
        return Ok(());
    }
    let name = array.device.name.clone();
    let slot = format!("sys/block/{name}/md/dev-{}/state", member.name);
    let text = format!("the rebuild of {name}");
    let is_done = |root: &SysRoot| root.text(&slot).is_some_and(|state| state.contains("in_sync"));
    site.wait_for(&text, |root| (is_syncing(root, &name) || is_done(root)).then_some(()))?;
    if is_done(site.root) {
        site.remark(format!(
            "the rebuild of {name} ended at once: give larger members, or a lower md.sync_speed_max"
        ));
    }
    Ok(())
}

fn write_attribute(
    site: &mut Site<'_, '_>,
    array: &Array,
    name: &str,
    value: &str,
) -> Result<(), SetupError> {
    let below = format!("sys/block/{}/md/{name}", array.device.name);
    site.commands.push(format!("echo {value} > /{below}"));
    if site.is_dry() {
        return Ok(());
    }
    site.fault("before writing to md");
    let path = site.root.path(&below);
    fs::write(&path, value).map_err(crate::error::io_at("write", &path))?;
    site.fault("after writing to md");
    Ok(())
}

/// True while a synchronisation, rebuild or check runs.
pub(crate) fn is_syncing(root: &SysRoot, name: &str) -> bool {
    let action = root.text(format!("sys/block/{name}/md/sync_action"));
    action.is_some_and(|action| !matches!(action.as_str(), "idle" | "frozen"))
}

/// Waits for it, as fast as the array can: nobody measures meanwhile.
fn wait_for_sync(site: &mut Site<'_, '_>, array: &Array, what: &str) -> Result<(), SetupError> {
    const QUIET: u32 = 5;
    let name = array.device.name.clone();
    let speed = site.root.path(format!("sys/block/{name}/md/sync_speed_min"));
    let hurry = fs::write(&speed, "10000000").is_ok();
    let mut idle = 0;
    let mut told = Instant::now();
    while idle < QUIET {
        site.check_stop(&format!("waiting for the {what} of {name}"))?;
        thread::sleep(Duration::from_millis(50));
        idle = if is_in_order(site.root, &name) { idle + 1 } else { 0 };
        let failed = site.root.text(format!("sys/block/{name}/md/array_state"));
        if failed.is_none_or(|state| matches!(state.as_str(), "clear" | "inactive")) {
            let text = format!(
                "{name} stopped working during its {what}; the kernel's log (dmesg) says why"
            );
            return Err(SetupError::Device(text));
        }
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            let done = site.root.text(format!("sys/block/{name}/md/sync_completed"));
            site.note(&format!("{what} of {name}: {} sectors", done.unwrap_or_default()));
        }
    }
    if hurry {
        let _ = fs::write(&speed, "system");
    }
    Ok(())
}

/// All members in sync, nothing running.
fn is_in_order(root: &SysRoot, name: &str) -> bool {
    let md = Path::new("sys/block").join(name).join("md");
    let degraded: u64 = root.value(md.join("degraded")).unwrap_or(0);
    !is_syncing(root, name) && degraded == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::stack::MdFacts;

    pub(crate) fn spec(level: &str, layout: Option<&str>) -> ArraySpec {
        ArraySpec {
            level: level.to_owned(),
            layout: layout.map(str::to_owned),
            chunk: None,
            members: None,
            order: Vec::new(),
            bitmap: None,
            metadata: None,
            data_offset: None,
            spares: 0,
            is_assumed_clean: false,
            state: ArrayState::Normal,
        }
    }

    /// What is computed before the array is there must be what is computed from the array that is there.
    #[test]
    fn the_planned_geometry_is_that_of_the_kernel() {
        for (level, layout, number) in [
            ("raid0", None, 0),
            ("raid4", None, 0),
            ("raid5", None, 2),
            ("raid6", None, 2),
            ("raid10", None, 0x102),
            ("raid10", Some("f2"), 0x201),
            ("raid10", Some("o2"), 0x10201),
            ("raid10", Some("n3"), 0x103),
        ] {
            for disks in 4..8 {
                let planned = striping(&spec(level, layout), disks);
                let facts = serde_json::json!({
                    "level": level, "layout": number, "chunk_bytes": 512 << 10, "raid_disks": disks,
                    "members": [],
                });
                let facts: MdFacts = serde_json::from_value(facts).unwrap();
                assert_eq!(planned, Striping::of_md(&facts), "{level} {layout:?} {disks}");
            }
        }
        assert_eq!(striping(&spec("raid1", None), 2), None);
    }

    /// mdadm lays data over its own superblock or bitmap where it is told to; fathom does not tell it.
    #[test]
    fn data_begin_where_nothing_else_lies() {
        let of = |offset: &str, metadata: &str, bitmap: &str| ArraySpec {
            data_offset: Some(offset.to_owned()),
            metadata: Some(metadata.to_owned()),
            bitmap: Some(bitmap.to_owned()),
            ..spec("raid5", None)
        };
        let bytes = |spec: &ArraySpec| shape(spec, 3).map(|shape| shape.data_offset_bytes);
        for (offset, bitmap, is) in [
            ("12k", "none", 12 << 10),
            ("144k", "internal", 144 << 10),
            ("1025KiB", "internal", 1025 << 10),
            ("1T", "none", 1 << 40),
        ] {
            let got = bytes(&of(offset, "1.1", bitmap)).unwrap_or_else(|e| panic!("{offset}: {e}"));
            assert_eq!(got, Some(is));
        }
        for (offset, metadata, bitmap, why) in [
            ("8k", "1.2", "none", "from 12k to 1TiB"),
            ("1536", "1.2", "none", "a multiple of 1k"),
            ("2T", "1.2", "none", "from 12k to 1TiB"),
            ("143k", "1.2", "internal", "no room for a bitmap"),
            ("1M", "1.0", "none", "lies behind the data"),
            ("1M", "0.90", "none", "lies behind the data"),
        ] {
            let error = bytes(&of(offset, metadata, bitmap)).expect_err(offset).to_string();
            assert!(error.contains(why) && error.contains("data_offset"), "{offset}: {error}");
        }
    }

    #[test]
    fn data_that_begin_elsewhere_are_named_with_the_member() {
        let tree = fathom_testkit::Tree::new();
        let slot = |member: &str| format!("sys/block/md200/md/dev-{member}");
        tree.put(format!("{}/offset", slot("sda")), "2050\n");
        tree.put(format!("{}/offset", slot("sdb1")), "2050\n");
        let members = ["sda", "sdb1", "removed"];
        let other = || other_offset(&tree.root(), "md200", &members, 1025 << 10);
        assert_eq!(other(), None);
        tree.put(format!("{}/offset", slot("sdb1")), "4096\n");
        let text = other().expect("mdadm took another");
        for part in ["data_offset 1025k", "on sdb1", "at sector 4096", "not at 2050"] {
            assert!(text.contains(part), "{text}");
        }
        tree.put(format!("{}/state", slot("removed")), "in_sync\n");
        tree.put(format!("{}/offset", slot("sdb1")), "2050\n");
        assert!(other().expect("nobody tells").contains("on removed"), "it is there without one");
    }

    #[test]
    fn what_md_cannot_do_is_refused_with_the_reason() {
        let refusal = |spec: &ArraySpec, devices| match shape(spec, devices) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{spec:?}"),
        };
        assert!(refusal(&spec("raid5", None), 2).contains("at least 3 members"));
        assert!(refusal(&spec("raid7", None), 9).contains("none of raid0"));
        assert!(refusal(&spec("raid10", Some("x2")), 4).contains("none of n2, f2, o2"));
        let degraded = ArraySpec { state: ArrayState::Degraded, ..spec("raid0", None) };
        assert!(refusal(&degraded, 2).contains("no redundancy"));
        let degraded = ArraySpec { spares: 1, ..ArraySpec { level: "raid1".into(), ..degraded } };
        assert!(refusal(&degraded, 3).contains("no spares"));
        let order = ArraySpec { order: vec![0, 0, 1], ..spec("raid5", None) };
        assert!(refusal(&order, 3).contains("once each"));
        let order = ArraySpec { order: vec![2, 0, 1], ..spec("raid5", None) };
        assert_eq!(shape(&order, 3).unwrap_or_else(|e| panic!("{e}")).members, [2, 0, 1]);
    }
}
