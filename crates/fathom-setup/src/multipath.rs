//! A multipath map over devices that are paths to one disk: without multipathd, and unknown to it.

use crate::error::{SetupError, io_at};
use crate::known;
use crate::site::{Device, Site, device_of};
use crate::tools::Call;
use crate::wipe;
use fathom_guard::Claim;
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::MultipathSpec;
use fathom_sys::devno::DevNo;
use fathom_sys::io::{OpenMode, fsync, read_at, write_at};
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::sysroot::SysRoot;
use std::io;
use std::path::Path;

const SECTOR_BYTES: u64 = 512;
const MARK_BYTES: usize = 4096;

/// A map that was built.
#[derive(Debug, Clone)]
pub(crate) struct Map {
    name: String,
    /// Those that were made to fail, as numbers.
    failed: Vec<String>,
}

/// Numbers of devices that were given as paths.
pub(crate) fn numbers(root: &SysRoot, words: &[String]) -> Vec<DevNo> {
    let number = |word: &String| {
        let path = std::fs::canonicalize(word).ok()?;
        BlockDir::by_dev_path(root, &path)?.devno()
    };
    words.iter().filter_map(number).collect()
}

/// Makes sure that they lead to one disk, and maps it.
pub(crate) fn build(
    site: &mut Site<'_, '_>,
    spec: &MultipathSpec,
    paths: &[Device],
) -> Result<(Device, Map), SetupError> {
    let wrong = |text: &str| SetupError::Spec(format!("multipath: {text}"));
    let first = paths.first().ok_or_else(|| wrong("no paths"))?;
    let groups = spec.groups(paths.len()).ok_or_else(|| wrong("the groups name other paths"))?;
    if paths.iter().any(|path| path.size_bytes != first.size_bytes) {
        return Err(wrong("the devices differ in size: they are no paths to one disk"));
    }
    prove(site, paths)?;
    let numbers: Vec<String> = paths.iter().map(|path| number(site.root, path)).collect();
    let name = format!("fathom-{}-paths", site.id());
    let call = Call::new("dmsetup", ["create", &name, "--uuid", &name, "--table"]).arg(table(
        spec,
        &groups,
        &numbers,
        first.size_bytes,
    ));
    let change = SetupChange::Multipath {
        name: name.clone(),
        paths: paths.iter().map(Device::built_on).collect(),
    };
    let all: Vec<&Device> = paths.iter().collect();
    site.make(change, &all, &call)?;
    let failed = numbers.iter().take(spec.failed as usize).cloned().collect();
    let map = Map { name: name.clone(), failed };
    let path = Path::new("/dev/mapper").join(&name);
    let device = if site.is_dry() {
        site.imagined(&path.display().to_string(), first.size_bytes, first)
    } else {
        let found = site.wait_for(&path.display().to_string(), |root| {
            known::mapped(root, &name).filter(|_| path.exists())
        })?;
        let path = std::fs::canonicalize(&path).map_err(io_at("reach", &path))?;
        let device = device_of(site.root, &found, path);
        site.hold_new(&device, None)?;
        device
    };
    for number in &map.failed {
        site.run(&Call::new("dmsetup", ["message", &name, "0", &format!("fail_path {number}")]))?;
    }
    check(site, &map)?;
    Ok((device, map))
}

fn number(root: &SysRoot, device: &Device) -> String {
    let devno = BlockDir::by_name(root, &device.name).and_then(|device| device.devno());
    devno.map(|devno| devno.to_string()).unwrap_or_default()
}

/// As the kernel's documentation describes the target: no features, no handler, groups of which the first is used first.
fn table(spec: &MultipathSpec, groups: &[Vec<usize>], numbers: &[String], bytes: u64) -> String {
    // How many requests before the next choice; service-time takes a weight beside.
    let args = if spec.selector == "service-time" { " 1 1" } else { " 1" };
    let count = args.split_whitespace().count();
    let group = |group: &Vec<usize>| {
        let paths: String = group.iter().map(|path| format!(" {}{args}", numbers[*path])).collect();
        format!(" {} 0 {} {count}{paths}", spec.selector, group.len())
    };
    let groups_text: String = groups.iter().map(group).collect();
    format!("0 {} multipath 0 0 {} 1{groups_text}", bytes / SECTOR_BYTES, groups.len())
}

/// What is written by one path must be read by all others: equal names of two disks prove nothing. All are held meanwhile.
fn prove(site: &mut Site<'_, '_>, paths: &[Device]) -> Result<(), SetupError> {
    let mark = site.uuid()?;
    let Some((first, others)) = paths.split_first() else { return Ok(()) };
    let line = format!("# write a mark to {}, read it by the other paths, wipe it", first.word());
    site.commands.push(line);
    if site.is_dry() {
        return Ok(());
    }
    site.fault("before marking a disk");
    let held = |device: &Device| {
        let not_held = || SetupError::Device(format!("{} is not held", device.word()));
        site.claims.get(&device.path).ok_or_else(not_held)
    };
    let claim = held(first)?;
    put(claim, mark.as_bytes()).map_err(io_at("write", &first.path))?;
    let other = others.iter().find_map(|device| {
        let seen = held(device).and_then(|claim| {
            let seen = holds(claim, mark.as_bytes());
            seen.map_err(io_at("read", &device.path))
        });
        match seen {
            Ok(true) => None,
            Ok(false) => Some(SetupError::NotAsAsked(format!(
                "{} and {} are no paths to one disk: what was written to the first does not show on the second",
                first.word(),
                device.word()
            ))),
            Err(error) => Some(error),
        }
    });
    put(claim, &[]).map_err(io_at("wipe", &first.path))?;
    site.fault("after marking a disk");
    other.map_or(Ok(()), Err)
}

/// The first block, past all caches.
const DIRECT: OpenMode = OpenMode { direct: true, ..wipe::FOR_WRITING };

fn put(claim: &Claim, mark: &[u8]) -> io::Result<()> {
    let mut space = vec![0; 2 * MARK_BYTES];
    let block = aligned(&mut space);
    block[..mark.len()].copy_from_slice(mark);
    let file = claim.reopen(DIRECT)?;
    match write_at(&file, block, 0)? {
        MARK_BYTES => fsync(&file),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}

fn holds(claim: &Claim, mark: &[u8]) -> io::Result<bool> {
    let mut space = vec![0; 2 * MARK_BYTES];
    let block = aligned(&mut space);
    let read = read_at(&claim.reopen(DIRECT)?, block, 0)?;
    Ok(read == MARK_BYTES && block.starts_with(mark))
}

fn aligned(space: &mut [u8]) -> &mut [u8] {
    let start = space.as_ptr().align_offset(MARK_BYTES);
    &mut space[start..start + MARK_BYTES]
}

/// Every path is in the state in which it is to be measured.
pub(crate) fn check(site: &mut Site<'_, '_>, map: &Map) -> Result<(), SetupError> {
    let status = site.run(&Call::new("dmsetup", ["status", &map.name]))?;
    if site.is_dry() {
        return Ok(());
    }
    let states = states(&status);
    let is_asked = |(path, state): &(&str, &str)| {
        let is_failed = map.failed.iter().any(|failed| failed == path);
        *state == if is_failed { "F" } else { "A" }
    };
    if !states.is_empty() && states.iter().all(is_asked) {
        return Ok(());
    }
    let shown: Vec<String> = states.iter().map(|(path, state)| format!("{path} {state}")).collect();
    Err(SetupError::Device(format!(
        "the paths of {} are not as asked for ({}); the kernel's log (dmesg) may say why",
        map.name,
        shown.join(", ")
    )))
}

/// Numbers of the paths in a status, each with `A` (works) or `F` (failed).
fn states(status: &str) -> Vec<(&str, &str)> {
    let words: Vec<&str> = status.split_whitespace().collect();
    let is_path =
        |pair: &&[&str]| pair[0].parse::<DevNo>().is_ok() && ["A", "F"].contains(&pair[1]);
    words.windows(2).filter(is_path).map(|pair| (pair[0], pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_the_kernels_form() {
        let numbers = ["8:0", "8:16", "8:32"].map(str::to_owned);
        let of = |policy: &str, selector: &str| {
            let policy = policy.to_owned();
            let spec = MultipathSpec { policy, selector: selector.to_owned(), failed: 0 };
            table(&spec, &spec.groups(3).unwrap(), &numbers, 1 << 20)
        };
        assert_eq!(
            of("multibus", "service-time"),
            "0 2048 multipath 0 0 1 1 service-time 0 3 2 8:0 1 1 8:16 1 1 8:32 1 1"
        );
        assert_eq!(
            of("failover", "round-robin"),
            "0 2048 multipath 0 0 3 1 round-robin 0 1 1 8:0 1 round-robin 0 1 1 8:16 1 round-robin 0 1 1 8:32 1"
        );
        assert_eq!(
            of("2,0/1", "queue-length"),
            "0 2048 multipath 0 0 2 1 queue-length 0 2 1 8:32 1 8:0 1 queue-length 0 1 1 8:16 1"
        );
    }

    #[test]
    fn the_state_of_each_path_is_found() {
        let status = "0 131072 multipath 2 0 1 0 2 1 E 0 1 2 8:0 F 1 0 1 A 0 1 2 8:16 A 0 0 1 \n";
        assert_eq!(states(status), [("8:0", "F"), ("8:16", "A")]);
        assert_eq!(states("0 100 linear\n"), []);
    }
}
