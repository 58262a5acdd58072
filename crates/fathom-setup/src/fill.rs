//! What lies in a filesystem before measuring: filled to a share, aged by creating and deleting.

use crate::error::{SetupError, io_at};
use crate::site::Site;
use fathom_base::prng::Prng;
use fathom_model::plan::setup::FilesystemSpec;
use fathom_sys::fsinfo;
use fathom_sys::io::sync_filesystem;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directory of the files, in the filesystem.
const NAME: &str = "fathom-fill";
/// Files of ageing: from a block to this, evenly on a logarithmic scale.
const SIZES_LOG2: std::ops::Range<u64> = 12..22;
/// Ageing without a share: so full it becomes in each round.
const AGED_PERCENT: u64 = 70;
/// A single file of filling.
const FILE_BYTES: u64 = 64 << 20;
/// What a file takes at the least.
const BLOCK_BYTES: u64 = 4096;
/// How far the share in use may be from what was asked for, in points.
const TOLERANCE_PERCENT: u64 = 1;
/// Streams of random numbers.
const STREAM: u64 = 0x6167_6569_6e67;

/// About how much that writes, on the high side: each round of ageing writes again what the one before has deleted, half of it.
fn written_bytes(spec: &FilesystemSpec, size_bytes: u64) -> u64 {
    let percent = u64::from(spec.fill_percent.unwrap_or(0));
    let rounds = u64::from(spec.ageing_rounds.unwrap_or(0));
    let aged = if rounds == 0 { 0 } else { percent.max(AGED_PERCENT) * (rounds + 1) / 2 };
    size_bytes / 100 * (percent + aged)
}

/// Ages it and fills it, as asked; of devices of this size together.
pub(crate) fn prepare(
    site: &mut Site<'_, '_>,
    spec: &FilesystemSpec,
    dir: &Path,
    size_bytes: u64,
) -> Result<(), SetupError> {
    if spec.ageing_rounds.is_none() && spec.fill_percent.is_none() {
        return Ok(());
    }
    let percent = u64::from(spec.fill_percent.unwrap_or(0));
    if percent > 95 {
        return Err(SetupError::Spec(format!("filesystem.fill {percent}%: at most 95 %")));
    }
    if let Some(rounds) = spec.ageing_rounds {
        site.commands.push(format!(
            "# create and delete files of 4 KiB to 4 MiB, {rounds} rounds, up to {} % full",
            percent.max(AGED_PERCENT)
        ));
    }
    if percent > 0 {
        site.commands.push(format!("# fill {} to {percent} %", dir.display()));
    }
    if site.is_dry() {
        site.outline.written_bytes += written_bytes(spec, size_bytes);
        return Ok(());
    }
    let mut filler = Filler::new(site, dir)?;
    if let Some(rounds) = spec.ageing_rounds {
        filler.age(site, rounds, percent.max(AGED_PERCENT))?;
    }
    filler.fill(site, percent)?;
    let text = filler.summary()?;
    site.facts.push(text);
    Ok(())
}

/// A file that was written here.
struct Own {
    path: PathBuf,
    /// In whole blocks.
    bytes: u64,
}

impl Own {
    fn remove(&self) -> Result<(), SetupError> {
        fs::remove_file(&self.path).map_err(io_at("remove", &self.path))
    }
}

/// How full a filesystem is.
#[derive(Clone, Copy)]
struct Usage {
    used_bytes: u64,
    /// What is in use and what users can have beside it.
    whole_bytes: u64,
}

impl Usage {
    /// How much may come until so much is in use.
    fn room(self, percent: u64) -> u64 {
        (self.whole_bytes / 100 * percent).saturating_sub(self.used_bytes)
    }

    fn share_percent(self) -> f64 {
        self.used_bytes as f64 * 100.0 / self.whole_bytes.max(1) as f64
    }
}

struct Filler {
    dir: PathBuf,
    mount: PathBuf,
    prng: Prng,
    files: Vec<Own>,
    number: u64,
    created: u64,
    buffer: Vec<u8>,
    told: Instant,
}

impl Filler {
    fn new(site: &Site<'_, '_>, mount: &Path) -> Result<Self, SetupError> {
        let dir = mount.join(NAME);
        fs::create_dir(&dir).map_err(io_at("make", &dir))?;
        let mut prng = Prng::new(site.seed(), STREAM);
        let mut buffer = vec![0; 1 << 20];
        prng.fill(&mut buffer);
        Ok(Self {
            dir,
            mount: mount.to_owned(),
            prng,
            files: Vec::new(),
            number: 0,
            created: 0,
            buffer,
            told: Instant::now(),
        })
    }

    /// How full it is, as df counts: what users can never have is no part of the whole. Exact after [`Self::sync`] only: filesystems allocate late.
    fn usage(&self) -> Result<Usage, SetupError> {
        let space =
            fsinfo::space(&self.mount).map_err(io_at("ask for the space of", &self.mount))?;
        let used_bytes = space.total_bytes.saturating_sub(space.free_bytes);
        Ok(Usage { used_bytes, whole_bytes: used_bytes.saturating_add(space.available_bytes) })
    }

    /// Everything follows from the seed and from how large the empty filesystem is; what the filesystem says meanwhile depends on when it allocates.
    fn age(
        &mut self,
        site: &mut Site<'_, '_>,
        rounds: u32,
        percent: u64,
    ) -> Result<(), SetupError> {
        self.sync()?;
        let most_bytes = self.usage()?.room(percent);
        for round in 1..=rounds {
            let own_bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
            let mut room = most_bytes.saturating_sub(own_bytes);
            while room >= BLOCK_BYTES {
                self.go_on(site, &format!("ageing, round {round} of {rounds}"))?;
                let exponent =
                    SIZES_LOG2.start + self.prng.below(SIZES_LOG2.end - SIZES_LOG2.start);
                let size = (1 << exponent) + self.prng.below(1 << exponent);
                if !self.write_file(size.min(room))? {
                    break;
                }
                room = room.saturating_sub(size.next_multiple_of(BLOCK_BYTES));
            }
            self.sync()?;
            // Half of them go, by chance.
            let mut kept = Vec::new();
            for file in std::mem::take(&mut self.files) {
                if self.prng.below(2) == 0 {
                    file.remove()?;
                } else {
                    kept.push(file);
                }
            }
            self.files = kept;
        }
        self.sync()
    }

    /// Writes large files until it is so full. One that is fuller is emptied by whole files of ours, the newest first.
    fn fill(&mut self, site: &mut Site<'_, '_>, percent: u64) -> Result<(), SetupError> {
        if percent == 0 {
            return Ok(());
        }
        self.sync()?;
        self.empty(percent)?;
        self.fill_up(site, percent)?;
        // The tables of what was written came on top.
        self.empty(percent + TOLERANCE_PERCENT)?;
        self.fill_up(site, percent)?;
        let usage = self.usage()?;
        let is_off = usage.share_percent() - percent as f64;
        // What the filesystem needs for itself is no file that could go.
        if is_off > TOLERANCE_PERCENT as f64 && self.files.is_empty() {
            site.remark(format!(
                "filesystem.fill {percent}%: {:.1} % full, as df counts, without a single file",
                usage.share_percent()
            ));
            return Ok(());
        }
        if is_off.abs() > TOLERANCE_PERCENT as f64 {
            return Err(SetupError::NotAsAsked(format!(
                "filesystem.fill {percent}%: {} came to be {:.1} % full, as df counts, and more than {TOLERANCE_PERCENT} point off is not \
                 what was asked for; a larger device, or another share",
                self.mount.display(),
                usage.share_percent()
            )));
        }
        Ok(())
    }

    /// Removes files until it is no fuller than that.
    fn empty(&mut self, percent: u64) -> Result<(), SetupError> {
        while self.usage()?.share_percent() > percent as f64 {
            let Some(file) = self.files.pop() else { break };
            file.remove()?;
            self.sync()?;
        }
        Ok(())
    }

    fn fill_up(&mut self, site: &mut Site<'_, '_>, percent: u64) -> Result<(), SetupError> {
        loop {
            let usage = self.usage()?;
            let room = usage.room(percent);
            let least = (usage.whole_bytes / 1000).max(BLOCK_BYTES);
            if room < least {
                return Ok(());
            }
            self.go_on(site, "filling")?;
            // The last part in smaller steps, because metadata takes room too.
            let size = FILE_BYTES.min((room / 2).max(least));
            let is_written = self.write_file(size)?;
            self.sync()?;
            if !is_written {
                return Ok(());
            }
        }
    }

    fn go_on(&mut self, site: &mut Site<'_, '_>, doing: &str) -> Result<(), SetupError> {
        site.check_stop(doing)?;
        if self.told.elapsed() > Duration::from_secs(5) {
            self.told = Instant::now();
            site.note(&format!("{doing}: {:.0} % full", self.usage()?.share_percent()));
        }
        Ok(())
    }

    /// False when the filesystem is full.
    fn write_file(&mut self, size: u64) -> Result<bool, SetupError> {
        self.number += 1;
        let path = self.dir.join(format!("{}", self.number));
        let mut left = size;
        let written = File::create_new(&path).and_then(|mut file| {
            while left > 0 {
                // No two blocks are alike, and none can be compressed.
                let stamp = self.prng.next_u64().to_le_bytes();
                self.buffer[..8].copy_from_slice(&stamp);
                let length = left.min(self.buffer.len() as u64);
                file.write_all(&self.buffer[..length as usize])?;
                left -= length;
            }
            Ok(())
        });
        self.created += 1;
        self.files.push(Own { path: path.clone(), bytes: size.next_multiple_of(BLOCK_BYTES) });
        match written {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok(false),
            Err(error) => Err(io_at("write", path)(error)),
        }
    }

    fn sync(&self) -> Result<(), SetupError> {
        let synced = File::open(&self.mount).and_then(sync_filesystem);
        synced.map_err(io_at("write", &self.mount))
    }

    fn summary(&self) -> Result<String, SetupError> {
        let share = self.usage()?.share_percent();
        let deleted = self.created - self.files.len() as u64;
        Ok(format!(
            "{share:.0} % full; {} files created, {deleted} deleted before measuring",
            self.created
        ))
    }
}
