//! Sorting by one function for all types: each use of std's costs four kilobytes of the binary.

use std::cmp::Ordering;

/// Stable sorting of what is no part of a measured loop: the comparison is called through a pointer, and the elements are
/// moved once, when their order is known.
pub trait Order<T> {
    /// As [`slice::sort_by`].
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// As [`slice::sort_by_key`].
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);

    /// As [`slice::sort`].
    fn order(&mut self)
    where
        T: Ord;
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let order = in_order(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        arrange(order, &mut |a, b| self.swap(a, b));
    }

    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }

    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }
}

/// The places of the elements in their order.
fn in_order(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

/// Moves to each place the element that `order` has for it: along each circle of places, once around.
fn arrange(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        let mut place = start;
        loop {
            let from = std::mem::replace(&mut order[place], place);
            if from == start {
                break;
            }
            swap(place, from);
            place = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::Prng;

    /// Elements that compare alike are told apart by where they were: the sort is stable.
    #[test]
    fn it_sorts_as_std_does() {
        let mut random = Prng::new(7, 0);
        for count in 0..200 {
            let mut ours: Vec<(u64, usize)> = (0..count).map(|at| (random.below(20), at)).collect();
            let mut theirs = ours.clone();
            ours.order_by_key(|(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            assert_eq!(ours, theirs);
            ours.order_by(|a, b| b.0.cmp(&a.0));
            theirs.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            assert_eq!(ours, theirs);
            ours.order();
            theirs.sort();
            assert_eq!(ours, theirs);
        }
    }
}
