//! The keys of a setup: one table for `[setup]` and for factors, and what of their combinations can exist.

mod array;
mod filesystem;
mod keys;
mod mount;
mod multipath;

pub(crate) use filesystem::{TARGET, check_target};
pub use keys::{SETUP_KEYS, SetupKey};

use fathom_base::suggest;
use fathom_base::units;
use fathom_model::plan::setup::{
    ArraySpec, ArrayState, CryptSpec, SetupSpec, SliceSpec, VolumeSpec,
};

/// Keys that make a layer or take it away; a layer alone as a key means the same: `filesystem = "ext4"`.
pub(crate) const LAYERS: [&str; 5] =
    ["multipath.policy", "array.level", "volume.type", "crypt.type", "filesystem.type"];

/// The first words of all keys; `mount.` takes any option of the filesystem as `mount.OPTION`.
const HEADS: [&str; 7] =
    ["multipath.", "slice.", "array.", "crypt.", "volume.", "filesystem.", "mount."];

/// Smallest file behind a loop device: below it filesystems cannot be made.
const LOOP_BYTES_MIN: u64 = 16 << 20;

/// True for keys that belong to a setup.
#[must_use]
pub(crate) fn is_key(name: &str) -> bool {
    HEADS.iter().any(|head| name.starts_with(head))
}

/// The key that a layer's name alone stands for.
#[must_use]
pub(crate) fn whole_key(name: &str) -> &str {
    match name {
        "array" => "array.level",
        "multipath" => "multipath.policy",
        "volume" => "volume.type",
        "crypt" => "crypt.type",
        "filesystem" => "filesystem.type",
        "mount" => "mount.options",
        other => other,
    }
}

/// Keys in the order in which they must be set: layers before what belongs to them.
pub(crate) fn rank(name: &str) -> usize {
    let known = SETUP_KEYS.iter().position(|key| key.name == name);
    // Of the options, the data mode decides whether others mean anything.
    known.unwrap_or(SETUP_KEYS.len() + usize::from(name != "mount.data"))
}

/// Sets one key.
///
/// # Errors
/// Why there is no such key or value, without their names.
pub(crate) fn set(spec: &mut SetupSpec, name: &str, value: &str) -> Result<(), String> {
    let (head, own) = name.split_once('.').unwrap_or((name, ""));
    match head {
        "multipath" => multipath::set(spec, own, value),
        "slice" => set_slice(spec, own, value),
        "array" => array::set(spec, own, value),
        "crypt" => set_crypt(spec, own, value),
        "volume" => set_volume(spec, own, value),
        "filesystem" => filesystem::set(spec, own, value),
        "mount" => set_mount(spec, own, value),
        _ => Err(unknown(name)),
    }
}

fn unknown(name: &str) -> String {
    let near = suggest::hint(name, SETUP_KEYS.iter().map(|key| key.name));
    let list = "; fathom's documentation of plans lists the keys of a setup";
    format!("no such part of a setup{}", if near.is_empty() { list } else { &near })
}

fn one_of(value: &str, known: &[&str]) -> Result<String, String> {
    if known.contains(&value) {
        return Ok(value.to_owned());
    }
    let near = suggest::hint(value, known.iter().copied());
    Err(format!("must be one of {}{near}", known.join(", ")))
}

fn yes_no(value: &str) -> Result<bool, String> {
    match value {
        "yes" | "true" | "on" => Ok(true),
        "no" | "false" | "off" => Ok(false),
        _ => Err("must be yes or no".to_owned()),
    }
}

fn count(value: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = units::parse_count(value).map_err(|error| error.to_string())?;
    let fits = u32::try_from(number).ok().filter(|number| (min..=max).contains(number));
    fits.ok_or_else(|| format!("must be between {min} and {max}"))
}

/// A size larger than nothing.
fn size(value: &str) -> Result<u64, String> {
    match units::parse_size(value).map_err(|error| error.to_string())? {
        0 => Err("must be larger than 0".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A size or a share.
fn extent(value: &str) -> Result<(), String> {
    let parsed = match value.trim_end().ends_with('%') {
        true => units::parse_fraction(value).map(|_| ()),
        false => units::parse_size(value).map(|_| ()),
    };
    parsed.map_err(|error| error.to_string())
}

fn missing(layer: &str, key: &str) -> String {
    format!("there is no {layer} that it could belong to; give {key}")
}

fn set_slice(spec: &mut SetupSpec, own: &str, value: &str) -> Result<(), String> {
    let slice = || SliceSpec { start: "1MiB".to_owned(), size: None };
    match own {
        "start" => {
            extent(value)?;
            spec.slice.get_or_insert_with(slice).start = value.to_owned();
        }
        "size" => {
            size(value)?;
            spec.slice.get_or_insert_with(slice).size = Some(value.to_owned());
        }
        _ => return Err(unknown(&format!("slice.{own}"))),
    }
    Ok(())
}

fn set_crypt(spec: &mut SetupSpec, own: &str, value: &str) -> Result<(), String> {
    let made = || CryptSpec {
        kind: "luks2".to_owned(),
        cipher: "aes-xts-plain64".to_owned(),
        sector_size: 512,
        no_workqueues: false,
    };
    if own == "type" {
        let kind = one_of(value, &["none", "luks2", "plain"])?;
        if let Some(crypt) = place(&mut spec.crypt, value != "none", made()) {
            crypt.kind = kind;
        }
        return Ok(());
    }
    // A value is checked also where there is no encryption.
    set_crypt_part(&mut made(), own, value)?;
    let crypt = spec.crypt.as_mut().ok_or_else(|| missing("encryption", "crypt.type"))?;
    set_crypt_part(crypt, own, value)
}

fn set_crypt_part(crypt: &mut CryptSpec, own: &str, value: &str) -> Result<(), String> {
    match own {
        "cipher" => {
            let is_word = |c: char| c.is_ascii_alphanumeric() || "-:.()".contains(c);
            if !value.contains('-') || !value.chars().all(is_word) {
                return Err("is no cipher; write for example aes-xts-plain64".to_owned());
            }
            crypt.cipher = value.to_owned();
        }
        "sector_size" => {
            let size = one_of(value, &["512", "1024", "2048", "4096"])?;
            crypt.sector_size = size.parse().unwrap_or(512);
        }
        "no_workqueues" => crypt.no_workqueues = yes_no(value)?,
        _ => return Err(unknown(&format!("crypt.{own}"))),
    }
    Ok(())
}

fn set_volume(spec: &mut SetupSpec, own: &str, value: &str) -> Result<(), String> {
    if own == "type" {
        let kind = one_of(value, &["none", "linear", "striped"])?;
        let made =
            VolumeSpec { kind: String::new(), stripe_size: None, size: None, data_alignment: None };
        if let Some(volume) = place(&mut spec.volume, value != "none", made) {
            volume.kind = kind;
        }
        return Ok(());
    }
    match own {
        "stripe_size" => {
            let bytes = size(value)?;
            if !bytes.is_power_of_two() || bytes < 4096 {
                return Err("must be a power of two from 4k".to_owned());
            }
        }
        "size" => extent(value)?,
        "data_alignment" if value == "stride" => {}
        "data_alignment" => size(value).map(|_| ())?,
        _ => return Err(unknown(&format!("volume.{own}"))),
    }
    let volume = spec.volume.as_mut().ok_or_else(|| missing("volume", "volume.type"))?;
    let value = Some(value.to_owned());
    match own {
        "stripe_size" => volume.stripe_size = value,
        "size" => volume.size = value,
        _ => volume.data_alignment = value,
    }
    Ok(())
}

fn set_mount(spec: &mut SetupSpec, own: &str, value: &str) -> Result<(), String> {
    if own == "options" {
        let options = mount::options(value)?;
        return match spec.filesystem.as_mut() {
            Some(filesystem) => {
                filesystem.mount_options = options;
                Ok(())
            }
            None if options.is_empty() => Ok(()),
            None => Err(missing("filesystem", "filesystem.type")),
        };
    }
    let kind = spec.filesystem.as_ref().map(|filesystem| filesystem.kind.clone());
    let option = mount::option(own, value, kind.as_deref())?;
    let filesystem = spec.filesystem.as_mut();
    let filesystem = filesystem.ok_or_else(|| missing("filesystem", "filesystem.type"))?;
    filesystem.mount_options.retain(|known| !mount::are_rivals(known, own));
    filesystem.mount_options.extend(option);
    Ok(())
}

/// `/dev/sdb`, `loop:1GiB`.
///
/// # Errors
/// It is neither.
pub(crate) fn device(text: &str) -> Result<(), String> {
    if let Some(of) = text.strip_prefix("loop:") {
        return match size(of)? {
            bytes if bytes >= LOOP_BYTES_MIN => Ok(()),
            _ => Err("a loop device needs at least 16MiB".to_owned()),
        };
    }
    if text.starts_with('/') {
        return Ok(());
    }
    Err("must be the path of a device, such as /dev/sdb, or loop:SIZE for one over a file of fathom's".to_owned())
}

/// What of the combination cannot exist.
///
/// # Errors
/// Which key it lies with, and why not.
pub(crate) fn check(spec: &SetupSpec) -> Result<(), Fault> {
    if spec.is_empty() {
        return Ok(());
    }
    if spec.devices.is_empty() {
        return Err(fault("devices", "nothing can be built without devices; give devices = [...]"));
    }
    if let Some(map) = &spec.multipath {
        multipath::check(map, spec)?;
    }
    if let Some(array) = &spec.array {
        array::check(array, spec.devices.len())?;
    }
    if let Some(volume) = &spec.volume {
        check_volume(volume, spec)?;
    }
    match &spec.filesystem {
        Some(filesystem) => filesystem::check(filesystem, spec),
        None => Ok(()),
    }
}

/// Something that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The key that it lies with.
    pub key: &'static str,
    /// Why not.
    pub reason: String,
}

fn fault(key: &'static str, reason: impl Into<String>) -> Fault {
    Fault { key, reason: reason.into() }
}

fn check_volume(volume: &VolumeSpec, spec: &SetupSpec) -> Result<(), Fault> {
    let is_joined = spec.array.is_some() || spec.multipath.is_some();
    let below = if is_joined { 1 } else { spec.devices.len() };
    match volume.kind.as_str() {
        "striped" if below < 2 => {
            let reason = "a striped volume needs at least two devices below, and there is one";
            Err(fault("volume.type", reason))
        }
        "linear" if volume.stripe_size.is_some() => Err(fault(
            "volume.stripe_size",
            "a linear volume has no stripes; leave it out, or choose volume.type = \"striped\"",
        )),
        _ => Ok(()),
    }
}

/// Makes a layer, keeps the one that is there, or takes it away.
fn place<T>(layer: &mut Option<T>, is_wanted: bool, made: T) -> Option<&mut T> {
    if !is_wanted {
        *layer = None;
        return None;
    }
    Some(layer.get_or_insert(made))
}

/// Why a key means nothing in this setup; none when it does.
pub(crate) fn inapplicable(spec: &SetupSpec, name: &str) -> Option<String> {
    let (head, own) = name.split_once('.').unwrap_or((name, ""));
    let is_missing = match head {
        _ if LAYERS.contains(&name) => false,
        "array" => spec.array.is_none(),
        "multipath" => spec.multipath.is_none(),
        "crypt" => spec.crypt.is_none(),
        "volume" => spec.volume.is_none(),
        "filesystem" | "mount" => spec.filesystem.is_none(),
        _ => false,
    };
    if is_missing {
        let layer = if head == "mount" { "filesystem" } else { head };
        return Some(format!("there is no {layer}, so {name} means nothing"));
    }
    match (&spec.array, &spec.filesystem) {
        (Some(array), _) if head == "array" => array::inapplicable(array, own),
        (_, Some(fs)) if head == "filesystem" => filesystem::inapplicable(fs, own),
        (_, Some(filesystem)) if head == "mount" => {
            mount::inapplicable(own, &filesystem.kind, &filesystem.mount_options)
        }
        _ => None,
    }
}

/// Leaves out what the array's level, or this kind of filesystem, does not have; for plans in which these vary.
pub(crate) fn prune(spec: &mut SetupSpec, level_varies: bool, kind_varies: bool) {
    if let Some(fs) = spec.filesystem.as_mut().filter(|fs| kind_varies && fs.kind != "btrfs") {
        (fs.data_profile, fs.metadata_profile) = (None, None);
    }
    let Some(array) = spec.array.as_mut().filter(|_| level_varies) else { return };
    if array::inapplicable(array, "chunk").is_some() {
        array.chunk = None;
    }
    if array::inapplicable(array, "layout").is_some() {
        array.layout = None;
    }
    if array::inapplicable(array, "bitmap").is_some() {
        array.bitmap = None;
    }
}

/// An array without anything said about it.
fn array_spec(level: String) -> ArraySpec {
    ArraySpec {
        level,
        layout: None,
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
