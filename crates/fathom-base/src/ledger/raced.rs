//! Beside the granules: of those whose latest request had others in flight with it, which ones these were.
//!
//! Room for some thousand places, made once. At rest about as many are needed as requests were in flight at the most:
//! what is written often enough for races is soon written again. What is kept of a granule counts as long as its latest
//! request is the same; after that its room is free. Where there is none, the range from the oldest to the latest
//! counts.

use crate::verify_block::{RACERS_BYTES, Racers};

/// Places that there is room for.
const PLACES_MAX: usize = 4096;
/// Neighbours among which a place looks for room.
const WAYS: usize = 8;

#[derive(Debug)]
pub(super) struct Raced {
    /// A granule and its latest generation, which is 0 where nothing is kept.
    keys: Vec<[u64; 2]>,
    racers: Vec<[u8; RACERS_BYTES]>,
}

impl Raced {
    /// Of so many granules.
    pub fn new(granules: usize) -> Self {
        let room = granules.clamp(WAYS, PLACES_MAX).next_power_of_two();
        // Zeroed pages become real when they are written first.
        Self { keys: vec![[0; 2]; room], racers: vec![[0; RACERS_BYTES]; room] }
    }

    fn places(&self, index: usize) -> impl Iterator<Item = usize> + use<> {
        let mask = self.keys.len() - 1;
        let first = ((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (first..first + WAYS).map(move |place| place & mask)
    }

    /// What is known of a granule whose latest generation is that.
    pub fn get(&self, index: usize, latest: u64) -> Option<Racers> {
        let place = self.places(index).find(|place| self.keys[*place] == [index as u64, latest])?;
        Some(Racers::from_bytes(self.racers[place]))
    }

    /// Keeps it where there is room. `latest_of` says the latest generation of any granule.
    pub fn put(
        &mut self,
        (index, latest): (usize, u64),
        racers: Racers,
        latest_of: impl Fn(usize) -> u64,
    ) {
        let is_free = |place: &usize| {
            let [other, kept] = self.keys[*place];
            kept == 0 || other == index as u64 || latest_of(other as usize) != kept
        };
        if let Some(place) = self.places(index).find(is_free) {
            self.keys[place] = [index as u64, latest];
            self.racers[place] = racers.bytes();
        }
    }
}
