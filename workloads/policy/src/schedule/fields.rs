//! The five fields of a schedule, and the wall times that they name.

use jiff::{Timestamp, civil::Date, tz::TimeZone};

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Wall times: a set of numbers a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// One of the two fields of days is `*`: both must hold.
    both_days: bool,
}

/// Range of a field.
struct Range {
    name: &'static str,
    least: u32,
    most: u32,
    /// Names, and the number of the first one.
    names: (&'static [&'static str], u32),
}

impl Fields {
    /// Parses five fields.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let given: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = given[..] else {
            return Err(format!("has {} fields", given.len()));
        };
        let range = |name, least, most| Range { name, least, most, names: (&[], 0) };
        let (days, any_day) = range("day of month", 1, 31).parse(days)?;
        let of_months = Range { names: (&MONTHS, 1), ..range("month", 1, 12) };
        let of_weekdays = Range { names: (&DAYS, 0), ..range("day of week", 0, 6) };
        let (weekdays, any_weekday) = of_weekdays.parse(weekdays)?;
        Ok(Self {
            minutes: range("minute", 0, 59).parse(minutes)?.0,
            hours: range("hour", 0, 23).parse(hours)?.0,
            days,
            months: of_months.parse(months)?.0,
            weekdays,
            both_days: any_day || any_weekday,
        })
    }

    /// The first of these wall times from one second on and before another one, both counted as in UTC.
    pub(super) fn next(&self, from: i64, until: i64) -> Option<i64> {
        let from = from.checked_add(MINUTE - 1)?.div_euclid(MINUTE) * MINUTE;
        let mut day = from.div_euclid(DAY);
        let mut of_day = from.rem_euclid(DAY);
        let mut date = Timestamp::from_second(day * DAY).ok()?.to_zoned(TimeZone::UTC).date();
        while day * DAY < until {
            if !has(self.months, date.month()) {
                let left = i64::from(date.days_in_month() - date.day());
                day += left + 1;
                date = date.last_of_month().tomorrow().ok()?;
                of_day = 0;
                continue;
            }
            if self.takes(date)
                && let Some(time) = self.time(of_day)
            {
                return Some(day * DAY + time).filter(|time| *time < until);
            }
            day += 1;
            date = date.tomorrow().ok()?;
            of_day = 0;
        }
        None
    }

    fn takes(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        if self.both_days { day && weekday } else { day || weekday }
    }

    /// The first time of a day from the given one on, in seconds.
    fn time(&self, from: i64) -> Option<i64> {
        let (hour, minute) = (from / HOUR, from % HOUR / MINUTE);
        let of = |hour: i64, from: i64| {
            let minute = (from..60).find(|minute| has(self.minutes, *minute))?;
            Some(hour * HOUR + minute * MINUTE)
        };
        let now = has(self.hours, hour).then(|| of(hour, minute)).flatten();
        now.or_else(|| of((hour + 1..24).find(|hour| has(self.hours, *hour))?, 0))
    }
}

#[cfg(test)]
impl Fields {
    /// Tells whether the clock shows one of these times, asked field by field.
    pub(super) fn shows(&self, wall: &jiff::Zoned) -> bool {
        let date = wall.date();
        wall.second() == 0
            && has(self.minutes, wall.minute())
            && has(self.hours, wall.hour())
            && has(self.months, date.month())
            && self.takes(date)
    }
}

fn has(set: u64, number: impl TryInto<u32>) -> bool {
    number.try_into().is_ok_and(|number| set.checked_shr(number).is_some_and(|rest| rest & 1 == 1))
}

impl Range {
    /// Numbers of a field, and whether it is `*`.
    fn parse(&self, text: &str) -> Result<(u64, bool), String> {
        let (mut numbers, mut any) = (0, false);
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (set, is_any) =
                self.part(part).map_err(|why| format!("has {part:?} as {}, {why}", self.name))?;
            numbers |= set;
            any |= is_any;
        }
        if numbers == 0 {
            Err(format!("has {text:?} as {}, no number", self.name))
        } else {
            Ok((numbers, any))
        }
    }

    fn part(&self, text: &str) -> Result<(u64, bool), String> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => {
                (range, Some(plain(step).filter(|step| *step > 0).ok_or("no step from 1 on")?))
            }
            None => (text, None),
        };
        let any = matches!(range, "*" | "?");
        let (first, last) = match range.split_once('-') {
            _ if any => (self.least, self.most),
            Some((first, last)) => (self.number(first)?, self.number(last)?),
            // `5/15` goes on to the end.
            None => {
                let first = self.number(range)?;
                (first, if step.is_some() { self.most } else { first })
            }
        };
        if first > last {
            return Err("which begins after its end".to_owned());
        }
        let step = step.unwrap_or(1);
        let numbers = (first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        Ok((numbers.fold(0, |set, number| set | 1 << number), any && step == 1))
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let (names, first) = self.names;
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u32::try_from(at).ok()?.checked_add(first));
        let within = |number: &u32| (self.least..=self.most).contains(number);
        let number = named.or_else(|| plain(text).filter(within));
        number.ok_or_else(|| format!("no number from {} to {}", self.least, self.most))
    }
}

/// A number of digits alone.
fn plain(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
