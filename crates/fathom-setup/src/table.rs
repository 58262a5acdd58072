//! The same piece of every device: one partition each, in a GPT.

use crate::capacity;
use crate::error::{SetupError, io_at};
use crate::known::is_same_uuid;
use crate::site::{Device, Site, device_of};
use crate::tools::Call;
use crate::wipe;
use fathom_base::units::{format_size, parse_fraction, parse_size};
use fathom_inspect::identity;
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::SliceSpec;
use fathom_sys::sysfs_block::BlockDir;
use std::fmt::Write;

/// Where partitions begin by custom; the table and its copy fit before the first and behind the last.
const UNIT_BYTES: u64 = 1 << 20;

/// Start and length of the piece, in bytes, the same for all: the smallest device decides.
fn piece(spec: &SliceSpec, sizes: &[u64]) -> Result<(u64, u64), SetupError> {
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    let wrong = |what: &str, error: &dyn std::fmt::Display| {
        SetupError::Spec(format!("slice.{what}: {error}"))
    };
    let place = |what: &str, text: &str| match text.trim().strip_suffix('%') {
        Some(_) => parse_fraction(text)
            .map(|share| (smallest as f64 * share) as u64)
            .map_err(|error| wrong(what, &error)),
        None => parse_size(text).map_err(|error| wrong(what, &error)),
    };
    let start = place("start", &spec.start)?.next_multiple_of(UNIT_BYTES).max(UNIT_BYTES);
    let end = smallest.saturating_sub(UNIT_BYTES) / UNIT_BYTES * UNIT_BYTES;
    let room = end.saturating_sub(start);
    let size = match &spec.size {
        Some(text) => place("size", text)? / UNIT_BYTES * UNIT_BYTES,
        None => room,
    };
    if size == 0 || size > room {
        let text = format!(
            "{} from {} on do not fit: the smallest device has {}, of which {} can be used there",
            format_size(size),
            format_size(start),
            format_size(smallest),
            format_size(room)
        );
        return Err(wrong("size", &text));
    }
    Ok((start, size))
}

/// Makes the partitions.
pub(crate) fn slices(
    site: &mut Site<'_, '_>,
    spec: &SliceSpec,
    devices: &[Device],
) -> Result<Vec<Device>, SetupError> {
    let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes).collect();
    let (start, size) = piece(spec, &sizes)?;
    let mut made = Vec::new();
    for device in devices {
        made.extend(partitions(site, device, &[(start, size)])?);
    }
    site.outline.capacity.extend(capacity::lines(devices, &vec![size; devices.len()]));
    Ok(made)
}

/// Equal pieces of one device, as many as asked for.
pub(crate) fn equal_pieces(
    site: &mut Site<'_, '_>,
    device: &Device,
    count: usize,
) -> Result<Vec<Device>, SetupError> {
    let room = (device.size_bytes / UNIT_BYTES).saturating_sub(2);
    let size = room / count.max(1) as u64 * UNIT_BYTES;
    if size == 0 {
        let have = format_size(device.size_bytes);
        let text = format!("{} has {have}: too little for {count} slices", device.word());
        return Err(SetupError::Spec(text));
    }
    let pieces: Vec<(u64, u64)> =
        (0..count as u64).map(|number| (UNIT_BYTES + number * size, size)).collect();
    partitions(site, device, &pieces)
}

/// A partition at each of these places, given as start and length in bytes.
fn partitions(
    site: &mut Site<'_, '_>,
    device: &Device,
    pieces: &[(u64, u64)],
) -> Result<Vec<Device>, SetupError> {
    let guid = site.uuid()?;
    let block = device.logical_block_bytes;
    let mut script = String::from("label: gpt\n");
    let _ = writeln!(script, "label-id: {guid}");
    let mut uuids = Vec::new();
    for (start, size) in pieces {
        let partition = site.uuid()?;
        let (first, count) = (start / block, size / block);
        let line = format!("start={first}, size={count}, uuid={partition}, name=fathom");
        let _ = writeln!(script, "{line}");
        site.commands
            .push(format!("# {line}, in sectors of {block} bytes, from standard input to:"));
        uuids.push(partition);
    }
    let call = Call::new("sfdisk", ["--quiet", "--wipe=never", "--lock=no"]).arg(device.word());
    let change = SetupChange::Table {
        device_id: device.id.clone(),
        name: device.name.clone(),
        guid,
        partitions: uuids.clone(),
    };
    if !site.is_dry() {
        blank(site, device, pieces)?;
    }
    site.make(change, &[device], &call.input(script))?;
    // For kernels that cannot read the table themselves; nothing changes where the kernel has read it.
    site.run(&Call::new("partx", ["--update".to_owned(), device.word()]))?;
    let separator = if device.name.ends_with(|c: char| c.is_ascii_digit()) { "p" } else { "" };
    if site.is_dry() {
        let path = |number| format!("{}{separator}{number}", device.word());
        let one = |(number, (_, size)): (usize, &(u64, u64))| {
            site.imagined(&path(number + 1), *size, device)
        };
        return Ok(pieces.iter().enumerate().map(one).collect());
    }
    uuids.iter().map(|partition| found(site, device, partition)).collect()
}

/// What a device held before must not show on partitions that begin at the same places: after a crash nobody could tell whose it is.
fn blank(
    site: &mut Site<'_, '_>,
    device: &Device,
    pieces: &[(u64, u64)],
) -> Result<(), SetupError> {
    if !site.claims.contains_key(&device.path) {
        site.hold(device)?;
    }
    site.fault("before wiping old data");
    if let Some(claim) = site.claims.get(&device.path) {
        for (start, size) in pieces {
            wipe::blank_piece(claim, *start, *size).map_err(io_at("wipe", &device.path))?;
        }
    }
    site.fault("after wiping old data");
    Ok(())
}

/// The partition that was just made, held.
fn found(site: &mut Site<'_, '_>, device: &Device, partition: &str) -> Result<Device, SetupError> {
    let disk = device.name.clone();
    let found = site.wait_for(&format!("the partition of {disk}"), |root| {
        let partitions = BlockDir::by_name(root, &disk)?.partitions();
        let is_ours = |p: &BlockDir| {
            let id = p.devno().map(|devno| identity::device_id(root, devno));
            id.is_some_and(|id| is_same_uuid(&id.text, partition))
        };
        let found = partitions.into_iter().find(is_ours)?;
        root.exists(found.dev_path().trim_start_matches('/')).then_some(found)
    })?;
    let path = found.dev_path().into();
    let made = Device {
        is_own_loop: device.is_own_loop,
        logical_block_bytes: device.logical_block_bytes,
        ..device_of(site.root, &found, path)
    };
    site.hold_new(&made, None)?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(start: &str, size: Option<&str>) -> SliceSpec {
        SliceSpec { start: start.to_owned(), size: size.map(str::to_owned) }
    }

    #[test]
    fn the_smallest_device_decides() {
        const MIB: u64 = 1 << 20;
        let sizes = [64 * MIB, 48 * MIB + 512];
        assert_eq!(piece(&spec("0", None), &sizes).unwrap(), (MIB, 46 * MIB));
        assert_eq!(piece(&spec("50%", None), &sizes).unwrap(), (25 * MIB, 22 * MIB));
        assert_eq!(piece(&spec("2M", Some("4M")), &sizes).unwrap(), (2 * MIB, 4 * MIB));
        let error = piece(&spec("40M", Some("20M")), &sizes).unwrap_err().to_string();
        assert!(error.contains("slice.size: 20 MiB from 40 MiB on do not fit"), "{error}");
        assert!(piece(&spec("100%", None), &sizes).is_err());
        assert!(
            piece(&spec("x", None), &sizes)
                .unwrap_err()
                .to_string()
                .starts_with("setup: slice.start")
        );
    }
}
