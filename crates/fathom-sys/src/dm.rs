//! Device-mapper: names, UUIDs, tables and status by ioctl, without secrets.
//!
//! Live tables need root (`/dev/mapper/control`). In a recorded tree the lines that `dmsetup table`
//! and `dmsetup status` print stand in `dm/NAME.table` and `dm/NAME.status`, NAME being the
//! kernel's (`dm-0`).

use crate::devno::DevNo;
use crate::sysroot::SysRoot;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// One line of a table or of a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// First 512-byte sector of the mapped device.
    pub start: u64,
    /// Length in 512-byte sectors.
    pub length: u64,
    /// Target type: `linear`, `striped`, `crypt`, ...
    pub kind: String,
    /// Parameters or status; keys are replaced by `-`.
    pub params: String,
}

/// Which lines are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// How the device is made.
    Table,
    /// How it is doing.
    Status,
}

const DM_DEV_STATUS: u32 = 7;
const DM_TABLE_STATUS: u32 = 12;
const DM_STATUS_TABLE_FLAG: u32 = 1 << 4;
const DM_BUFFER_FULL_FLAG: u32 = 1 << 8;
const DM_NOFLUSH_FLAG: u32 = 1 << 11;
const DM_SECURE_DATA_FLAG: u32 = 1 << 15;
const HEADER_BYTES: usize = 312;
const BUFFER_BYTES_MAX: usize = 16 << 20;

/// The lines of a device, by its kernel name and number.
///
/// # Errors
/// Those of opening the control node (root only) and of the ioctl; a missing file in a recorded
/// tree.
pub fn lines(root: &SysRoot, name: &str, devno: DevNo, which: Lines) -> io::Result<Vec<Target>> {
    if root.is_live() {
        return table_status(devno, which);
    }
    let suffix = if which == Lines::Table { "table" } else { "status" };
    let text = root.read(format!("dm/{name}.{suffix}"))?;
    Ok(text.lines().filter_map(|line| parse_line(line, which)).collect())
}

/// How often a device of the live machine is open now, whoever has it open: processes, filesystems, other layers, guests
/// that the kernel itself serves.
///
/// # Errors
/// Those of opening the control node (root only) and of the ioctl.
pub fn open_count(devno: DevNo) -> io::Result<u32> {
    let control = File::open("/dev/mapper/control")?;
    let mut words = [0u64; HEADER_BYTES / 8];
    let buffer = as_bytes_mut(&mut words);
    fill_header(buffer, devno, Lines::Status);
    // SAFETY: the buffer is writable for the whole call and as long as its header's data_size says; the kernel reads and
    // writes inside that size only.
    let result =
        unsafe { libc::ioctl(control.as_raw_fd(), request(DM_DEV_STATUS), buffer.as_mut_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(read_u32(buffer, 24)) }
}

/// Parses `START LENGTH TYPE PARAMETERS`.
fn parse_line(line: &str, which: Lines) -> Option<Target> {
    let mut words = line.trim().splitn(4, ' ');
    let start = words.next()?.parse().ok()?;
    let length = words.next()?.parse().ok()?;
    let kind = words.next()?.to_owned();
    let params = shown(&kind, words.next().unwrap_or_default(), which);
    Some(Target { start, length, kind, params })
}

/// The parameters as they may be shown and stored.
fn shown(kind: &str, params: &str, which: Lines) -> String {
    if which == Lines::Table { without_secrets(kind, params) } else { params.trim().to_owned() }
}

/// Replaces keys by `-`: the second word of encrypting targets, and what follows the algorithm in
/// dm-integrity's options.
fn without_secrets(kind: &str, params: &str) -> String {
    let words = params.split_ascii_whitespace();
    let encrypting = matches!(kind, "crypt" | "default-key" | "inlinecrypt");
    let cleaned: Vec<String> = match kind {
        _ if encrypting => {
            words.enumerate().map(|(i, w)| if i == 1 { "-" } else { w }.to_owned()).collect()
        }
        "integrity" => words.map(integrity_word).collect(),
        _ => words.map(str::to_owned).collect(),
    };
    cleaned.join(" ")
}

/// `internal_hash:hmac(sha256):KEY` without the key.
fn integrity_word(word: &str) -> String {
    let keyed = ["internal_hash:", "journal_crypt:", "journal_mac:"];
    let mut parts = word.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(option), Some(algorithm), Some(_)) if keyed.iter().any(|k| word.starts_with(k)) => {
            format!("{option}:{algorithm}:-")
        }
        _ => word.to_owned(),
    }
}

/// `_IOWR(0xfd, DM_TABLE_STATUS, struct dm_ioctl)`.
const fn request(command: u32) -> libc::Ioctl {
    ((3 << 30) | ((HEADER_BYTES as u32) << 16) | (0xfd << 8) | command) as libc::Ioctl
}

/// Asks with a growing buffer until the answer fits.
fn table_status(devno: DevNo, which: Lines) -> io::Result<Vec<Target>> {
    let control = File::open("/dev/mapper/control")?;
    let mut size = 16 << 10;
    loop {
        // u64 words keep the buffer aligned for the kernel's structures.
        let mut words = vec![0u64; size / 8];
        let buffer = as_bytes_mut(&mut words);
        fill_header(buffer, devno, which);
        // SAFETY: the buffer is writable for the whole call and as long as its header's data_size
        // says; the kernel reads and writes inside that size only.
        let result = unsafe {
            libc::ioctl(control.as_raw_fd(), request(DM_TABLE_STATUS), buffer.as_mut_ptr())
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        if read_u32(buffer, 28) & DM_BUFFER_FULL_FLAG == 0 {
            let targets = parse_answer(buffer, which);
            buffer.fill(0);
            return Ok(targets);
        }
        buffer.fill(0);
        size *= 4;
        if size > BUFFER_BYTES_MAX {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
    }
}

fn as_bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: a slice of u64 is a slice of initialised bytes eight times as long, with a weaker
    // alignment.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// The `struct dm_ioctl` of a question about one device number.
fn fill_header(buffer: &mut [u8], devno: DevNo, which: Lines) {
    let flags = match which {
        Lines::Table => DM_STATUS_TABLE_FLAG | DM_SECURE_DATA_FLAG | DM_NOFLUSH_FLAG,
        Lines::Status => DM_NOFLUSH_FLAG,
    };
    let size = buffer.len() as u32;
    let numbers = [(0, 4), (4, 0), (8, 0), (12, size), (16, HEADER_BYTES as u32), (28, flags)];
    for (offset, number) in numbers {
        buffer[offset..offset + 4].copy_from_slice(&number.to_ne_bytes());
    }
    // The kernel's huge_encode_dev: not the layout of glibc's dev_t beyond the 12th bit of the
    // major number.
    let DevNo { major, minor } = devno;
    let dev = u64::from((minor & 0xff) | (major << 8)) | (u64::from(minor & !0xff) << 12);
    buffer[40..48].copy_from_slice(&dev.to_ne_bytes());
}

/// The targets behind the header: a `struct dm_target_spec` each, followed by its text.
fn parse_answer(buffer: &[u8], which: Lines) -> Vec<Target> {
    let start = read_u32(buffer, 16) as usize;
    let count = read_u32(buffer, 20);
    let mut targets = Vec::new();
    let mut offset = start;
    for _ in 0..count {
        let Some(spec) = buffer.get(offset..offset + 40) else { break };
        let kind = c_text(&spec[24..40]);
        let params = c_text(buffer.get(offset + 40..).unwrap_or_default());
        let params = shown(&kind, &params, which);
        targets.push(Target { start: read_u64(spec, 0), length: read_u64(spec, 8), kind, params });
        // `next` counts from the first target, not from this one.
        offset = start.saturating_add(read_u32(spec, 20) as usize);
    }
    targets
}

fn c_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn read_u32(bytes: &[u8], offset: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_ne_bytes(four)
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_ne_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_never_come_through() {
        let line = "0 2097152 crypt aes-xts-plain64 0011223344556677 0 8:1 4096 1 allow_discards";
        let target = parse_line(line, Lines::Table).unwrap();
        assert_eq!(target.params, "aes-xts-plain64 - 0 8:1 4096 1 allow_discards");
        let keyring = "0 8 crypt aes-xts-plain64 :64:logon:cryptsetup:uuid-d0 0 8:1 4096";
        assert_eq!(
            parse_line(keyring, Lines::Table).map(|t| t.params).as_deref(),
            Some("aes-xts-plain64 - 0 8:1 4096")
        );
        let integrity = "0 8 integrity 8:2 0 32 J 2 internal_hash:hmac(sha256):c0ffee mode:J";
        assert_eq!(
            parse_line(integrity, Lines::Table).map(|t| t.params).as_deref(),
            Some("8:2 0 32 J 2 internal_hash:hmac(sha256):- mode:J")
        );
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let target = parse_line("0 204800 striped 2 128 9:10 2048 9:11 2048", Lines::Table);
        let target = target.unwrap();
        assert_eq!((target.start, target.length, target.kind.as_str()), (0, 204_800, "striped"));
        assert_eq!(target.params, "2 128 9:10 2048 9:11 2048");
        assert!(parse_line("not a line", Lines::Table).is_none());
        let status = parse_line("0 204800 linear", Lines::Status).unwrap();
        assert_eq!(status.params, "");
    }

    #[test]
    fn an_answer_of_two_targets_is_taken_apart() {
        let mut words = vec![0u64; 128];
        let buffer = as_bytes_mut(&mut words);
        fill_header(buffer, DevNo { major: 253, minor: 300 }, Lines::Table);
        assert_eq!(read_u64(buffer, 40), (253 << 8) | 44 | (256 << 12));
        buffer[20..24].copy_from_slice(&2u32.to_ne_bytes());
        let mut put = |at: usize, start: u64, length: u64, next: u32, kind: &str, text: &str| {
            buffer[at..at + 8].copy_from_slice(&start.to_ne_bytes());
            buffer[at + 8..at + 16].copy_from_slice(&length.to_ne_bytes());
            buffer[at + 20..at + 24].copy_from_slice(&next.to_ne_bytes());
            buffer[at + 24..at + 24 + kind.len()].copy_from_slice(kind.as_bytes());
            buffer[at + 40..at + 40 + text.len()].copy_from_slice(text.as_bytes());
        };
        put(312, 0, 100, 56, "linear", "8:1 2048");
        put(368, 100, 50, 112, "crypt", "aes-cbc secret 0 8:2 0");
        let targets = parse_answer(buffer, Lines::Table);
        assert_eq!(targets.len(), 2);
        assert_eq!(targets[0].params, "8:1 2048");
        assert_eq!((targets[1].start, targets[1].length), (100, 50));
        assert_eq!(targets[1].params, "aes-cbc - 0 8:2 0");
    }
}
