//! Unlike disks: how much can be used and how much is wasted, as planned, as built, and as md and LVM have it.

use crate::{ended, has, job, look, tell_failures, word};
use fathom_model::plan::setup::{
    ArraySpec, ArrayState, SetupCapacity, SetupSpec, SliceSpec, VolumeSpec,
};
use fathom_testkit::{Capability, Guest, GuestReport, StepResult, Trial, kernel_test};

const MIB: u64 = 1 << 20;
/// By letter.
const DISKS_BYTES: [u64; 4] = [48 * MIB, 48 * MIB, 64 * MIB, 80 * MIB];
/// Which place of the data mdadm chooses, and what LVM keeps, differs between versions by less.
const OWN_BYTES: u64 = MIB;
/// The size of the target; of an array, what it uses of each member behind the offset (0 of raid0), and the offsets; what LVM has free.
const KERNEL: &str = "d=$(printf /sys/dev/block/%d:%d 0x$(stat -L -c %t $1) 0x$(stat -L -c %T $1)); \
    echo KERNEL $(($(cat $d/size) * 512)); \
    [ -d $d/md ] && echo MEMBERS $(($(cat $d/md/component_size) * 1024)) $(cat $d/md/dev-*/offset); \
    [ -d $d/dm ] && echo FREE $(pvs --noheadings --nosuffix --units b -o pv_free); true";

pub fn trial() -> Trial {
    let needs = [
        // The journal lies on the host: root in the guest does not believe what belongs to somebody else.
        Capability::Root,
        Capability::Uml,
        Capability::Tool("busybox"),
        Capability::Tool("modprobe"),
        Capability::Tool("mdadm"),
        Capability::Tool("pvcreate"),
        Capability::Tool("sfdisk"),
    ];
    kernel_test("unlike_disks", &needs, unlike)
}

fn over(disks: &str) -> SetupSpec {
    let devices = disks.chars().map(|disk| format!("/dev/ubd{disk}")).collect();
    SetupSpec { devices, ..SetupSpec::default() }
}

fn array(level: &str, layout: Option<&str>, spares: u32, disks: &str) -> SetupSpec {
    let array = ArraySpec {
        level: level.to_owned(),
        layout: layout.map(str::to_owned),
        chunk: (level != "raid1").then(|| "64k".to_owned()),
        members: None,
        order: Vec::new(),
        bitmap: None,
        metadata: None,
        data_offset: None,
        spares,
        is_assumed_clean: true,
        state: ArrayState::Normal,
    };
    SetupSpec { array: Some(array), ..over(disks) }
}

fn volume(kind: &str, size: Option<&str>, disks: &str) -> SetupSpec {
    let size = size.map(str::to_owned);
    let volume =
        VolumeSpec { kind: kind.to_owned(), stripe_size: None, size, data_alignment: None };
    SetupSpec { volume: Some(volume), ..over(disks) }
}

fn sliced(spec: SetupSpec) -> SetupSpec {
    let slice = SliceSpec { start: "2MiB".to_owned(), size: Some("40MiB".to_owned()) };
    SetupSpec { slice: Some(slice), ..spec }
}

/// Name, setup, and what of it can be used and is wasted by hand, in MiB: without what the layers keep.
fn cases() -> Vec<(&'static str, SetupSpec, u64, u64)> {
    let moved = |mut spec: SetupSpec| {
        if let Some(array) = &mut spec.array {
            array.data_offset = Some("1MiB".to_owned());
        }
        spec
    };
    vec![
        ("raid0", moved(array("raid0", None, 0, "abcd")), 47 + 47 + 63 + 79, 0),
        ("raid1", array("raid1", None, 0, "ad"), 47, 32),
        ("raid5", array("raid5", None, 0, "acd"), 2 * 47, 16 + 32),
        ("raid6", moved(array("raid6", None, 0, "abcd")), 2 * 47, 16 + 32),
        ("near", array("raid10", Some("n2"), 0, "abcd"), 2 * 47, 16 + 32),
        ("far", array("raid10", Some("f2"), 0, "acd"), 47 * 3 / 2, 16 + 32),
        ("offset", moved(array("raid10", Some("o2"), 0, "bcd")), 47 * 3 / 2, 16 + 32),
        ("spare", array("raid1", None, 1, "abd"), 47, 80),
        ("slices", sliced(array("raid5", None, 0, "abcd")), 3 * 39, 8 + 8 + 24 + 40),
        // Extents of 4 MiB.
        ("linear", volume("linear", None, "ad"), 44 + 76, 0),
        ("striped", volume("striped", None, "ad"), 44 + 44, 32),
        ("half", volume("striped", Some("51%"), "ad"), 32 + 32, 32),
        ("bytes", volume("linear", Some("50MiB"), "ad"), 52, 0),
    ]
}

fn unlike() {
    let mut all = job("md-mod raid0 raid1 raid10 raid456 dm-mod");
    for bytes in DISKS_BYTES {
        all = all.disk(bytes);
    }
    for (name, spec, ..) in cases() {
        all = look(all, name, &spec, KERNEL);
        all = all.step(&format!("plan_{name}"), &format!("setup check $STATE {}", word(&spec)));
    }
    let report = Guest::boot(all).and_then(Guest::wait).unwrap_or_else(|error| panic!("{error}"));
    println!("\nguest unlike disks: {}", report.times());
    tell_failures(&report);
    for (name, spec, usable_mib, wasted_mib) in cases() {
        judge(&report, name, &spec, [usable_mib * MIB, wasted_mib * MIB]);
    }
}

/// Numbers behind a word at the beginning of a line; none without that line.
fn numbers(step: &StepResult, word: &str) -> Option<Vec<u64>> {
    let line = step.stdout.lines().find_map(|line| line.strip_prefix(word))?;
    Some(line.split_whitespace().map(|number| number.parse().unwrap()).collect())
}

fn in_all(step: &StepResult) -> SetupCapacity {
    let text = step.stdout.lines().find_map(|line| line.strip_prefix("IN ALL "));
    serde_json::from_str(text.unwrap_or_default())
        .unwrap_or_else(|e| panic!("{e}: {}", step.stdout))
}

fn judge(report: &GuestReport, name: &str, spec: &SetupSpec, by_hand: [u64; 2]) {
    let built_step = ended(report, name, 0);
    has(built_step, "REFRESHED");
    let (built, planned) = (in_all(built_step), in_all(ended(report, &format!("plan_{name}"), 0)));
    let size = |disk: &String| DISKS_BYTES[usize::from(disk.as_bytes()[8] - b'a')];
    let sizes: Vec<u64> = spec.devices.iter().map(size).collect();
    let keeps = OWN_BYTES * sizes.len() as u64;
    let near = |a: u64, b: u64| a.abs_diff(b) <= keeps;
    println!("{name}: planned {planned:?}, built {built:?}");
    for capacity in [&built, &planned] {
        assert_eq!(capacity.devices_bytes, sizes.iter().sum::<u64>(), "{name}");
        assert!(near(capacity.usable_bytes, by_hand[0]), "{name}: {capacity:?}");
        assert_eq!(capacity.wasted_bytes, by_hand[1], "{name}");
    }
    let kernel = numbers(built_step, "KERNEL").unwrap();
    assert_eq!([built.usable_bytes], kernel[..], "{name}: what is built is as large as it says");
    // Of a volume of which a share is asked, what is free is not wasted.
    let is_whole = spec.volume.as_ref().is_none_or(|volume| volume.size.is_none());
    if let Some(free) = numbers(built_step, "FREE").filter(|_| is_whole) {
        let free: u64 = free.iter().sum();
        assert!(near(free, built.wasted_bytes), "{name}: LVM has {free} free");
    }
    let members = numbers(built_step, "MEMBERS").filter(|members| members[0] > 0);
    if let Some((used, offsets)) = members.as_deref().and_then(<[u64]>::split_first) {
        let spares = spec.array.as_ref().map_or(0, |array| array.spares as usize);
        let used: u64 =
            offsets.iter().take(sizes.len() - spares).map(|offset| used + offset * 512).sum();
        let unused = built.devices_bytes - used;
        // A table and its copy take a MiB each.
        let tables = if spec.slice.is_some() { 2 * keeps } else { 0 };
        let wasted = built.wasted_bytes;
        assert!(unused.abs_diff(wasted) <= keeps + tables, "{name}: md does not use {unused}");
    }
}
