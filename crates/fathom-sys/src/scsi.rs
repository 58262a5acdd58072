//! Questions to SCSI devices through SG_IO.
//!
//! Only what is listed in [`Question`] can be sent, and none of it writes, moves an arm that rests or changes a setting.
//! Commands and their answers: SPC-5, SBC-4, SAT-4.

use crate::ata;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A command that only asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Why nothing could be done, and whether the device sleeps; answered without waking it.
    RequestSense,
    /// A page of vital product data.
    VitalProductData(u8),
    /// Size, sectors and their alignment.
    ReadCapacity16,
    /// The current values of a mode page.
    ModePage(u8),
    /// A page of the log.
    LogPage(u8),
    /// The header of the list of grown defects: how long it is.
    GrownDefects,
    /// A command for an ATA drive behind a translation to SCSI.
    Ata(ata::Question),
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status byte; 0 is good, 2 means that sense data says more.
    pub status: u8,
    /// Data, as much as there was.
    pub data: Vec<u8>,
    /// Sense data; empty where there was none.
    pub sense: Vec<u8>,
    /// How long the device took, in milliseconds.
    pub took_ms: u32,
}

/// After how long the kernel gives a command up. What it does then (abort, reset) disturbs everybody who uses the drive, so
/// this is longer than a drive that mends a sector or a path that fails over takes.
const TIMEOUT_MS: u32 = 10_000;

const SG_IO: u32 = 0x2285;
const SENSE_BYTES: usize = 64;

/// `struct sg_io_hdr` of `<scsi/sg.h>`.
#[repr(C)]
struct Header {
    interface_id: i32,
    direction: i32,
    command_len: u8,
    sense_len_max: u8,
    iovec_count: u16,
    data_len: u32,
    data: *mut u8,
    command: *mut u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    residual: i32,
    duration_ms: u32,
    info: u32,
}

/// `SG_DXFER_NONE` and `SG_DXFER_FROM_DEV`.
const DIRECTION_NONE: i32 = -1;
const DIRECTION_FROM_DEVICE: i32 = -3;

/// Asks a device that is open for reading.
///
/// # Errors
/// `TimedOut` and `NotConnected` when the device did not answer; EPERM without the right to ask; ENOTTY for devices
/// that speak no SCSI. A device that refuses the question is no error: see [`Answer::status`].
pub fn ask(device: &File, question: Question) -> io::Result<Answer> {
    let (mut command, data_bytes) = question.command();
    let mut data = vec![0u8; data_bytes];
    let mut sense = [0u8; SENSE_BYTES];
    let mut header = Header {
        interface_id: i32::from(b'S'),
        direction: if data_bytes == 0 { DIRECTION_NONE } else { DIRECTION_FROM_DEVICE },
        command_len: command.len() as u8,
        sense_len_max: SENSE_BYTES as u8,
        iovec_count: 0,
        data_len: data_bytes as u32,
        data: data.as_mut_ptr(),
        command: command.as_mut_ptr(),
        sense: sense.as_mut_ptr(),
        timeout_ms: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        user: std::ptr::null_mut(),
        status: 0,
        masked_status: 0,
        message_status: 0,
        sense_len: 0,
        host_status: 0,
        driver_status: 0,
        residual: 0,
        duration_ms: 0,
        info: 0,
    };
    // SAFETY: command, data and sense are as long as the header says and outlive the call, which returns when the
    // command has ended; the kernel writes inside them and the header only.
    let result = unsafe {
        libc::ioctl(device.as_raw_fd(), SG_IO as libc::Ioctl, std::ptr::from_mut(&mut header))
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    host_error(header.host_status)?;
    let used = data_bytes.saturating_sub(usize::try_from(header.residual).unwrap_or(0));
    data.truncate(used);
    let sense = sense[..usize::from(header.sense_len).min(SENSE_BYTES)].to_vec();
    Ok(Answer { status: header.status, data, sense, took_ms: header.duration_ms })
}

/// What the host adapter's driver says (`DID_*` of the kernel): did the device answer at all?
fn host_error(status: u16) -> io::Result<()> {
    match status {
        0 => Ok(()),
        1 | 4 => Err(io::ErrorKind::NotConnected.into()),
        3 => Err(io::ErrorKind::TimedOut.into()),
        other => Err(io::Error::other(format!("the host adapter says {other:#04x}"))),
    }
}

impl Question {
    /// The command block and the size of its answer.
    fn command(self) -> (Vec<u8>, usize) {
        match self {
            Self::RequestSense => (vec![0x03, 0x01, 0, 0, 252, 0], 252),
            Self::VitalProductData(page) => (vec![0x12, 1, page, 0, 252, 0], 252),
            Self::ReadCapacity16 => {
                (vec![0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0], 32)
            }
            // Without block descriptors.
            Self::ModePage(page) => (vec![0x5a, 0x08, page, 0, 0, 0, 0, 0, 252, 0], 252),
            // Cumulative values.
            Self::LogPage(page) => (vec![0x4d, 0, 0x40 | page, 0, 0, 0, 0, 4, 0, 0], 1024),
            // The grown list alone, in the form of short blocks, of which many drives make another.
            Self::GrownDefects => (vec![0x37, 0, 0x08, 0, 0, 0, 0, 0, 4, 0], 4),
            Self::Ata(question) => question.pass_through(),
        }
    }
}

/// Sense key, additional code and its qualifier, of either form of sense data.
#[must_use]
pub fn sense_codes(sense: &[u8]) -> Option<(u8, u8, u8)> {
    match sense.first()? & 0x7f {
        0x70 | 0x71 => Some((sense.get(2)? & 0xf, *sense.get(12)?, *sense.get(13)?)),
        0x72 | 0x73 => Some((sense.get(1)? & 0xf, *sense.get(2)?, *sense.get(3)?)),
        _ => None,
    }
}

/// True when sense data says that the device stands still: in standby, or stopped until somebody starts it.
#[must_use]
pub fn is_asleep(sense: &[u8]) -> bool {
    let standby = [0x03, 0x04, 0x09, 0x0a, 0x43, 0x45];
    match sense_codes(sense) {
        Some((_, 0x5e, qualifier)) => standby.contains(&qualifier),
        // Not ready: a start command is needed.
        Some((2, 0x04, 0x02)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_told_in_both_forms_of_sense_data() {
        let fixed = |key: u8, code: u8, qualifier: u8| {
            let mut sense = vec![0u8; 18];
            (sense[0], sense[2], sense[12], sense[13]) = (0x70, key, code, qualifier);
            sense
        };
        assert!(is_asleep(&fixed(0, 0x5e, 0x03)) && is_asleep(&fixed(2, 0x04, 0x02)));
        assert!(is_asleep(&[0x72, 0, 0x5e, 0x43, 0, 0, 0, 0]));
        // Idle heads are parked, the platters turn; becoming ready; nothing to say.
        for awake in [fixed(0, 0x5e, 0x01), fixed(2, 0x04, 0x01), fixed(0, 0, 0), vec![]] {
            assert!(!is_asleep(&awake), "{awake:?}");
        }
        assert_eq!(sense_codes(&[0x70, 0, 5]), None);
    }

    #[test]
    fn commands_are_as_long_as_their_group_says() {
        for question in [
            Question::RequestSense,
            Question::VitalProductData(0xb1),
            Question::ReadCapacity16,
            Question::ModePage(8),
            Question::LogPage(0x0d),
            Question::GrownDefects,
            Question::Ata(ata::Question::CheckPowerMode),
        ] {
            let (command, data_bytes) = question.command();
            let expected = match command[0] >> 5 {
                0 => 6,
                1 | 2 => 10,
                _ => 16,
            };
            assert_eq!(command.len(), expected, "{question:?}");
            assert!(data_bytes <= 4096, "{question:?}");
        }
    }

    #[test]
    fn the_header_has_the_size_that_the_kernel_expects() {
        assert_eq!(std::mem::size_of::<Header>(), 88);
    }

    #[test]
    fn a_plain_file_speaks_no_scsi() {
        let file = File::open("/proc/self/exe").unwrap();
        let error = ask(&file, Question::ReadCapacity16).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(host_error(3).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
