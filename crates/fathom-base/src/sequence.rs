//! Orders without chance: forwards, backwards, strided, evenly spaced from end to end.
//!
//! A range is counted in places (possible offsets). [`Sequence`] walks one thread; [`Order::nth`] gives the place of
//! any visit, for jobs that share one counter.

use crate::distribution::DistributionError;
use crate::permutation::check_places;

/// In which order the places of a range are visited. Each repeats from its beginning when it has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// 0, 1, 2, ... to the last.
    Forward,
    /// The last, the one before, ... to 0.
    Reverse,
    /// 0, s, 2s, ... to the end of the range; then the next lane 1, 1 + s, ...; after s lanes each place was visited
    /// once. The stride is 1 to the number of places.
    Strided {
        /// Distance between visits, in places.
        stride: u64,
    },
    /// Evenly spaced samples of the whole range, the first and the last place among them.
    Sweep {
        /// How many places are visited, 1 to the number of places; one is the first place.
        steps: u64,
    },
}

impl Order {
    /// How many visits it takes until the order repeats: all `places`, but of a sweep its steps.
    #[must_use]
    pub fn period(self, places: u64) -> u64 {
        match self {
            Self::Sweep { steps } => steps,
            _ => places,
        }
    }

    /// The place of visit number `index`, counted from 0 and going on over the ends of periods. `places` and the
    /// order's own numbers are as [`Sequence::new`] checks them.
    #[must_use]
    pub fn nth(self, places: u64, index: u64) -> u64 {
        let index = index % self.period(places).max(1);
        match self {
            Self::Forward => index,
            Self::Reverse => places - 1 - index,
            Self::Strided { stride } => {
                // The first lanes have one place more when the stride does not divide the range.
                let (length, long_lanes) = (places / stride, places % stride);
                let in_long = long_lanes * (length + 1);
                let (lane, step) = if index < in_long {
                    (index / (length + 1), index % (length + 1))
                } else {
                    (long_lanes + (index - in_long) / length, (index - in_long) % length)
                };
                lane + step * stride
            }
            Self::Sweep { steps } => {
                let gaps = u128::from(steps.max(2) - 1);
                (u128::from(index) * u128::from(places - 1) / gaps) as u64
            }
        }
    }
}

/// One walk in an order.
#[derive(Debug, Clone)]
pub struct Sequence {
    order: Order,
    places: u64,
    /// The place that comes next; of a sweep its number.
    next: u64,
}

impl Sequence {
    /// A walk over `0..places` that begins with visit number `first` (see [`Order::nth`]): 0 for the beginning.
    ///
    /// # Errors
    /// A number of places that is not 1 to [`crate::permutation::PLACES_MAX`], and
    /// [`DistributionError::Steps`] for a stride or a number of steps that is not 1 to `places`.
    pub fn new(order: Order, places: u64, first: u64) -> Result<Self, DistributionError> {
        check_places(places)?;
        let limited = match order {
            Order::Forward | Order::Reverse => None,
            Order::Strided { stride } => Some(("stride", stride)),
            Order::Sweep { steps } => Some(("number of steps", steps)),
        };
        if let Some((what, value)) = limited.filter(|(_, value)| !(1..=places).contains(value)) {
            return Err(DistributionError::Steps { what, value, places });
        }
        let next = match order {
            Order::Sweep { steps } => first % steps,
            _ => order.nth(places, first),
        };
        Ok(Self { order, places, next })
    }

    /// The next place; without a division but for a sweep.
    #[inline]
    pub fn next_place(&mut self) -> u64 {
        let place = self.next;
        self.next = match self.order {
            Order::Forward => {
                if place + 1 < self.places {
                    place + 1
                } else {
                    0
                }
            }
            Order::Reverse => {
                if place > 0 {
                    place - 1
                } else {
                    self.places - 1
                }
            }
            Order::Strided { stride } if place + stride < self.places => place + stride,
            Order::Strided { stride } => next_lane(place, stride),
            Order::Sweep { steps } => {
                self.next = if place + 1 < steps { place + 1 } else { 0 };
                return self.order.nth(self.places, place);
            }
        };
        place
    }
}

#[cold]
fn next_lane(place: u64, stride: u64) -> u64 {
    (place % stride + 1) % stride
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(order: Order, places: u64, first: u64, count: u64) -> Vec<u64> {
        let mut sequence = Sequence::new(order, places, first).unwrap();
        (0..count).map(|_| sequence.next_place()).collect()
    }

    #[test]
    fn orders_as_described() {
        assert_eq!(walk(Order::Forward, 4, 0, 6), [0, 1, 2, 3, 0, 1]);
        assert_eq!(walk(Order::Reverse, 4, 0, 6), [3, 2, 1, 0, 3, 2]);
        let strided = Order::Strided { stride: 3 };
        assert_eq!(walk(strided, 8, 0, 10), [0, 3, 6, 1, 4, 7, 2, 5, 0, 3]);
        assert_eq!(walk(strided, 8, 4, 3), [4, 7, 2]);
        assert_eq!(walk(Order::Sweep { steps: 5 }, 101, 0, 6), [0, 25, 50, 75, 100, 0]);
        assert_eq!(walk(Order::Sweep { steps: 3 }, 1 << 52, 1, 2), [(1 << 51) - 1, (1 << 52) - 1]);
        assert_eq!(walk(Order::Sweep { steps: 1 }, 10, 0, 2), [0, 0]);
    }

    #[test]
    fn every_order_visits_each_place_once_and_walks_as_it_counts() {
        for places in 1..40 {
            let strides = (1..=places).map(|stride| Order::Strided { stride });
            for order in strides.chain([Order::Forward, Order::Reverse]) {
                for first in [0, 1, places / 2, places + 3] {
                    let visits = walk(order, places, first, 2 * places);
                    let counted: Vec<u64> =
                        (first..first + 2 * places).map(|i| order.nth(places, i)).collect();
                    assert_eq!(visits, counted, "{order:?} over {places} from {first}");
                    let mut once = visits[..places as usize].to_vec();
                    once.sort_unstable();
                    assert!(once.into_iter().eq(0..places), "{order:?} over {places}");
                }
            }
        }
    }

    #[test]
    fn a_sweep_rises_evenly_from_end_to_end() {
        for places in 2..40 {
            for steps in 2..=places {
                let visits = walk(Order::Sweep { steps }, places, 0, steps);
                assert_eq!((visits[0], visits[steps as usize - 1]), (0, places - 1));
                let gap = (places - 1) / (steps - 1);
                assert!(
                    visits.windows(2).all(|pair| (gap..=gap + 1).contains(&(pair[1] - pair[0])))
                );
            }
        }
    }

    #[test]
    fn impossible_steps_are_refused() {
        for order in [Order::Strided { stride: 0 }, Order::Strided { stride: 11 }] {
            let error = Sequence::new(order, 10, 0).unwrap_err().to_string();
            assert!(error.contains("stride") && error.contains("1 to 10"), "{error}");
        }
        assert!(Sequence::new(Order::Sweep { steps: 0 }, 10, 0).is_err());
        assert_eq!(Sequence::new(Order::Forward, 0, 0).unwrap_err(), DistributionError::NoPlaces);
    }
}
