//! From a description to what stands: layer after layer; and back.

use crate::array::{self, Array};
use crate::error::{SetupError, io_at};
use crate::filesystem::Ground;
use crate::outline::Outline;
use crate::site::{Device, Site};
use crate::tools::{Call, Tools};
use crate::{
    Builder, Built, Recovery, Undo, btrfs, capacity, crypt, devices, filesystem, fill, mounting,
    multipath, table, volume,
};
use fathom_check::array::Striping;
use fathom_guard::changes::Step;
use fathom_guard::{Consent, Protected, claim_block_device};
use fathom_model::change::Change;
use fathom_model::plan::setup::{FilesystemSpec, SetupSpec};
use fathom_sys::devno::DevNo;
use fathom_sys::signals::StopFlag;
use fathom_sys::sysroot::SysRoot;
use fathom_sys::{clock, fsinfo};
use std::path::{Path, PathBuf};

/// What of the layers is needed later.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    map: Option<multipath::Map>,
    array: Option<Array>,
    filesystems: Vec<Standing>,
}

/// A filesystem that is mounted.
#[derive(Debug)]
struct Standing {
    device: Device,
    further: Vec<Device>,
    journal: Option<Device>,
    dir: PathBuf,
}

impl Standing {
    fn ground(&self) -> Ground<'_> {
        let journal = self.journal.as_ref();
        Ground { device: &self.device, further: &self.further, journal, striping: None }
    }
}

/// What stands.
struct Top {
    device: Device,
    given: Vec<(PathBuf, String)>,
    parts: Parts,
}

pub(crate) fn check(
    root: &SysRoot,
    consent: &Consent,
    protected: &Protected,
    work_dir: &Path,
    spec: &SetupSpec,
) -> Result<Outline, SetupError> {
    let tools = Tools::find(&tools_for(spec)?)?;
    check_kernel(root, spec)?;
    let versions = tools.versions(&StopFlag::default());
    let mut site = Site::dry(root, protected, work_dir, tools);
    construct(&mut site, consent, spec)?;
    let Site { mut outline, commands, facts, .. } = site;
    outline.commands = commands;
    outline.facts = facts;
    outline.tools = versions;
    Ok(outline)
}

pub(crate) fn build(builder: &mut Builder<'_>, spec: &SetupSpec) -> Result<Built, SetupError> {
    let tools = Tools::find(&tools_for(spec)?)?;
    check_kernel(builder.root, spec)?;
    let consent = builder.consent;
    let mut site = Site::real(builder, tools);
    let top = construct(&mut site, consent, spec);
    let Site { commands, facts, remarks, steps, mut claims, outline, .. } = site;
    match top {
        Ok(Top { device, given, parts }) => {
            let mut mounted = parts.filesystems.iter().map(|standing| standing.dir.clone());
            let (mount_point, further) = (mounted.next(), mounted.collect());
            let claim = claims.remove(&device.path).filter(|_| mount_point.is_none());
            let target = mount_point.clone().unwrap_or_else(|| device.path.clone());
            let held = claims.into_values().collect();
            let device = device.path;
            let spec = spec.clone();
            Ok(Built {
                target,
                claim,
                mount_point,
                further,
                device,
                capacity: outline.in_all,
                commands,
                facts,
                remarks,
                steps,
                spec,
                held,
                given,
                parts,
            })
        }
        Err(error) => {
            drop(claims);
            match undo_steps(builder, &steps) {
                Ok(()) => Err(error),
                Err(left) => Err(SetupError::AndLeft { error: error.into(), left: left.into() }),
            }
        }
    }
}

/// Why a filesystem does not show any more where it was mounted.
pub(crate) fn unmounted(root: &SysRoot, built: &Built) -> Option<String> {
    let gone = |own: &Standing| mounting::check_ours(root, &own.dir, &own.device).err();
    built.parts.filesystems.iter().find_map(gone).map(|error| error.to_string())
}

/// Brings the array into its state again; the paths of a map must still be in theirs, and filesystems where they were mounted.
pub(crate) fn refresh(builder: &mut Builder<'_>, built: &mut Built) -> Result<(), SetupError> {
    if let Some(gone) = unmounted(builder.root, built) {
        return Err(SetupError::NotAsAsked(gone));
    }
    if let Some(map) = &built.parts.map {
        multipath::check(&mut Site::real(builder, Tools::default()), map)?;
    }
    let Some(array) = built.parts.array.clone() else { return Ok(()) };
    let mut site = Site::real(builder, Tools::default());
    for claim in built.held.drain(..) {
        site.claims.insert(claim.path().to_owned(), claim);
    }
    let done = array::bring_into_state(&mut site, &array);
    let Site { claims, commands, facts, remarks, .. } = site;
    built.held = claims.into_values().collect();
    built.commands.extend(commands);
    built.facts.extend(facts);
    built.remarks.extend(remarks);
    done
}

/// Unmounts and mounts anew.
pub(crate) fn remount(builder: &mut Builder<'_>, built: &mut Built) -> Result<(), SetupError> {
    let Some(spec) = &built.spec.filesystem else { return Ok(()) };
    let mut site = Site::real(builder, Tools::default());
    for standing in &built.parts.filesystems {
        mounting::check_ours(site.root, &standing.dir, &standing.device)?;
        site.run(&Call::new("umount", [standing.dir.display().to_string()]))?;
        mounting::mount_again(&mut site, spec, standing.ground(), &standing.dir)?;
    }
    Ok(())
}

/// Filesystems with a journal that can be ended as by a crash.
const CRASHES: [&str; 4] = ["ext3", "ext4", "xfs", "f2fs"];

/// Ends the filesystem that a place lies on as a crash does, and mounts it twice: once with the replay of its journal, once after that.
pub(crate) fn crash(
    builder: &mut Builder<'_>,
    built: &mut Built,
    place: &Path,
) -> Result<Option<Recovery>, SetupError> {
    let standing = built.parts.filesystems.iter().find(|own| place.starts_with(&own.dir));
    let (Some(spec), Some(standing)) = (&built.spec.filesystem, standing) else {
        return Ok(None);
    };
    let (dir, device) = (&standing.dir, &standing.device);
    if !CRASHES.contains(&spec.kind.as_str()) {
        return Ok(None);
    }
    let mut site = Site::real(builder, Tools::default());
    mounting::check_ours(site.root, dir, device)?;
    let Some(number) = mounting::number_of(site.root, device) else { return Ok(None) };
    let failed = |error| io_at("crashing", dir.clone())(error);
    let root = fsinfo::open_for_questions(dir).map_err(failed)?;
    fsinfo::crash(&root, number).map_err(failed)?;
    drop(root);
    let mut mount_ns = || {
        site.run(&Call::new("umount", [dir.display().to_string()]))?;
        // What memory still holds of the devices is not there after a power cut.
        std::fs::write(site.root.path("proc/sys/vm/drop_caches"), "3").map_err(failed)?;
        let begun_ns = clock::monotonic_ns();
        mounting::mount_again(&mut site, spec, standing.ground(), dir)?;
        Ok::<u64, SetupError>(clock::monotonic_ns().saturating_sub(begun_ns))
    };
    let after_crash_ns = mount_ns()?;
    Ok(Some(Recovery { after_crash_ns, clean_ns: mount_ns()? }))
}

pub(crate) fn take_down(builder: &mut Builder<'_>, built: Built) -> Result<(), SetupError> {
    let Built { claim, steps, held, given, spec, .. } = built;
    if let Some(claim) = &claim {
        // Nobody else could write to it: whatever seems to be on it is what the load left. A failed device is taken down as it is.
        crate::wipe::wipe_if_marked(claim).ok();
    }
    drop((claim, held));
    undo_steps(builder, &steps)?;
    // Blank as before, and nobody's: what a claim asks for.
    let mode = crate::wipe::FOR_WRITING;
    let mut left = Vec::new();
    let paths = paths(builder.root, &spec);
    for (path, id) in given {
        let consent = Consent::new(vec![id]).with_paths(paths.clone());
        let claim = claim_block_device(builder.root, &path, &consent, builder.protected, mode);
        left.extend(claim.err().map(|refusal| refusal.to_string()));
    }
    if left.is_empty() { Ok(()) } else { Err(SetupError::Left(left)) }
}

/// The devices that were said to be paths to one disk.
fn paths(root: &SysRoot, spec: &SetupSpec) -> Vec<DevNo> {
    let words = spec.multipath.as_ref().map(|_| &spec.devices[..]);
    multipath::numbers(root, words.unwrap_or_default())
}

/// Takes back these steps, newest first. What cannot be taken back does not keep the rest from being.
fn undo_steps(builder: &mut Builder<'_>, steps: &[Step]) -> Result<(), SetupError> {
    let mut left = Vec::new();
    for step in steps.iter().rev() {
        let Some(Change::Setup(change)) =
            builder.log.entry(*step).map(|entry| entry.change.clone())
        else {
            continue;
        };
        let undo = crate::undo(builder.root, builder.log, *step, &change, builder.note);
        let what = change.summary();
        match undo {
            Undo::Restored | Undo::AlreadyBack | Undo::Rebooted => {}
            Undo::ChangedBySomebody { found } => {
                left.push(format!("{what}: somebody has changed it since ({found})"));
            }
            Undo::Gone(device) => left.push(format!("{what}: {device} is away")),
            Undo::NotHere(why) | Undo::Unnoted(why) | Undo::Failed(why) => {
                left.push(format!("{what}: {why}"));
            }
        }
    }
    if left.is_empty() { Ok(()) } else { Err(SetupError::Left(left)) }
}

/// The tools that a setup needs, also to be taken down.
fn tools_for(spec: &SetupSpec) -> Result<Vec<&'static str>, SetupError> {
    let mut tools = Vec::new();
    let fs = spec.filesystem.as_ref();
    let journals: Vec<&str> = fs.iter().flat_map(|fs| fs.journals()).collect();
    let devices = spec.devices.iter().map(String::as_str);
    if devices.chain(journals.iter().copied()).any(|device| device.starts_with("loop:")) {
        tools.push("losetup");
    }
    // One that serves several filesystems is cut into slices. An array and a volume join what is below them.
    let joins = spec.array.is_some() || spec.volume.is_some();
    let is_on_each = fs.is_some_and(|fs| fs.is_on_each) && !joins;
    let shares_journals = is_on_each && !journals.is_empty() && journals.len() < spec.devices.len();
    let makes_table = spec.slice.is_some() || shares_journals;
    tools.extend(makes_table.then_some("sfdisk"));
    // What is built of several layers may show the partitions of old data, which are then forgotten.
    let makes_devices = joins || spec.crypt.is_some() || spec.multipath.is_some();
    tools.extend((makes_table || makes_devices).then_some("partx"));
    tools.extend(spec.multipath.is_some().then_some("dmsetup"));
    tools.extend(spec.array.is_some().then_some("mdadm"));
    tools.extend(spec.crypt.is_some().then_some("cryptsetup"));
    tools.extend(spec.volume.is_some().then_some("lvm"));
    if let Some(fs) = &spec.filesystem {
        tools.extend([filesystem::tool(&fs.kind)?, "mount", "umount"]);
    }
    Ok(tools)
}

/// What the kernel must have: there already, or as a module that it loads when asked.
fn check_kernel(root: &SysRoot, spec: &SetupSpec) -> Result<(), SetupError> {
    let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
    let lists = ["modules.dep", "modules.builtin"];
    let modules: String = lists
        .iter()
        .filter_map(|list| root.read(format!("lib/modules/{release}/{list}")).ok())
        .collect();
    let has_module = |name: &str| modules.contains(&format!("/{name}.ko"));
    let lacks = |what: &str, module: &str| {
        Err(SetupError::NotSupported(format!(
            "this kernel ({release}) has no {what}: neither loaded nor a module {module}; another kernel is needed"
        )))
    };
    if spec.array.is_some() && !root.exists("proc/mdstat") && !has_module("md-mod") {
        return lacks("md arrays", "md-mod");
    }
    let has_mapper = root.exists("sys/class/misc/device-mapper") || has_module("dm-mod");
    let is_mapped = spec.crypt.is_some() || spec.volume.is_some() || spec.multipath.is_some();
    if is_mapped && !has_mapper {
        return lacks("device mapper", "dm-mod");
    }
    if let Some(map) = &spec.multipath {
        for module in ["dm-multipath".to_owned(), format!("dm-{}", map.selector)] {
            let loaded = format!("sys/module/{}", module.replace('-', "_"));
            if !root.exists(loaded) && !has_module(&module) {
                return lacks("multipath maps of this kind", &module);
            }
        }
    }
    if let Some(fs) = &spec.filesystem {
        let known = root.read("proc/filesystems").unwrap_or_default();
        let is_known = known.lines().any(|line| line.trim() == fs.kind);
        // The driver of ext4 also mounts ext2 and ext3.
        let kind = if filesystem::is_ext(&fs.kind) { "ext4" } else { &fs.kind };
        if !is_known && !has_module(kind) && !known.lines().any(|line| line.trim() == kind) {
            return lacks(&fs.kind, kind);
        }
    }
    Ok(())
}

fn construct(
    site: &mut Site<'_, '_>,
    consent: &Consent,
    spec: &SetupSpec,
) -> Result<Top, SetupError> {
    let mut given = Vec::new();
    let mut parts = Parts::default();
    site.paths = paths(site.root, spec);
    let consent = &consent.clone().with_paths(site.paths.clone());
    let mut layer = lowest(site, consent, spec, &mut given)?;
    if let Some(map) = &spec.multipath {
        let (device, map) = multipath::build(site, map, &layer)?;
        layer = vec![device];
        parts.map = Some(map);
    }
    let devices_bytes = layer.iter().map(|device| device.size_bytes).sum();
    if let Some(slice) = &spec.slice {
        layer = table::slices(site, slice, &layer)?;
    } else if spec.array.is_none() {
        let sizes: Vec<u64> = layer.iter().map(|device| device.size_bytes).collect();
        let used = capacity::used_without_array(spec, &sizes);
        site.outline.capacity.extend(capacity::lines(&layer, &used));
    }
    let mut striping = None;
    if let Some(array_spec) = &spec.array {
        striping = array::striping(array_spec, layer.len());
        let array = array::build(site, array_spec, &layer)?;
        layer = vec![array.device.clone()];
        parts.array = Some(array);
    }
    if let Some(crypt) = &spec.crypt {
        layer = crypt::build(site, crypt, &layer)?;
    }
    if let Some(volume) = &spec.volume {
        let device = volume::build(site, volume, &layer, striping)?;
        striping = volume::striping(volume, layer.len(), striping);
        layer = vec![device];
    }
    let device = layer.first().cloned();
    let device = device.ok_or_else(|| SetupError::Spec("devices: none are given".to_owned()))?;
    let mut usable_bytes = device.size_bytes;
    let mut all_bytes = usable_bytes;
    if let Some(fs) = &spec.filesystem {
        let sizes: Vec<u64> = layer.iter().map(|device| device.size_bytes).collect();
        if fs.is_on_each {
            all_bytes = sizes.iter().sum();
        }
        if fs.spans_devices() {
            usable_bytes = btrfs::usable_bytes(fs.data_profile.as_deref(), &sizes);
            all_bytes = usable_bytes;
        }
        parts.filesystems = filesystems(site, consent, fs, layer, striping, &mut given)?;
    }
    let in_all = capacity::in_all(devices_bytes, all_bytes, &site.outline.capacity);
    site.outline.usable_bytes = usable_bytes;
    site.outline.in_all = spec.has_capacity().then_some(in_all);
    Ok(Top { device, given, parts })
}

/// One filesystem on the first device, over all of them, or one on each.
fn filesystems(
    site: &mut Site<'_, '_>,
    consent: &Consent,
    fs: &FilesystemSpec,
    layer: Vec<Device>,
    striping: Option<Striping>,
    given: &mut Vec<(PathBuf, String)>,
) -> Result<Vec<Standing>, SetupError> {
    let mut places: Vec<(Device, Vec<Device>)> = match fs.is_on_each {
        true => layer.into_iter().map(|device| (device, Vec::new())).collect(),
        false => {
            let mut devices = layer.into_iter();
            devices.next().map(|first| (first, devices.collect())).into_iter().collect()
        }
    };
    if !fs.is_on_each && !fs.spans_devices() {
        places.iter_mut().for_each(|(_, further)| further.clear());
    }
    let journals = journals(site, consent, fs, places.len(), given)?;
    let mut standing = Vec::new();
    for (number, ((device, further), journal)) in places.into_iter().zip(journals).enumerate() {
        let ground =
            Ground { device: &device, further: &further, journal: journal.as_ref(), striping };
        filesystem::make(site, fs, ground)?;
        let dir = mounting::mount(site, fs, ground, number + 1)?;
        let size_bytes =
            [&device].into_iter().chain(&further).map(|device| device.size_bytes).sum();
        fill::prepare(site, fs, &dir, size_bytes)?;
        standing.push(Standing { device, further, journal, dir });
    }
    Ok(standing)
}

/// All devices where something joins them, else the first alone. Those that were given are noted, to be looked at in the end.
fn lowest(
    site: &mut Site<'_, '_>,
    consent: &Consent,
    spec: &SetupSpec,
    given: &mut Vec<(PathBuf, String)>,
) -> Result<Vec<Device>, SetupError> {
    let count =
        if spec.takes_all_devices() { spec.devices.len() } else { spec.devices.len().min(1) };
    let words = &spec.devices[..count];
    if count < spec.devices.len() {
        site.remark(format!(
            "{} alone is used: nothing joins it with the other devices",
            spec.devices[0]
        ));
    }
    let is_table_wanted = spec.slice.is_some();
    let mut taken: Vec<Option<Device>> = vec![None; count];
    // Those that were given come first: a refusal is found before anything is made.
    for (word, place) in words.iter().zip(&mut taken).filter(|(word, _)| !word.starts_with("loop:"))
    {
        let device = devices::take(site, consent, word, is_table_wanted)?;
        if given.iter().any(|(path, _)| *path == device.path) {
            return Err(SetupError::Spec(format!("devices: {word} is given twice")));
        }
        given.push((device.path.clone(), device.id.clone()));
        *place = Some(device);
    }
    let all = words.iter().zip(taken);
    all.map(|(word, taken)| match taken {
        Some(device) => Ok(device),
        None => devices::take(site, consent, word, is_table_wanted),
    })
    .collect()
}

/// The external journal of each of so many filesystems: the devices by turns, each cut into as many equal slices as it serves.
fn journals(
    site: &mut Site<'_, '_>,
    consent: &Consent,
    fs: &FilesystemSpec,
    count: usize,
    given: &mut Vec<(PathBuf, String)>,
) -> Result<Vec<Option<Device>>, SetupError> {
    let words: Vec<&str> = fs.journals().collect();
    if words.is_empty() {
        return Ok(vec![None; count]);
    }
    if words.len() > count {
        let text = format!("filesystem.journal: {} devices for {count} filesystems", words.len());
        return Err(SetupError::Spec(text));
    }
    let mut journals = vec![None; count];
    for (turn, word) in words.iter().enumerate() {
        let served = (turn..count).step_by(words.len());
        let device = devices::take(site, consent, word, served.len() > 1)?;
        if given.iter().any(|(path, _)| *path == device.path) {
            let text = format!("filesystem.journal: {word} is one of the devices below, too");
            return Err(SetupError::Spec(text));
        }
        if !word.starts_with("loop:") {
            given.push((device.path.clone(), device.id.clone()));
        }
        let pieces = match served.len() {
            1 => vec![device],
            sharers => table::equal_pieces(site, &device, sharers)?,
        };
        for (place, piece) in served.zip(pieces) {
            journals[place] = Some(piece);
        }
    }
    Ok(journals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_model::plan::setup::CryptSpec;

    fn each(journal: &str) -> SetupSpec {
        let filesystem = FilesystemSpec {
            kind: "ext4".to_owned(),
            make_options: Vec::new(),
            is_aligned: true,
            mount_options: Vec::new(),
            journal: Some(journal.to_owned()),
            is_lazy: false,
            fill_percent: None,
            ageing_rounds: None,
            data_profile: None,
            metadata_profile: None,
            is_on_each: true,
        };
        let devices = vec!["/dev/sda".to_owned(), "/dev/sdb".to_owned()];
        SetupSpec { devices, filesystem: Some(filesystem), ..SetupSpec::default() }
    }

    fn tools(spec: &SetupSpec) -> Vec<&'static str> {
        tools_for(spec).expect("a filesystem that is known")
    }

    #[test]
    fn only_a_shared_journal_is_cut() {
        let rest = ["mkfs.ext4", "mount", "umount"];
        assert_eq!(tools(&each("/dev/sdx")), [&["sfdisk", "partx"][..], &rest].concat());
        for alone in ["internal", "/dev/sdx,/dev/sdy"] {
            assert_eq!(tools(&each(alone)), rest, "{alone}");
        }
    }

    /// Old data on what is below may show as partitions of what is built: see [`Site::hold_new`].
    #[test]
    fn what_is_built_may_have_to_forget_partitions() {
        let (kind, cipher) = ("plain".to_owned(), "aes-xts-plain64".to_owned());
        let crypt = CryptSpec { kind, cipher, sector_size: 512, no_workqueues: false };
        let spec = SetupSpec { crypt: Some(crypt), ..each("internal") };
        assert_eq!(tools(&spec)[..2], ["partx", "cryptsetup"]);
    }
}
