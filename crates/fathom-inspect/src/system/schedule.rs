//! When something starts that starts at certain times of certain days.

use super::civil::{DAY_S, Date};

/// How far ahead is looked, in days: dates repeat after 40 years at the most (a 29 February on a certain day of the week,
/// around a year such as 2100).
const DAYS_MAX: i64 = 41 * 366;

/// All starts of something, in local time. A number is in a set when its bit is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Years; none for all.
    pub years: Option<Vec<i64>>,
    /// Months, 1 to 12.
    pub months: u64,
    /// Days of the month, 1 to 31.
    pub days: u64,
    /// Days of the week, 0 Sunday to 6 Saturday.
    pub weekdays: u64,
    /// Either the day of the month or that of the week has to fit, not both: cron's rule where both are restricted.
    pub one_day_suffices: bool,
    /// Hours.
    pub hours: u64,
    /// Minutes.
    pub minutes: u64,
    /// Seconds.
    pub seconds: u64,
}

/// The set of all numbers in a range.
#[must_use]
pub fn all(first: u32, last: u32) -> u64 {
    (first..=last).fold(0, |set, number| set | 1 << number)
}

/// True when a number below 64 is in the set.
#[must_use]
pub fn holds(set: u64, number: u32) -> bool {
    number < 64 && set >> number & 1 == 1
}

impl Schedule {
    /// The first start after a point of time; both in seconds since 1970 as if local time were UTC. None when there is none
    /// within 40 years.
    #[must_use]
    pub fn next_after(&self, local_s: i64) -> Option<i64> {
        let (today, passed_s) = (local_s.div_euclid(DAY_S), local_s.rem_euclid(DAY_S));
        let mut days = today..today.checked_add(DAYS_MAX)?;
        days.find_map(|day| {
            let after_s = if day == today { passed_s } else { -1 };
            let time_s = if self.is_day(day) { self.time_after(after_s) } else { None };
            day.checked_mul(DAY_S)?.checked_add(time_s?)
        })
    }

    fn is_day(&self, day: i64) -> bool {
        let date = Date::of_day(day);
        let of_month = holds(self.days, date.day);
        let of_week = holds(self.weekdays, Date::weekday_of(day));
        let fits = if self.one_day_suffices { of_month || of_week } else { of_month && of_week };
        let in_year = self.years.as_ref().is_none_or(|years| years.contains(&date.year));
        fits && in_year && holds(self.months, date.month)
    }

    /// The first second of a day after one.
    fn time_after(&self, after_s: i64) -> Option<i64> {
        let of = |set: u64, count: u32| (0..count).filter(move |number| holds(set, *number));
        of(self.hours, 24).find_map(|hour| {
            of(self.minutes, 60).find_map(|minute| {
                let start_s = i64::from(hour * 3600 + minute * 60);
                of(self.seconds, 60).map(|s| start_s + i64::from(s)).find(|s| *s > after_s)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(last: u32) -> impl Strategy<Value = u64> {
        // Small sets and full ones.
        prop_oneof![
            proptest::collection::vec(0..=last, 1..4)
                .prop_map(|list| list.into_iter().fold(0, |set, n| set | 1 << n)),
            Just(all(0, last)),
        ]
    }

    fn schedules() -> impl Strategy<Value = Schedule> {
        let sets = (set(12), set(31), set(6), set(23), set(59), any::<bool>());
        sets.prop_map(|(months, days, weekdays, hours, minutes, one_day_suffices)| Schedule {
            years: None,
            months,
            days,
            weekdays,
            one_day_suffices,
            hours,
            minutes,
            seconds: 1,
        })
    }

    /// True when a minute is a start, by dividing the time up and asking each set.
    fn starts_at(schedule: &Schedule, local_s: i64) -> bool {
        let (day, time) = (local_s / DAY_S, (local_s % DAY_S) as u32);
        let date = Date::of_day(day);
        let of_month = holds(schedule.days, date.day);
        let of_week = holds(schedule.weekdays, Date::weekday_of(day));
        (of_month && of_week || schedule.one_day_suffices && (of_month || of_week))
            && holds(schedule.months, date.month)
            && holds(schedule.hours, time / 3600)
            && holds(schedule.minutes, time / 60 % 60)
    }

    proptest! {
        /// Against every minute of 40 days, tried one by one.
        #[test]
        fn the_next_start_is_the_first_minute_that_fits(
            schedule in schedules(),
            now in 1_700_000_000i64..1_900_000_000,
        ) {
            let mut minutes = (now / 60 + 1..now / 60 + 40 * 1440).map(|minute| minute * 60);
            let first = minutes.find(|minute| starts_at(&schedule, *minute));
            match (first, schedule.next_after(now)) {
                (Some(first), next) => prop_assert_eq!(next, Some(first)),
                (None, next) => prop_assert!(next.is_none_or(|next| next >= (now / 60 + 40 * 1440) * 60)),
            }
        }
    }

    #[test]
    fn dates_that_never_come_end_the_search() {
        let mut schedule = Schedule {
            years: None,
            months: 1 << 2,
            days: 1 << 30,
            weekdays: all(0, 6),
            one_day_suffices: false,
            hours: 1,
            minutes: 1,
            seconds: 1,
        };
        assert_eq!(schedule.next_after(1_795_000_000), None);
        assert_eq!(schedule.next_after(i64::MAX - 5), None);
        schedule.days = 1 << 29;
        schedule.years = Some(vec![2028]);
        // 2028-02-29 00:00:00.
        assert_eq!(schedule.next_after(1_795_000_000), Some(1_835_395_200));
        assert_eq!(schedule.next_after(1_835_395_200), None);
    }
}
