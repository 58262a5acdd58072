//! Dates of the proleptic Gregorian calendar as numbers of days, without zones.

/// Seconds of a day.
pub const DAY_S: i64 = 86_400;

/// A date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    /// Year.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, from 1 on.
    pub day: u32,
}

impl Date {
    /// The date that lies this many days after 1970-01-01.
    ///
    /// Counted in years that begin in March, so that the leap day is the last of its year, and in eras of 400 years
    /// (146097 days), after which the calendar repeats.
    #[must_use]
    pub fn of_day(day: i64) -> Self {
        // 1970-01-01 is day 719468 counted from 0000-03-01.
        let day = day + 719_468;
        let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year, month: month as u32, day: day as u32 }
    }

    /// Day of the week of the day with this number, 0 Sunday to 6 Saturday: 1970-01-01 was a Thursday.
    #[must_use]
    pub fn weekday_of(day: i64) -> u32 {
        (day + 4).rem_euclid(7) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks day by day from 1970 to 2400 by the rule of leap years.
    #[test]
    fn every_date_follows_the_one_before() {
        let mut date = Date { year: 1970, month: 1, day: 1 };
        for number in 0..157_000 {
            assert_eq!(Date::of_day(number), date, "{number}");
            let is_leap = date.year % 4 == 0 && (date.year % 100 != 0 || date.year % 400 == 0);
            let length = match date.month {
                2 => 28 + u32::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            date.day += 1;
            if date.day > length {
                (date.day, date.month) = (1, date.month + 1);
            }
            if date.month > 12 {
                (date.month, date.year) = (1, date.year + 1);
            }
        }
        assert!(date.year > 2390);
    }

    #[test]
    fn known_days_of_the_week() {
        // 1970-01-01 Thursday, 2026-11-22 Sunday, 1969-12-31 Wednesday.
        assert_eq!([0, 20_779, -1].map(Date::weekday_of), [4, 0, 3]);
        assert_eq!(Date::of_day(20_779), Date { year: 2026, month: 11, day: 22 });
        assert_eq!(Date::of_day(-1), Date { year: 1969, month: 12, day: 31 });
    }
}
