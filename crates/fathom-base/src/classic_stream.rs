//! The request streams of classic tools, as their own random numbers made them. Each formula is from the tool's source;
//! its oddities are kept, because a comparison with old figures needs the same requests.

use crate::glibc_random::{GlibcRandom, Rand48};
use crate::mersenne::Mersenne64;

/// One request of [`Randomio`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomioRequest {
    /// Offset in bytes, a multiple of the size of an I/O.
    pub offset_bytes: u64,
    /// A write, not a read.
    pub write: bool,
    /// The write is followed by fsync; its time belongs to the write.
    pub fsync: bool,
}

/// The stream of randomio 1.4, in the order in which its threads take requests: one generator for all of them, never
/// seeded, so every run asks for the same. Two numbers make a request: the first the offset, the second what is done.
#[derive(Debug, Clone)]
pub struct Randomio {
    rand: Rand48,
    io_size_bytes: u64,
    /// The last block is never asked for, unless it is the only one: the original multiplies by one less.
    offsets: f64,
    write_fraction: f64,
    fsync_fraction: f64,
}

impl Randomio {
    /// Over a target of `target_bytes` (at least one I/O), with the share of writes among all and of fsyncs among
    /// writes. An I/O of 0 bytes counts as 1.
    #[must_use]
    pub fn new(target_bytes: u64, io_size_bytes: u64, writes: f64, fsyncs: f64) -> Self {
        let io_size_bytes = io_size_bytes.max(1);
        Self {
            rand: Rand48::unseeded(),
            io_size_bytes,
            offsets: (target_bytes.saturating_sub(io_size_bytes) / io_size_bytes) as f64,
            write_fraction: writes,
            fsync_fraction: writes * fsyncs,
        }
    }

    /// The next request of any thread.
    #[inline]
    pub fn next_request(&mut self) -> RandomioRequest {
        let (request, state) = self.request_at(self.rand.state());
        self.rand = Rand48::at(state);
        request
    }

    /// The state of the random numbers before the first request.
    #[must_use]
    pub fn state(&self) -> u64 {
        self.rand.state()
    }

    /// The request at a state of the random numbers, and the state after it: threads that share one stream need to
    /// share no more than this number.
    #[inline]
    #[must_use]
    pub fn request_at(&self, state: u64) -> (RandomioRequest, u64) {
        let mut rand = Rand48::at(state);
        let place = (rand.draw_unit() * self.offsets) as u64;
        let action = rand.draw_unit();
        let request = RandomioRequest {
            offset_bytes: place * self.io_size_bytes,
            write: action < self.write_fraction,
            fsync: action < self.fsync_fraction,
        };
        (request, rand.state())
    }
}

/// The blocks of 512 bytes that seeker 2.0 reads after `srand(seed)`; the original takes the time in seconds.
///
/// With 31 bits a device above 2^31 blocks (1 TiB) is not reached everywhere. Block number `blocks`, one beyond the end,
/// is possible once in 2^31: the original reads nothing there and counts a seek.
#[derive(Debug, Clone)]
pub struct Seeker {
    random: GlibcRandom,
    blocks: u64,
}

impl Seeker {
    /// Over a device of `blocks` blocks.
    #[must_use]
    pub fn new(blocks: u64, seed: u32) -> Self {
        Self { random: GlibcRandom::new(seed), blocks }
    }

    /// The block of seeker.c: `blocks * random() / RAND_MAX` in integers. The 64-bit product of the original overflows
    /// above 2^32 blocks (2 TiB); this one does not.
    #[inline]
    pub fn next_block(&mut self) -> u64 {
        let product = u128::from(self.blocks) * u128::from(self.random.draw());
        (product / u128::from(GlibcRandom::MAX)) as u64
    }

    /// The block of seeker64.c, the variant for large devices: `blocks * (random() / (double)RAND_MAX)`.
    #[inline]
    pub fn next_block_64(&mut self) -> u64 {
        (self.blocks as f64 * (f64::from(self.random.draw()) / f64::from(GlibcRandom::MAX))) as u64
    }
}

/// The order of the records in the random tests of iozone 3.508 (`-i2`): from the last record to the first, record i is
/// swapped with record `genrand64_int64() % (i + 1)` of a Mersenne Twister that always has the same key. Random reads and
/// random writes, and all children, use the same order.
///
/// This is an array of 8 bytes for each record, as in the original.
#[must_use]
pub fn iozone_order(records: u64) -> Vec<u64> {
    let mut mersenne = Mersenne64::of_key(&[0x12345, 0x23456, 0x34567, 0x45678]);
    let mut order: Vec<u64> = (0..records).collect();
    for i in (0..order.len()).rev() {
        order.swap(i, (mersenne.draw() % (i as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn randomio_begins_as_the_original_on_a_gibibyte() {
        // 262143 offsets; drand48: 0.000000 0.000985 | 0.041631 0.176643 | 0.364602 0.091331 | ...
        let mut randomio = Randomio::new(1 << 30, 4096, 0.2, 0.5);
        let requests: Vec<RandomioRequest> = (0..3).map(|_| randomio.next_request()).collect();
        let block = |r: &RandomioRequest| r.offset_bytes / 4096;
        assert_eq!(requests.iter().map(block).collect::<Vec<_>>(), [0, 10_913, 95_577]);
        assert!(requests.iter().all(|r| r.write && r.offset_bytes % 4096 == 0));
        assert_eq!(requests.iter().map(|r| r.fsync).collect::<Vec<_>>(), [true, false, true]);
    }

    #[test]
    fn randomio_never_asks_for_the_last_block() {
        let mut randomio = Randomio::new(4 * 512, 512, 0.5, 0.1);
        let mut counts = [0u32; 4];
        let requests: Vec<RandomioRequest> = (0..10_000).map(|_| randomio.next_request()).collect();
        requests.iter().for_each(|r| counts[(r.offset_bytes / 512) as usize] += 1);
        assert!(counts[..3].iter().all(|count| *count > 3000) && counts[3] == 0, "{counts:?}");
        assert!(requests.iter().all(|r| r.write || !r.fsync), "a read is never followed by fsync");
        assert_eq!(Randomio::new(512, 512, 0.0, 0.0).next_request().offset_bytes, 0);
    }

    #[test]
    fn iozone_visits_each_record_once_in_the_order_of_the_original() {
        // Printed by the shuffle of iozone.c 3.508 with its own generator, built alone.
        assert_eq!(iozone_order(10), [8, 7, 0, 3, 9, 2, 5, 4, 6, 1]);
        let mut order = iozone_order(1000);
        assert_eq!(order[..6], [531, 382, 373, 938, 339, 668]);
        assert_eq!(order[999], 31);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1000));
        assert_eq!(iozone_order(0), [0; 0]);
        assert_eq!(iozone_order(1), [0]);
    }

    #[test]
    fn seeker_spans_the_device() {
        let (mut integer, mut float) = (Seeker::new(1 << 40, 7), Seeker::new(1 << 40, 7));
        let blocks: Vec<u64> = (0..1000).map(|_| integer.next_block()).collect();
        // The same numbers: the variants differ by rounding only.
        assert!(blocks.iter().all(|block| float.next_block_64().abs_diff(*block) <= 1));
        assert!(blocks.iter().any(|block| *block < 1 << 35));
        assert!(blocks.iter().any(|block| *block > 31 << 35));
    }
}
