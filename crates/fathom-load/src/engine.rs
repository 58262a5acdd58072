//! The engine trait: how requests reach the kernel and come back.

use std::io;
use std::time::Duration;

/// What one request asks of the kernel: the same for every engine, so that each takes it as it is.
pub use fathom_sys::request::IoOp as Op;

/// A way to issue requests. Each thread owns one; slots are numbered from 0 to the depth.
pub trait Engine {
    /// The call that is named when the way to the kernel itself is broken.
    const CALL: &'static str;
    /// It has one request at a time and [`Engine::shown`].
    const SHOWS_END: bool = false;

    /// What is and was in use, for the record; nothing where there is nothing to choose.
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    /// The buffer of a slot with no request in flight.
    fn buffer_mut(&mut self, slot: u32) -> &mut [u8];

    /// Takes a request on the file of that index (0 for the only one); it need not start before [`Engine::run`].
    fn queue(&mut self, slot: u32, file: u32, op: Op);

    /// Takes several reads of one size on the first file, each with its slot and offset in bytes, in this order.
    #[inline(always)]
    fn queue_reads(&mut self, size_bytes: u32, reads: impl Iterator<Item = (u32, u64)>) {
        for (slot, offset_bytes) in reads {
            self.queue(slot, 0, Op::Read { offset_bytes, size_bytes });
        }
    }

    /// The descriptor of that index means another file now. No request on it is queued or in flight.
    ///
    /// # Errors
    /// Those of telling the kernel.
    fn renew_file(&mut self, _file: u32) -> io::Result<()> {
        Ok(())
    }

    /// Starts everything queued, waits for at least `wait_for` ends, and says how many can be taken. A time read after
    /// this is later than all of them.
    ///
    /// # Errors
    /// When the way to the kernel itself is broken; errors of single requests are results.
    fn run(&mut self, wait_for: u32) -> io::Result<u32>;

    /// Like [`Engine::run`], but comes back after `wait_ns` at the latest, perhaps with nothing; 0 looks without waiting.
    /// `wait_for` is at least 1, also with nothing in flight. What one call does as a whole is not interrupted.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn run_for(&mut self, _wait_for: u32, wait_ns: u64) -> io::Result<u32> {
        let ended = self.run(0)?;
        if ended == 0 && wait_ns > 0 {
            std::thread::sleep(Duration::from_nanos(wait_ns));
        }
        Ok(ended)
    }

    /// Takes one end as (slot, result): bytes moved, or a negative errno. None when all are taken.
    fn take(&mut self) -> Option<(u32, i32)>;

    /// The result of the only request when it has ended and is not taken yet; never of an engine that does not show ends.
    #[inline(always)]
    fn shown(&self) -> Option<i32> {
        None
    }

    /// What ended is taken, and a read on the first file follows it in slot 0: queued, run and shown in one.
    ///
    /// # Errors
    /// As [`Engine::run`].
    #[inline(always)]
    fn read_next(&mut self, offset_bytes: u64, size_bytes: u32) -> io::Result<Option<i32>> {
        self.take();
        self.queue(0, 0, Op::Read { offset_bytes, size_bytes });
        self.run(1)?;
        Ok(self.shown())
    }

    /// Takes as many ends as there are, but not more than `ends` has room for, and says how many.
    #[inline(always)]
    fn take_many(&mut self, ends: &mut [(u32, i32)]) -> usize {
        let mut taken = 0;
        for place in ends {
            let Some(end) = self.take() else { break };
            *place = end;
            taken += 1;
        }
        taken
    }
}
