//! The barest way to read: one thread, one `pread` after the other, a stamp before and after each.

use super::tools::{Stamped, unix_ns};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

const BLOCK_BYTES: usize = 4096;
/// x86-64's value, the only processor with the trace clock that this is compared on.
const O_DIRECT: i32 = 0o40_000;

/// Reads `count` random blocks of a device past the page cache, on CPU 0.
///
/// # Errors
/// Those of opening, binding and reading.
pub fn run(device: &Path, count: usize) -> Result<Vec<Stamped>, String> {
    let thread = std::thread::scope(|scope| scope.spawn(|| on_cpu_0(device, count)).join());
    thread.map_err(|_| "the reading thread died".to_owned())?
}

fn on_cpu_0(device: &Path, count: usize) -> Result<Vec<Stamped>, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", device.display());
    let thread = fs::read_link("/proc/thread-self").map_err(|error| error.to_string())?;
    let id = thread.file_name().unwrap_or_default();
    let mut taskset = Command::new("taskset");
    taskset.args(["-c", "-p", "0"]).arg(id).stdout(Stdio::null());
    if !taskset.status().is_ok_and(|status| status.success()) {
        return Err("taskset cannot bind the reading thread to CPU 0".to_owned());
    }
    let file = OpenOptions::new().read(true).custom_flags(O_DIRECT).open(device).map_err(fail)?;
    let blocks = size_bytes(&file).map_err(fail)? / BLOCK_BYTES as u64;
    let mut memory = vec![0; 2 * BLOCK_BYTES];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES);
    let buffer = &mut memory[start..start + BLOCK_BYTES];
    let mut stamps = Vec::with_capacity(count);
    let mut random = unix_ns() as u64 | 1;
    for _ in 0..count {
        // Marsaglia's xorshift: any spread of blocks will do.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let offset_bytes = random % blocks * BLOCK_BYTES as u64;
        let start_ns = unix_ns();
        file.read_exact_at(buffer, offset_bytes).map_err(fail)?;
        stamps.push(Stamped { start_ns, end_ns: unix_ns(), offset_bytes });
    }
    Ok(stamps)
}

/// Of a device too, whose metadata knows no size.
fn size_bytes(mut file: &File) -> std::io::Result<u64> {
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))
}
