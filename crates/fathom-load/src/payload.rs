//! What is written, and what becomes of it: the measured loop asks before it hands over a request and tells when one
//! has ended. Generic, so that a job which only fills its buffers pays for nothing else.

use crate::engine::{Engine, Op};
use fathom_base::content::{ContentError, Filler, Savings};
use fathom_model::workload::{Access, Content, EngineKind, Job};

/// Who makes the content of written buffers, and perhaps checks what is read.
pub trait Payload {
    /// It wants to know which file a request is about.
    const WANTS_FILE: bool;

    /// It has nothing to do with any request, and need not hear of them.
    fn is_idle(&self) -> bool;

    /// A request is about to be queued on a free slot, on one of the job's files (0 where that is not wanted).
    fn queued<E: Engine>(&mut self, slot: u32, file: u32, op: Op, engine: &mut E);

    /// The request on this slot has ended, `is_whole` when all of it was done. Its buffer is untouched since.
    fn ended<E: Engine>(&mut self, slot: u32, is_whole: bool, engine: &mut E);
}

/// Fills, and is not interested in the rest.
#[derive(Debug)]
pub struct Fill {
    filler: Option<Filler>,
    generation: u64,
}

impl Fill {
    /// For one thread of a job with that filler.
    #[must_use]
    pub fn new(filler: Option<Filler>, thread: u32) -> Self {
        Self { filler, generation: first_generation(thread) }
    }
}

/// What comes before the generation of a thread's first write. Of different threads, no two writes are alike.
pub fn first_generation(thread: u32) -> u64 {
    u64::from(thread) << 40
}

impl Fill {
    /// Apart from the loop, so that reads have it to themselves.
    #[inline(never)]
    fn write<E: Engine>(&mut self, slot: u32, offset_bytes: u64, size_bytes: u32, engine: &mut E) {
        if let Some(filler) = &self.filler {
            self.generation += 1;
            let buffer = &mut engine.buffer_mut(slot)[..size_bytes as usize];
            filler.fill(buffer, offset_bytes, self.generation);
        }
    }
}

impl Payload for Fill {
    const WANTS_FILE: bool = false;

    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.filler.is_none()
    }

    #[inline(always)]
    fn queued<E: Engine>(&mut self, slot: u32, _file: u32, op: Op, engine: &mut E) {
        if let Op::Write { offset_bytes, size_bytes } = op {
            self.write(slot, offset_bytes, size_bytes, engine);
        }
    }

    #[inline(always)]
    fn ended<E: Engine>(&mut self, _slot: u32, _is_whole: bool, _engine: &mut E) {}
}

/// What fills the buffers of a job's writes; none where nothing has to.
///
/// # Errors
/// [`ContentError`] for content that cannot be made.
pub fn filler(job: &Job, seed: u64) -> Result<Option<Filler>, ContentError> {
    if !job.writes_data() || job.engine == EngineKind::Null {
        return Ok(None);
    }
    Ok(Some(match &job.content {
        Content::Random if job.compressible > 0.0 || job.duplicate > 0.0 => {
            let unit_bytes = duplicate_unit_bytes(job);
            let (compressible, duplicates) = (job.compressible, job.duplicate);
            Filler::savable(Savings { compressible, duplicates, unit_bytes }, seed)?
        }
        Content::Random => Filler::noise(seed),
        // Buffers begin as zeros, and nothing else ever comes into them.
        Content::Zero if !job.reads() => return Ok(None),
        Content::Zero => Filler::zero(),
        Content::Pattern(hex) => Filler::pattern(hex)?,
    }))
}

/// What duplicates are made of: the largest power of two that every write fills whole, up to 16 MiB.
pub fn duplicate_unit_bytes(job: &Job) -> u32 {
    let log_bytes = (job.access == Access::Replication).then_some(job.log_block_size_bytes);
    let sizes = job.write_sizes().iter().map(|size| size.size_bytes).chain(log_bytes);
    let sizes = sizes.map(u64::from).chain([job.alignment_bytes()]);
    let exponent = sizes.map(u64::trailing_zeros).min().unwrap_or(0);
    1 << exponent.min(24)
}
