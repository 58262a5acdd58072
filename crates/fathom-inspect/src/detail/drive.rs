//! Asking drives of their health and abilities, without waking them.

use super::{ata, nvme, scsi, why};
use fathom_model::snapshot::Unread;
use fathom_model::stack::detail::{DriveIdentity, Health};
use fathom_model::stack::{Node, NodeKind};
use fathom_sys::devno::DevNo;
use fathom_sys::fsinfo;
use fathom_sys::sysfs_block::BlockDir;
use fathom_sys::{ata as ata_questions, nvme as nvme_questions, scsi as scsi_questions};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a drive understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// ATA, carried by SCSI: libata, SAS adapters and USB bridges translate.
    Ata,
    /// SCSI.
    Scsi,
    /// NVMe.
    Nvme,
}

/// After so many milliseconds of answering in all, a drive is asked no more: it is busy, or ill.
const PATIENCE_MS: u32 = 2000;

/// The language of a drive; none for what is no drive, or answers nothing that is of use.
pub(crate) fn language(device: &BlockDir, node: &Node) -> Option<Language> {
    device.devno()?;
    let drive = node.drive.as_ref()?;
    match device.bus()?.as_str() {
        "nvme" | "nvme-subsystem" => Some(Language::Nvme),
        "scsi" => {
            // Disks and disks with zones; optical drives and tapes are others.
            let is_disk = matches!(device.value("device/type"), None | Some(0 | 20));
            let on_usb = drive.transport.as_deref() == Some("usb");
            match drive.vendor.as_deref() {
                _ if !is_disk => None,
                // A stick or card reader; its controller may not bear any question.
                _ if on_usb && device.flag("removable") != Some(false) => None,
                Some("ATA") => Some(Language::Ata),
                _ if on_usb => Some(Language::Ata),
                _ => Some(Language::Scsi),
            }
        }
        _ => None,
    }
}

/// True when the drive stands still and would have to start for a read.
pub(crate) fn sleeps(device: &BlockDir, language: Language) -> io::Result<bool> {
    if language == Language::Nvme {
        return Ok(false);
    }
    let file = open(device)?;
    if language == Language::Ata {
        let question = scsi_questions::Question::Ata(ata_questions::Question::CheckPowerMode);
        let answer = scsi_questions::ask(&file, question)?;
        if let Some(registers) = ata_questions::registers(&answer.sense) {
            return Ok(ata_questions::is_standby(&registers));
        }
    }
    let answer = scsi_questions::ask(&file, scsi_questions::Question::RequestSense)?;
    Ok(scsi_questions::is_asleep(&answer.data))
}

/// Opens the device node, when it is still the node of this device.
fn open(device: &BlockDir) -> io::Result<File> {
    let file = fsinfo::open_for_questions(Path::new(&device.dev_path()))?;
    let number = DevNo::from_raw(file.metadata()?.rdev());
    if Some(number) == device.devno() { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// What a drive said.
#[derive(Default)]
pub(crate) struct Said {
    pub(crate) health: Option<Health>,
    pub(crate) identity: Option<DriveIdentity>,
    pub(crate) unread: Vec<Unread>,
}

/// Asks a drive that is awake.
pub(crate) fn ask(device: &BlockDir, language: Language) -> Said {
    let (mut health, mut identity) = (Health::default(), DriveIdentity::default());
    let result = open(device).and_then(|file| match language {
        Language::Ata => ask_ata(&file, &mut health, &mut identity),
        Language::Scsi => ask_scsi(&file, device, &mut health, &mut identity),
        Language::Nvme => ask_nvme(&file, device, &mut health, &mut identity),
    });
    let what = format!("{}: health and identity", device.dev_path());
    let unread = result.err().map(|error| Unread { what, why: why(&error) });
    Said {
        health: Some(health).filter(|health| *health != Health::default()),
        identity: Some(identity).filter(|identity| *identity != DriveIdentity::default()),
        unread: unread.into_iter().collect(),
    }
}

/// A conversation with a device that speaks SCSI.
struct Talk<'a> {
    file: &'a File,
    took_ms: u32,
}

impl Talk<'_> {
    /// The answer; an error only when no further question makes sense.
    fn ask(&mut self, question: scsi_questions::Question) -> io::Result<scsi_questions::Answer> {
        if self.took_ms > PATIENCE_MS {
            let text = format!("the drive took {} ms for its first answers", self.took_ms);
            return Err(io::Error::other(text));
        }
        let answer = scsi_questions::ask(self.file, question)?;
        self.took_ms = self.took_ms.saturating_add(answer.took_ms);
        Ok(answer)
    }

    /// The data of a good answer, else nothing.
    fn data(&mut self, question: scsi_questions::Question) -> io::Result<Vec<u8>> {
        let answer = self.ask(question)?;
        Ok(if answer.status == 0 { answer.data } else { Vec::new() })
    }

    /// The data of an ATA command; the translation may have put its registers into sense data beside it.
    fn ata(&mut self, question: ata_questions::Question) -> io::Result<Vec<u8>> {
        let answer = self.ask(scsi_questions::Question::Ata(question))?;
        let failed = ata_questions::registers(&answer.sense).is_some_and(|r| r.status & 1 == 1);
        let refused = answer.status != 0 && ata_questions::registers(&answer.sense).is_none();
        Ok(if failed || refused { Vec::new() } else { answer.data })
    }
}

fn ask_ata(file: &File, health: &mut Health, identity: &mut DriveIdentity) -> io::Result<()> {
    use ata_questions::Question::{
        Identify, Log, SelfTestLog, SmartData, SmartStatus, SmartThresholds,
    };
    /// The log of device statistics, and its pages for temperature and solid state.
    const STATISTICS: (u8, [u8; 2]) = (4, [5, 7]);
    let mut talk = Talk { file, took_ms: 0 };
    let identify = talk.ata(Identify)?;
    let Some(found) = ata::identity(&identify) else { return Ok(()) };
    *identity = found;
    if ata::has_smart(&identify) {
        let status = talk.ask(scsi_questions::Question::Ata(SmartStatus))?;
        let registers = ata_questions::registers(&status.sense);
        health.passed = registers.as_ref().and_then(ata_questions::has_passed);
        let data = talk.ata(SmartData)?;
        ata::add_smart_data(&data, health);
        if health.passed.is_none() {
            health.passed = ata::passed_by_thresholds(&data, &talk.ata(SmartThresholds)?);
        }
        health.self_test = ata::self_test(&talk.ata(SelfTestLog)?);
    }
    let (log, pages) = STATISTICS;
    if ata::has_logs(&identify) && ata::lists_log(&talk.ata(Log(0, 0))?, log) {
        for page in pages {
            ata::add_statistics(&talk.ata(Log(log, page))?, health);
        }
    }
    Ok(())
}

fn ask_scsi(
    file: &File,
    device: &BlockDir,
    health: &mut Health,
    identity: &mut DriveIdentity,
) -> io::Result<()> {
    use scsi_questions::Question::{GrownDefects, LogPage, ModePage, ReadCapacity16};
    let mut talk = Talk { file, took_ms: 0 };
    scsi::add_capacity(&talk.data(ReadCapacity16)?, identity);
    let logical_bytes = identity.logical_bytes.unwrap_or(512);
    let listed = scsi::pages(&product_data(&mut talk, device, 0)?);
    for page in [0x86, 0xb0, 0xb1, 0xb2].into_iter().filter(|page| listed.contains(page)) {
        let data = product_data(&mut talk, device, page)?;
        scsi::add_product_data(&data, logical_bytes, identity);
    }
    scsi::add_caching_page(&talk.data(ModePage(0x08))?, identity);
    let logs = scsi::pages(&talk.data(LogPage(0))?);
    for page in scsi::LOG_PAGES.into_iter().filter(|page| logs.contains(page)) {
        scsi::add_log_page(&talk.data(LogPage(page))?, health);
    }
    // Elsewhere it is the array behind the device that keeps such lists.
    if hangs_on_sas(device) {
        health.grown_defects = scsi::grown_defects(&talk.data(GrownDefects)?);
    }
    Ok(())
}

/// True for a drive on a SAS port.
fn hangs_on_sas(device: &BlockDir) -> bool {
    let is_end = |dir: &Path| {
        dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("end_device-"))
    };
    device.ancestor(|_, dir| is_end(dir)).is_some()
}

/// A page of vital product data: the kernel's copy where it has one.
fn product_data(talk: &mut Talk, device: &BlockDir, page: u8) -> io::Result<Vec<u8>> {
    match device.bytes(format!("device/vpd_pg{page:x}")) {
        Some(bytes) if bytes.len() > 4 => Ok(bytes),
        _ => talk.data(scsi_questions::Question::VitalProductData(page)),
    }
}

fn ask_nvme(
    file: &File,
    device: &BlockDir,
    health: &mut Health,
    identity: &mut DriveIdentity,
) -> io::Result<()> {
    use nvme_questions::Question::{
        Health as HealthLog, IdentifyController, IdentifyNamespace, PowerTransitions, SelfTests,
        WriteCache,
    };
    let controller = nvme_questions::ask(file, IdentifyController)?.data;
    nvme::add_controller(&controller, identity, health);
    // A question that this controller does not know is passed over, one that did not come through ends the conversation.
    let ask = |question| match nvme_questions::ask(file, question) {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.raw_os_error().is_none() => Ok(None),
        Err(error) => Err(error),
    };
    if let Some(number) = device.value("nsid")
        && let Some(answer) = ask(IdentifyNamespace(number))?
    {
        nvme::add_namespace(&answer.data, identity);
    }
    if let Some(answer) = ask(HealthLog)? {
        nvme::add_health(&answer.data, health);
    }
    if nvme::has_self_tests(&controller)
        && let Some(answer) = ask(SelfTests)?
    {
        health.self_test = nvme::self_test(&answer.data);
    }
    if identity.volatile_cache == Some(true) {
        identity.write_cache_enabled = ask(WriteCache)?.map(|answer| answer.result & 1 == 1);
    }
    if nvme::has_power_transitions(&controller) {
        identity.power_state_transitions =
            ask(PowerTransitions)?.map(|answer| answer.result & 1 == 1);
    }
    Ok(())
}

/// Drives are whole disks, and namespaces that several controllers lead to.
pub(crate) fn is_drive(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Disk | NodeKind::NvmeMultipath)
}
