//! Disks whose write cache loses its content with the power.
//!
//! The kernel of the host keeps all that QEMU has written, also when QEMU is killed, so a file is no witness of what a
//! power failure leaves. These disks are served over a socket (the protocol NBD): writes stay in memory until the
//! guest flushes, or writes through; when the connection ends, the rest is forgotten. That is the worst that a
//! disk with a volatile cache may do, short of tearing writes in flight.

use crate::command::{KitError, at};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What disks write as a whole.
const SECTOR: usize = 512;

/// A disk that is served until this is dropped.
#[derive(Debug)]
pub(super) struct VolatileDisk {
    socket: PathBuf,
    is_over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl VolatileDisk {
    /// Serves the content of `file` at `socket`, to one client after the other. A disk that lies says that it has
    /// flushed and has not, as some do to look faster.
    ///
    /// # Errors
    /// When the file cannot be opened or the socket cannot be made.
    pub(super) fn serve(file: &Path, socket: PathBuf, lies: bool) -> Result<Self, KitError> {
        let platter = File::options().read(true).write(true).open(file).map_err(at(file))?;
        let size_bytes = platter.metadata().map_err(at(file))?.len();
        let listener = UnixListener::bind(&socket).map_err(at(&socket))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let should_end = Arc::clone(&is_over);
        let server = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if should_end.load(Ordering::Relaxed) {
                    return;
                }
                let cache = BTreeMap::new();
                let mut disk = Disk { platter: &platter, size_bytes, cache, lies };
                // A client that is killed breaks off anywhere; the guest reports what it misses.
                let _ = disk.serve(stream);
            }
        });
        Ok(Self { socket, is_over, server: Some(server) })
    }
}

impl Drop for VolatileDisk {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the server, which waits for the next client.
        if UnixStream::connect(&self.socket).is_ok()
            && let Some(server) = self.server.take()
        {
            let _ = server.join();
        }
    }
}

/// A disk as one client sees it, with what it has written and not flushed.
struct Disk<'a> {
    platter: &'a File,
    size_bytes: u64,
    cache: BTreeMap<u64, [u8; SECTOR]>,
    lies: bool,
}

/// The numbers of the protocol, from its description (doc/proto.md of the NBD project).
mod nbd {
    pub const GREETING: &[u8] = b"NBDMAGICIHAVEOPT";
    pub const OPTION: &[u8] = b"IHAVEOPT";
    /// Fixed newstyle, no padding of zeros.
    pub const HANDSHAKE_FLAGS: u16 = 1 | 2;
    pub const OPT_EXPORT_NAME: u32 = 1;
    pub const OPT_ABORT: u32 = 2;
    pub const OPT_INFO: u32 = 6;
    pub const OPT_GO: u32 = 7;
    pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
    pub const REP_ACK: u32 = 1;
    pub const REP_INFO: u32 = 3;
    pub const REP_UNSUPPORTED: u32 = 0x8000_0001;
    /// Has flags, knows flush, knows write-through.
    pub const EXPORT_FLAGS: u16 = 1 | 4 | 8;
    pub const REQUEST: u32 = 0x2560_9513;
    pub const REPLY: u32 = 0x6744_6698;
    pub const FLAG_FUA: u16 = 1;
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISCONNECT: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const EIO: u32 = 5;
    pub const EINVAL: u32 = 22;
}

impl Disk<'_> {
    fn serve(&mut self, mut stream: UnixStream) -> io::Result<()> {
        stream.write_all(nbd::GREETING)?;
        stream.write_all(&nbd::HANDSHAKE_FLAGS.to_be_bytes())?;
        u32_from(&mut stream)?;
        if self.negotiate(&mut stream)? {
            while self.answer(&mut stream)? {}
        }
        Ok(())
    }

    /// Options until the client goes on to use the disk; false when it gives up.
    fn negotiate(&self, stream: &mut UnixStream) -> io::Result<bool> {
        let export =
            [&self.size_bytes.to_be_bytes()[..], &nbd::EXPORT_FLAGS.to_be_bytes()].concat();
        loop {
            if bytes_from(stream, 8)? != nbd::OPTION {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let option = u32_from(stream)?;
            let length = u32_from(stream)?;
            bytes_from(stream, length)?;
            let mut reply = |kind: u32, data: &[u8]| {
                let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
                let head = [option.to_be_bytes(), kind.to_be_bytes(), length.to_be_bytes()];
                let magic = nbd::OPTION_REPLY.to_be_bytes();
                stream.write_all(&[&magic[..], head.as_flattened(), data].concat())
            };
            match option {
                nbd::OPT_EXPORT_NAME => {
                    stream.write_all(&export)?;
                    return Ok(true);
                }
                nbd::OPT_GO | nbd::OPT_INFO => {
                    // Kind 0 of information: size and flags.
                    reply(nbd::REP_INFO, &[&[0, 0], &export[..]].concat())?;
                    reply(nbd::REP_ACK, &[])?;
                    if option == nbd::OPT_GO {
                        return Ok(true);
                    }
                }
                nbd::OPT_ABORT => {
                    reply(nbd::REP_ACK, &[])?;
                    return Ok(false);
                }
                _ => reply(nbd::REP_UNSUPPORTED, &[])?,
            }
        }
    }

    /// Reads one request and answers it; false when the client takes its leave.
    fn answer(&mut self, stream: &mut UnixStream) -> io::Result<bool> {
        if u32_from(stream)? != nbd::REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let flags = u16_from(stream)?;
        let command = u16_from(stream)?;
        let handle = bytes_from(stream, 8)?;
        let offset = u64::from_be_bytes(array_from(stream)?);
        let length = u32_from(stream)?;
        let mut data = match command {
            nbd::WRITE => bytes_from(stream, length)?,
            nbd::READ => vec![0; length as usize],
            _ => Vec::new(),
        };
        let is_inside =
            offset.checked_add(u64::from(length)).is_some_and(|end| end <= self.size_bytes);
        let is_aligned = [offset, u64::from(length)].iter().all(|n| n % SECTOR as u64 == 0);
        let result = match command {
            nbd::DISCONNECT => return Ok(false),
            nbd::FLUSH => self.flush(),
            nbd::READ if is_inside && is_aligned => self.read(offset, &mut data),
            nbd::WRITE if is_inside && is_aligned => {
                self.write(offset, &data, flags & nbd::FLAG_FUA != 0)
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        let error = match result {
            Ok(()) => 0,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => nbd::EINVAL,
            Err(_) => nbd::EIO,
        };
        stream
            .write_all(&[&nbd::REPLY.to_be_bytes()[..], &error.to_be_bytes(), &handle].concat())?;
        if command == nbd::READ && error == 0 {
            stream.write_all(&data)?;
        }
        Ok(true)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.platter.read_exact_at(data, offset)?;
        let first = offset / SECTOR as u64;
        for (number, sector) in (first..).zip(data.as_chunks_mut::<SECTOR>().0) {
            if let Some(newer) = self.cache.get(&number) {
                *sector = *newer;
            }
        }
        Ok(())
    }

    /// Writes into the cache, or through it.
    fn write(&mut self, offset: u64, data: &[u8], is_through: bool) -> io::Result<()> {
        let is_through = is_through && !self.lies;
        let first = offset / SECTOR as u64;
        for (number, sector) in (first..).zip(data.as_chunks::<SECTOR>().0) {
            if is_through {
                self.cache.remove(&number);
            } else {
                self.cache.insert(number, *sector);
            }
        }
        if is_through { self.platter.write_all_at(data, offset) } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.lies {
            return Ok(());
        }
        for (number, sector) in mem::take(&mut self.cache) {
            self.platter.write_all_at(&sector, number * SECTOR as u64)?;
        }
        Ok(())
    }
}

fn array_from<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn u16_from(stream: &mut UnixStream) -> io::Result<u16> {
    array_from(stream).map(u16::from_be_bytes)
}

fn u32_from(stream: &mut UnixStream) -> io::Result<u32> {
    array_from(stream).map(u32::from_be_bytes)
}

fn bytes_from(stream: &mut UnixStream, length: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn on_disk(lies: bool, test: impl FnOnce(&mut Disk<'_>)) {
        let scratch = Scratch::new().unwrap();
        let path = scratch.join("disk");
        let platter = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        platter.set_len(1 << 20).unwrap();
        test(&mut Disk { platter: &platter, size_bytes: 1 << 20, cache: BTreeMap::new(), lies });
    }

    /// The first byte of a sector, as the client sees it and as it lies on the platter.
    fn byte(disk: &Disk<'_>, sector: u64) -> (u8, u8) {
        let offset = sector * SECTOR as u64;
        let (mut seen, mut kept) = ([0; SECTOR], [0; SECTOR]);
        disk.read(offset, &mut seen).unwrap();
        disk.platter.read_exact_at(&mut kept, offset).unwrap();
        (seen[0], kept[0])
    }

    #[test]
    fn a_liar_keeps_nothing() {
        on_disk(true, |disk| {
            disk.write(512, &[1; SECTOR], false).unwrap();
            disk.write(1024, &[2; SECTOR], true).unwrap();
            disk.flush().unwrap();
            assert_eq!([1, 2].map(|n| byte(disk, n)), [(1, 0), (2, 0)]);
        });
    }

    #[test]
    fn only_what_is_flushed_or_written_through_is_kept() {
        on_disk(false, |disk| {
            disk.write(512, &[1; 3 * SECTOR], false).unwrap();
            assert_eq!([0, 1, 3, 4].map(|n| byte(disk, n)), [(0, 0), (1, 0), (1, 0), (0, 0)]);
            disk.write(1024, &[2; SECTOR], true).unwrap();
            assert_eq!([1, 2, 3].map(|n| byte(disk, n)), [(1, 0), (2, 2), (1, 0)]);
            disk.flush().unwrap();
            assert_eq!([1, 2, 3].map(|n| byte(disk, n)), [(1, 1), (2, 2), (1, 1)]);
            disk.write(1024, &[3; SECTOR], false).unwrap();
            assert_eq!(byte(disk, 2), (3, 2));
        });
    }
}
