//! Page-aligned I/O buffers: one mapping, cut into equal slots.

use std::io;
use std::ptr::NonNull;

/// Buffers for I/O, one slot per request in flight, aligned for O_DIRECT on any device.
///
/// The memory is written once at creation, so that no page fault falls into the measured time.
pub struct Arena {
    start: NonNull<u8>,
    slot_bytes: usize,
    slots: usize,
}

// SAFETY: the arena owns its mapping; nothing else holds the pointer.
unsafe impl Send for Arena {}

/// Alignment of every slot: covers 4 KiB logical blocks, the largest that Linux devices have.
const ALIGN_BYTES: usize = 4096;

impl Arena {
    /// Maps `slots` buffers of at least `slot_bytes` each, and touches every page.
    ///
    /// # Errors
    /// When the kernel has not that much memory to give.
    pub fn new(slots: usize, slot_bytes: usize) -> io::Result<Self> {
        let slot_bytes = slot_bytes.max(1).next_multiple_of(ALIGN_BYTES);
        let slots = slots.max(1);
        let too_large =
            || io::Error::new(io::ErrorKind::OutOfMemory, "buffers exceed the address space");
        let total = slot_bytes.checked_mul(slots).ok_or_else(too_large)?;
        // SAFETY: a new anonymous private mapping; no existing memory is named.
        let pointer = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                total,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::POPULATE,
            )?
        };
        let start = NonNull::new(pointer.cast::<u8>()).ok_or_else(too_large)?;
        Ok(Self { start, slot_bytes, slots })
    }

    /// Number of slots.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes in each slot (rounded up to the alignment).
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Bytes in all slots.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.slot_bytes * self.slots
    }

    /// The buffer of a slot.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub fn slot_mut(&mut self, slot: usize) -> &mut [u8] {
        let pointer = self.slot_pointer(slot);
        // SAFETY: the range lies inside the mapping, and `&mut self` makes the borrow exclusive in this process.
        unsafe { std::slice::from_raw_parts_mut(pointer, self.slot_bytes) }
    }

    /// The address of a slot, for handing to the kernel.
    ///
    /// # Panics
    /// When there is no such slot.
    #[inline]
    pub(crate) fn slot_pointer(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        // SAFETY: the offset is inside the mapping by the assertion above.
        unsafe { self.start.as_ptr().add(slot * self.slot_bytes) }
    }

    /// The address of the whole arena.
    pub(crate) fn base(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nobody borrows it any more.
        let unmapped =
            unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.total_bytes()) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_distinct_and_large_enough() {
        let mut arena = Arena::new(3, 5000).unwrap();
        assert_eq!(arena.slot_bytes(), 8192);
        for slot in 0..3 {
            assert_eq!(arena.slot_pointer(slot) as usize % 4096, 0);
            arena.slot_mut(slot).fill(slot as u8 + 1);
        }
        assert!((0..3).all(|slot| arena.slot_mut(slot).iter().all(|b| *b == slot as u8 + 1)));
    }

    #[test]
    fn impossible_sizes_are_errors() {
        assert!(Arena::new(usize::MAX / 2, 1 << 20).is_err());
    }
}
