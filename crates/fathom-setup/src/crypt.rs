//! Encryption by dm-crypt with a key that nobody knows and that is kept nowhere.

use crate::error::{SetupError, io_at};
use crate::known;
use crate::site::{Device, Site, device_of};
use crate::tools::Call;
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::CryptSpec;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// As long as the longest key: 512 bits, of which XTS takes two halves.
const KEY_BYTES: usize = 64;
/// What a LUKS2 header takes by default.
const HEADER_BYTES: u64 = 16 << 20;

/// Encrypts each of the devices.
pub(crate) fn build(
    site: &mut Site<'_, '_>,
    spec: &CryptSpec,
    devices: &[Device],
) -> Result<Vec<Device>, SetupError> {
    let mut made = Vec::new();
    for device in devices {
        made.push(encrypt(site, spec, device, made.len())?);
    }
    Ok(made)
}

fn encrypt(
    site: &mut Site<'_, '_>,
    spec: &CryptSpec,
    device: &Device,
    number: usize,
) -> Result<Device, SetupError> {
    let is_plain = match spec.kind.as_str() {
        "plain" => true,
        "luks2" => false,
        other => {
            return Err(SetupError::Spec(format!("crypt: '{other}' is neither luks2 nor plain")));
        }
    };
    let key = key(site)?;
    let cipher = [
        format!("--cipher={}", spec.cipher),
        format!("--key-size={}", key_bits(&spec.cipher)),
        format!("--sector-size={}", spec.sector_size),
    ];
    if !is_plain {
        format(site, device, &cipher, &key)?;
    }
    let name = format!("fathom-{}-crypt{number}", site.id());
    let mut open = Call::new("cryptsetup", ["open", "--batch-mode", "--key-file=-"]);
    open = if is_plain {
        let key_size = format!("--keyfile-size={}", key_bits(&spec.cipher) / 8);
        open.arg("--type=plain").args(cipher).arg(key_size)
    } else {
        open.args(["--type=luks2", "--disable-keyring"])
    };
    if spec.no_workqueues {
        open = open.args(["--perf-no_read_workqueue", "--perf-no_write_workqueue"]);
    }
    let open = open.args([device.word(), name.clone()]).input(key);
    let change = SetupChange::Crypt { name: name.clone(), device_id: device.id.clone() };
    site.make(change, &[device], &open)?;
    let path = Path::new("/dev/mapper").join(&name);
    if site.is_dry() {
        let header = if is_plain { 0 } else { HEADER_BYTES };
        let size = device.size_bytes.saturating_sub(header);
        return Ok(site.imagined(&path.display().to_string(), size, device));
    }
    let found = site.wait_for(&path.display().to_string(), |root| {
        known::mapped(root, &name).filter(|_| path.exists())
    })?;
    if !found.slaves().iter().any(|slave| slave.name() == device.name) {
        let text = format!("{} does not lie on {}", path.display(), device.name);
        return Err(SetupError::NotAsAsked(text));
    }
    let path: PathBuf = std::fs::canonicalize(&path).map_err(io_at("reach", &path))?;
    let made = Device { is_own_loop: device.is_own_loop, ..device_of(site.root, &found, path) };
    // The key is new: whatever lies below shows as noise.
    site.hold_new(&made, None)?;
    Ok(made)
}

fn format(
    site: &mut Site<'_, '_>,
    device: &Device,
    cipher: &[String; 3],
    key: &[u8],
) -> Result<(), SetupError> {
    let uuid = site.uuid()?;
    // Its whole entropy is in the key: guessing it again and again costs only time.
    let call = Call::new("cryptsetup", ["luksFormat", "--batch-mode", "--type=luks2"])
        .arg(format!("--uuid={uuid}"))
        .args(cipher)
        .args(["--pbkdf=pbkdf2", "--pbkdf-force-iterations=1000", "--key-file=-"])
        .arg(device.word());
    let change = SetupChange::Signature {
        device_id: device.id.clone(),
        name: device.name.clone(),
        signature: "LUKS2".to_owned(),
        uuid,
    };
    site.make(change, &[device], &call.input(key)).map(|_| ())
}

fn key_bits(cipher: &str) -> usize {
    if cipher.contains("xts") { 512 } else { 256 }
}

fn key(site: &Site<'_, '_>) -> Result<Vec<u8>, SetupError> {
    let mut key = vec![0; KEY_BYTES];
    if !site.is_dry() {
        let path = site.root.path("dev/urandom");
        let read = File::open(&path).and_then(|mut file| file.read_exact(&mut key));
        read.map_err(io_at("read", &path))?;
    }
    Ok(key)
}
