//! A logical volume over all that lies below, in a group of its own. LVM looks at our devices only and keeps no copies of what it writes.

use crate::capacity::{self, VolumeSize};
use crate::error::{SetupError, io_at};
use crate::known;
use crate::site::{Device, Site, device_of};
use crate::tools::Call;
use fathom_base::units::parse_size;
use fathom_check::array::{Striping, kib_words};
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::VolumeSpec;
use std::path::Path;

/// Name of the only volume.
const NAME: &str = "data";
/// What marks its devices.
pub(crate) const SIGNATURE: &str = "LVM2 PV";
/// LVM's own default.
const STRIPE_BYTES_DEFAULT: u64 = 64 << 10;

/// The configuration that keeps LVM to these devices; without any, it sees none.
pub(crate) fn config(devices: &[String]) -> String {
    let accept = devices.iter().map(|path| format!("\"a|^{}$|\"", escaped(path)));
    let filters: Vec<String> = accept.chain(["\"r|.*|\"".to_owned()]).collect();
    let filter = format!("[ {} ]", filters.join(", "));
    format!(
        "--config=devices {{ filter = {filter} global_filter = {filter} use_devicesfile = 0 }} backup {{ backup = 0 archive = 0 }}"
    )
}

fn escaped(path: &str) -> String {
    let special = |c: char| !(c.is_ascii_alphanumeric() || "/_-".contains(c));
    path.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

fn stripe_bytes(spec: &VolumeSpec) -> Result<u64, SetupError> {
    let Some(text) = &spec.stripe_size else { return Ok(STRIPE_BYTES_DEFAULT) };
    let bytes =
        parse_size(text).map_err(|e| SetupError::Spec(format!("volume.stripe_size: {e}")))?;
    if bytes >= 4096 && bytes.is_power_of_two() {
        return Ok(bytes);
    }
    Err(SetupError::Spec(format!("volume.stripe_size {text}: a power of two from 4k")))
}

fn is_striped(spec: &VolumeSpec, devices: usize) -> Result<bool, SetupError> {
    match spec.kind.as_str() {
        "linear" => Ok(false),
        "striped" if devices > 1 => Ok(true),
        "striped" => {
            let text = "volume: striped needs several devices below, and there is one".to_owned();
            Err(SetupError::Spec(text))
        }
        other => Err(SetupError::Spec(format!("volume: '{other}' is neither linear nor striped"))),
    }
}

/// How it deals its addresses out; what lies below decides where it is linear.
pub(crate) fn striping(
    spec: &VolumeSpec,
    devices: usize,
    below: Option<Striping>,
) -> Option<Striping> {
    if !is_striped(spec, devices).ok()? {
        return below.filter(|_| devices == 1);
    }
    let disks = devices as u64;
    let chunk_bytes = stripe_bytes(spec).ok()?;
    Some(Striping {
        chunk_bytes,
        data_disks: disks,
        disks,
        near_copies: 1,
        parity: false,
        is_copy: false,
    })
}

/// Makes it.
pub(crate) fn build(
    site: &mut Site<'_, '_>,
    spec: &VolumeSpec,
    devices: &[Device],
    below: Option<Striping>,
) -> Result<Device, SetupError> {
    let is_striped = is_striped(spec, devices.len())?;
    let words: Vec<String> = devices.iter().map(Device::word).collect();
    let config = config(&words);
    let mut uuids = Vec::new();
    for device in devices {
        uuids.push(physical(site, spec, device, &config, below)?);
    }
    let group = format!("fathom-{}", site.id());
    let change = SetupChange::Group { name: group.clone(), uuids: uuids.clone() };
    let call = Call::new("lvm", ["vgcreate", &config, "--quiet", &group]).args(words);
    let all: Vec<&Device> = devices.iter().collect();
    site.make(change, &all, &call)?;
    let mut call = Call::new("lvm", ["lvcreate", &config, "--quiet", "--yes", "--name", NAME])
        // What shows on it is wiped by fathom, which notes first that it is old.
        .args(["--wipesignatures=n", "--zero=n"])
        .arg(match size(spec)? {
            VolumeSize::Share(percent) => format!("--extents={percent}%VG"),
            VolumeSize::Bytes(bytes) => format!("--size={bytes}b"),
        });
    if is_striped {
        let stripe = kib_words(stripe_bytes(spec)?);
        call =
            call.args([format!("--stripes={}", devices.len()), format!("--stripesize={stripe}")]);
    }
    let volume = SetupChange::Volume { group: group.clone(), name: NAME.to_owned(), uuids };
    // Nobody can hold the devices between the group and the volume: lvm itself opens them.
    let name = format!("{}-{NAME}", group.replace('-', "--"));
    let old = site.make_new(&name, volume, &[], &call.arg(&group))?;
    let path = Path::new("/dev/mapper").join(&name);
    if site.is_dry() {
        let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes).collect();
        let align = alignment(spec, below)?;
        let bytes = capacity::of_volume(is_striped, size(spec)?, align, &sizes);
        let first = devices.first().cloned();
        let first = first.ok_or_else(|| SetupError::Spec("volume: no devices".to_owned()))?;
        return Ok(site.imagined(&path.display().to_string(), bytes, &first));
    }
    let found = site.wait_for(&path.display().to_string(), |root| {
        known::mapped(root, &name).filter(|_| path.exists())
    })?;
    let is_ours = found.slaves().iter().all(|slave| devices.iter().any(|d| d.name == slave.name()));
    if !is_ours {
        let text = format!("{} does not lie on our devices alone", path.display());
        return Err(SetupError::NotAsAsked(text));
    }
    let path = std::fs::canonicalize(&path).map_err(io_at("reach", &path))?;
    let is_own_loop = devices.iter().any(|device| device.is_own_loop);
    let made = Device { is_own_loop, ..device_of(site.root, &found, path) };
    site.hold_new(&made, Some(old))?;
    Ok(made)
}

fn physical(
    site: &mut Site<'_, '_>,
    spec: &VolumeSpec,
    device: &Device,
    config: &str,
    below: Option<Striping>,
) -> Result<String, SetupError> {
    let uuid = lvm_uuid(&site.uuid()?);
    site.known.add(&uuid);
    let mut call = Call::new("lvm", ["pvcreate", config, "--quiet", "--yes", "--norestorefile"])
        .args(["--uuid", &uuid]);
    if let Some(bytes) = alignment(spec, below)? {
        call = call.arg(format!("--dataalignment={}", kib_words(bytes)));
    }
    let change = SetupChange::Signature {
        device_id: device.id.clone(),
        name: device.name.clone(),
        signature: SIGNATURE.to_owned(),
        uuid: uuid.clone(),
    };
    site.make(change, &[device], &call.arg(device.word()))?;
    if !site.is_dry() {
        site.hold(device)?;
    }
    Ok(uuid)
}

fn alignment(spec: &VolumeSpec, below: Option<Striping>) -> Result<Option<u64>, SetupError> {
    match spec.data_alignment.as_deref() {
        None => Ok(None),
        Some("stride") => match below {
            Some(striping) => Ok(Some(striping.full_stripe_bytes())),
            None => Err(SetupError::Spec(
                "volume.data_alignment = stride needs an array with chunks below".to_owned(),
            )),
        },
        Some(text) => {
            let bytes = parse_size(text);
            bytes.map(Some).map_err(|e| SetupError::Spec(format!("volume.data_alignment: {e}")))
        }
    }
}

fn size(spec: &VolumeSpec) -> Result<VolumeSize, SetupError> {
    let text = spec.size.as_deref().unwrap_or("100%").trim();
    if let Some(share) = text.strip_suffix('%') {
        let share: u32 = share.trim().parse().unwrap_or(0);
        if (1..=100).contains(&share) {
            return Ok(VolumeSize::Share(share));
        }
        return Err(SetupError::Spec(format!("volume.size {text}: from 1% to 100%")));
    }
    let bytes = parse_size(text).map_err(|e| SetupError::Spec(format!("volume.size: {e}")))?;
    Ok(VolumeSize::Bytes(bytes))
}

/// LVM's form of a UUID: 32 letters and digits in seven groups.
fn lvm_uuid(uuid: &str) -> String {
    let digits: String = uuid.chars().filter(char::is_ascii_alphanumeric).collect();
    if digits.len() != 32 {
        return uuid.to_owned();
    }
    let groups = [0..6, 6..10, 10..14, 14..18, 18..22, 22..26, 26..32];
    groups.map(|range| &digits[range]).join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_lvms_form() {
        let uuid = lvm_uuid("01234567-89ab-cdef-0123-456789abcdef");
        assert_eq!(uuid, "012345-6789-abcd-ef01-2345-6789-abcdef");
    }

    #[test]
    fn lvm_sees_our_devices_only() {
        let config = config(&["/dev/sda1".to_owned(), "/dev/mapper/a.b".to_owned()]);
        assert!(
            config.contains(r#"[ "a|^/dev/sda1$|", "a|^/dev/mapper/a\.b$|", "r|.*|" ]"#),
            "{config}"
        );
        // None of its devices is there yet, or any more.
        assert!(super::config(&[]).contains(r#"{ filter = [ "r|.*|" ] global"#));
    }
}
