//! The files of one client: their numbers, sizes and contents. Nothing but what stands here is in its directories, so
//! that it never has to look.

use fathom_base::prng::Prng;
use fathom_model::play::PlaySpec;

/// One file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The number in its name.
    pub number: u64,
    /// What it holds follows from this.
    pub content: u64,
    /// How long it is.
    pub size: u64,
}

/// The files of one client.
#[derive(Debug)]
pub(super) struct Set {
    entries: Vec<Entry>,
    most: u64,
    /// Numbers go up in such steps, so that clients that share a directory have different ones.
    step: u64,
    next: u64,
    /// Where the oldest is, for those that delete in the order of making.
    oldest: usize,
}

impl Set {
    pub(super) fn new(step: u64, first: u64, spec: &PlaySpec) -> Self {
        let most = spec.files_each_max();
        let entries = Vec::with_capacity(most as usize);
        Self { entries, most, step, next: first, oldest: 0 }
    }

    /// One of those that there are from the start.
    pub(super) fn add_first(&mut self, size: u64) {
        let (number, content) = (self.next_number(), self.len() + 1);
        self.entries.push(Entry { number, content, size });
    }

    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// A number that no file has had.
    pub(super) fn next_number(&mut self) -> u64 {
        let number = self.next;
        self.next += self.step;
        number
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(super) fn get(&self, index: usize) -> Option<Entry> {
        self.entries.get(index).copied()
    }

    /// One of them; none only when there is none.
    pub(super) fn any(&self, random: &mut Prng) -> Option<(usize, Entry)> {
        let index = random.below(self.len()) as usize;
        self.get(index).map(|entry| (index, entry))
    }

    pub(super) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    pub(super) fn change(&mut self, index: usize, entry: Entry) {
        if let Some(old) = self.entries.get_mut(index) {
            *old = entry;
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        if index < self.entries.len() {
            self.entries.swap_remove(index);
        }
    }

    /// Puts a new file in the place of the oldest and gives that back; while there are fewer than at first, it only adds.
    pub(super) fn turn_over(&mut self, entry: Entry, first_count: u64) -> Option<Entry> {
        if self.len() < first_count.max(1) {
            self.entries.push(entry);
            return None;
        }
        let place = self.oldest % self.entries.len();
        self.oldest = place + 1;
        Some(std::mem::replace(&mut self.entries[place], entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_one_comes() {
        let spec = PlaySpec { files: 3, ..PlaySpec::default() };
        let mut set = Set::new(2, 1, &spec);
        (0..3).for_each(|size| set.add_first(size));
        let numbers = |set: &Set| set.entries.iter().map(|e| e.number).collect::<Vec<_>>();
        assert_eq!(numbers(&set), [1, 3, 5], "those of one of two clients");
        let mut gone = Vec::new();
        for _ in 0..5 {
            let entry = Entry { number: set.next_number(), content: 0, size: 0 };
            gone.push(set.turn_over(entry, 3).map(|entry| entry.number));
        }
        assert_eq!(gone, [1, 3, 5, 7, 9].map(Some));
        assert_eq!(set.len(), 3);
        let mut empty = Set::new(1, 0, &PlaySpec { files: 0, ..PlaySpec::default() });
        let entry = Entry { number: 0, content: 0, size: 0 };
        assert_eq!(empty.turn_over(entry, 0), None);
        assert_eq!(empty.turn_over(Entry { number: 1, ..entry }, 0), Some(entry));
    }
}
