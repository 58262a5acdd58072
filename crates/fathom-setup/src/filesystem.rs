//! Making filesystems: with options computed from the geometry below, a UUID chosen before, and nothing left to the background.

use crate::error::SetupError;
use crate::make_options;
use crate::site::{Device, Site};
use crate::tools::Call;
use fathom_base::units::parse_size;
use fathom_check::array::{Striping, ext_options, xfs_options};
use fathom_model::change::setup::SetupChange;
use fathom_model::plan::setup::FilesystemSpec;

/// Blocks of all filesystems here, unless the options say otherwise: smaller ones are chosen by mkfs for small devices, and
/// would make small trials differ from large ones.
const BLOCK_BYTES: u64 = 4096;

/// Kinds that are known.
pub(crate) const KINDS: [&str; 6] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

/// The tool that makes it.
pub(crate) fn tool(kind: &str) -> Result<&'static str, SetupError> {
    Ok(match kind {
        "ext2" => "mkfs.ext2",
        "ext3" => "mkfs.ext3",
        "ext4" => "mkfs.ext4",
        "xfs" => "mkfs.xfs",
        "btrfs" => "mkfs.btrfs",
        "f2fs" => "mkfs.f2fs",
        other => {
            let text = format!("filesystem: '{other}' is none of {}", KINDS.join(", "));
            return Err(SetupError::Spec(text));
        }
    })
}

/// True for ext2, ext3, ext4.
pub(crate) fn is_ext(kind: &str) -> bool {
    kind.starts_with("ext")
}

/// What it is made on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// By which it is known and mounted.
    pub device: &'a Device,
    /// Those that it takes beside that one.
    pub further: &'a [Device],
    pub journal: Option<&'a Device>,
    pub striping: Option<Striping>,
}

/// Makes it; a journal of its own device first.
pub(crate) fn make(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    ground: Ground<'_>,
) -> Result<(), SetupError> {
    make_options::check(&spec.kind, &spec.make_options)?;
    let Ground { device, further, journal, .. } = ground;
    let uuid = site.uuid()?;
    if let Some(journal) = journal {
        make_journal(site, spec, journal, &uuid)?;
    }
    let call = call(site, spec, ground, &uuid)?;
    let change = signature(device, &spec.kind, &uuid);
    for other in further {
        site.intend(signature(other, &spec.kind, &uuid))?;
    }
    let mut devices = vec![device];
    devices.extend(further);
    devices.extend(journal);
    site.make(change, &devices, &call)?;
    if !site.is_dry() {
        for device in std::iter::once(device).chain(further) {
            site.hold(device)?;
        }
    }
    Ok(())
}

fn signature(device: &Device, kind: &str, uuid: &str) -> SetupChange {
    SetupChange::Signature {
        device_id: device.id.clone(),
        name: device.name.clone(),
        signature: kind.to_owned(),
        uuid: uuid.to_owned(),
    }
}

/// ext journals have a superblock; XFS writes its log with the filesystem.
fn make_journal(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    journal: &Device,
    filesystem_uuid: &str,
) -> Result<(), SetupError> {
    match spec.kind.as_str() {
        "ext3" | "ext4" => {
            let uuid = site.uuid()?;
            let block = block_bytes(spec)?;
            let call = Call::new("mkfs.ext4", ["-q", "-O", "journal_dev", "-U", &uuid]).args([
                "-b",
                &block.to_string(),
                &journal.word(),
            ]);
            site.make(signature(journal, "ext journal", &uuid), &[journal], &call).map(|_| ())
        }
        "xfs" => {
            let step = signature(journal, "xfs external log", filesystem_uuid);
            site.intend(step).map(|_| ())
        }
        other => {
            let text = format!("filesystem.journal: {other} has no journal on another device");
            Err(SetupError::Spec(text))
        }
    }
}

fn call(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    ground: Ground<'_>,
    uuid: &str,
) -> Result<Call, SetupError> {
    let Ground { device, further, journal, striping } = ground;
    let given = &spec.make_options;
    // Discards would make holes in the file behind a loop device that was written whole.
    let keeps = device.is_own_loop;
    let words: Vec<String> = match spec.kind.as_str() {
        "xfs" => {
            let mut words = vec!["-q".to_owned(), "-m".to_owned(), format!("uuid={uuid}")];
            words.extend(keeps.then(|| "-K".to_owned()));
            words.extend(xfs_geometry(site, spec, striping)?);
            if let Some(journal) = journal {
                words.extend(["-l".to_owned(), format!("logdev={}", journal.word())]);
            }
            words.extend(given.iter().cloned());
            words
        }
        "btrfs" => {
            let mut words = vec!["-q".to_owned(), "-U".to_owned(), uuid.to_owned()];
            words.extend(keeps.then(|| "-K".to_owned()));
            for (option, profile) in [("-d", &spec.data_profile), ("-m", &spec.metadata_profile)] {
                words.extend(
                    profile.iter().flat_map(|profile| [option.to_owned(), profile.clone()]),
                );
            }
            words.extend(given.iter().cloned());
            words
        }
        "f2fs" => {
            let mut words = vec!["-q".to_owned(), "-U".to_owned(), uuid.to_owned()];
            words.extend(keeps.then(|| ["-t".to_owned(), "0".to_owned()]).into_iter().flatten());
            words.extend(given.iter().cloned());
            words
        }
        _ => ext_words(site, spec, ground, uuid)?,
    };
    let devices = std::iter::once(device).chain(further).map(Device::word);
    Ok(Call::new(tool(&spec.kind)?, words).args(devices))
}

fn block_bytes(spec: &FilesystemSpec) -> Result<u64, SetupError> {
    let mut options = spec.make_options.iter();
    while let Some(option) = options.next() {
        let value = match option.strip_prefix("-b") {
            Some("") => options.next().map(String::as_str).unwrap_or_default(),
            Some(value) => value,
            None => continue,
        };
        let value = value.trim_start_matches("size=");
        return parse_size(value)
            .map_err(|e| SetupError::Spec(format!("filesystem.make_options: -b {value}: {e}")));
    }
    Ok(BLOCK_BYTES)
}

fn ext_words(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    ground: Ground<'_>,
    uuid: &str,
) -> Result<Vec<String>, SetupError> {
    let Ground { device, journal, striping, .. } = ground;
    let block = block_bytes(spec)?;
    // mke2fs takes the last -E alone: ours and those given become one.
    let mut extended: Vec<String> = Vec::new();
    let mut rest: Vec<String> = Vec::new();
    let mut given = spec.make_options.iter();
    while let Some(option) = given.next() {
        match option.strip_prefix("-E") {
            Some("") => extended.extend(given.next().cloned()),
            Some(value) => extended.push(value.to_owned()),
            None => rest.push(option.clone()),
        }
    }
    let has =
        |name: &str| extended.iter().any(|words| words.split(',').any(|w| w.starts_with(name)));
    let mut ours: Vec<String> = Vec::new();
    let lazy = u8::from(spec.is_lazy);
    for name in ["lazy_itable_init", "lazy_journal_init"] {
        ours.extend((!has(name)).then(|| format!("{name}={lazy}")));
    }
    ours.extend((device.is_own_loop && !has("discard")).then(|| "nodiscard".to_owned()));
    let is_given = has("stride") || has("stripe");
    if let Some(striping) = striping.filter(|_| spec.is_aligned && !is_given) {
        match ext_options(&striping, block) {
            Some(options) => ours.push(options.words()),
            None => site.remark(format!(
                "blocks of {block} bytes do not fit into chunks of {} bytes: no stride",
                striping.chunk_bytes
            )),
        }
    }
    ours.extend(extended);
    let mut words = vec!["-q".to_owned(), "-U".to_owned(), uuid.to_owned()];
    if !rest.iter().any(|option| option.starts_with("-b")) {
        words.extend(["-b".to_owned(), block.to_string()]);
    }
    words.extend(["-E".to_owned(), ours.join(",")]);
    if let Some(journal) = journal {
        words.extend(["-J".to_owned(), format!("device={}", journal.word())]);
    }
    words.extend(rest);
    Ok(words)
}

fn xfs_geometry(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    striping: Option<Striping>,
) -> Result<Vec<String>, SetupError> {
    let block = block_bytes(spec)?;
    let own = ["su=", "sw=", "sunit=", "swidth=", "noalign"];
    let is_given = spec.make_options.iter().any(|o| {
        o.trim_start_matches("-d")
            .split(',')
            .any(|word| own.iter().any(|own| word.starts_with(own)))
    });
    if is_given {
        return Ok(Vec::new());
    }
    if !spec.is_aligned {
        return Ok(vec!["-d".to_owned(), "noalign".to_owned()]);
    }
    let Some(striping) = striping else { return Ok(Vec::new()) };
    let Some(options) = xfs_options(&striping, block) else {
        site.remark(format!(
            "blocks of {block} bytes do not fit into chunks of {} bytes: no su and sw",
            striping.chunk_bytes
        ));
        return Ok(Vec::new());
    };
    Ok(vec!["-d".to_owned(), options.mkfs_words()])
}
