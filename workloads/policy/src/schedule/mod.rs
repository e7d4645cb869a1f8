//! Schedules: the times at which an AdvancedCronJob runs.
//!
//! The dialect is that of robfig/cron, which OpenKruise and Kubernetes read: five fields, `@hourly` and its
//! like, `@every` and a duration, and a zone in front. The days of the month and of the week are both asked
//! for if one of them is `*`, and either of them otherwise.
//!
//! A schedule names wall times. Each instant whose wall clock shows one of them is a time of the schedule: so
//! a wall time that a switch to summer leaves out is left out, and one that comes twice is two times. The
//! days between two switches of a zone have one offset; within them, wall time is plain arithmetic.

mod fields;
mod zone;

#[cfg(test)]
mod tests;

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use self::fields::Fields;
pub use self::zone::zone;
use crate::fault::Fault;

/// Years that the next time is looked for in, after that of the time before it.
const YEARS: i16 = 5;
/// Remedy for what is no schedule.
const REMEDY: &str =
    "give minute, hour, day of month, month and day of week, or one such as @hourly or @every 90s";

/// Times, without end.
#[derive(Clone, Debug)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum Times {
    /// At these wall times.
    At(Fields),
    /// Each so many seconds, from the last one on.
    Every(i64),
}

impl Schedule {
    /// Parses `spec.schedule` in the zone of `spec.timeZone`, or else in its own or the given one.
    pub fn parse(text: &str, time_zone: Option<&str>, default: &TimeZone) -> Result<Self, Fault> {
        let field = "spec.schedule";
        if time_zone.is_some() && text.contains("TZ") {
            let why = "goes not with a schedule that has a zone of its own: leave one of them out";
            return Err(Fault::new("spec.timeZone", why));
        }
        let own = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
        let (times, zone) = match (own, time_zone) {
            (Some(own), _) => {
                let Some((name, times)) = own.split_once(' ') else {
                    return Err(Fault::new(field, format!("has a zone and no times: {REMEDY}")));
                };
                (times, zone::zone(field, name)?)
            }
            (None, Some(name)) => (text, zone::zone("spec.timeZone", name)?),
            (None, None) => (text, default.clone()),
        };
        let times =
            Times::parse(times.trim()).map_err(|why| Fault::new(field, format!("{why}: {REMEDY}")))?;
        Ok(Self { times, zone })
    }

    /// The first time after the given one; `None`: there is none in the next years.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::Every(seconds) => Timestamp::from_second(after.as_second().checked_add(*seconds)?).ok(),
            Times::At(fields) => self.next_at(fields, after),
        }
    }

    /// The last time after the one and not after the other, counted from the first one on.
    pub fn last(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let within = |time: &Timestamp| *time <= until;
        let mut last = self.next(after).filter(within)?;
        if let Times::Every(seconds) = self.times {
            let more = until.as_second().saturating_sub(last.as_second()) / seconds.max(1);
            let at = last.as_second().saturating_add(more.saturating_mul(seconds));
            return Timestamp::from_second(at).ok();
        }
        // A time in the later half is later than all of the earlier one.
        let mut end = until.as_second();
        while last.as_second() < end {
            let middle = last.as_second() + (end - last.as_second()) / 2;
            match Timestamp::from_second(middle).ok().and_then(|middle| self.next(middle)).filter(within) {
                Some(later) => last = later,
                None => end = middle,
            }
        }
        Some(last)
    }

    fn next_at(&self, fields: &Fields, after: Timestamp) -> Option<Timestamp> {
        let year = after.to_zoned(TimeZone::UTC).year().checked_add(YEARS + 1)?;
        let limit = Date::new(year, 1, 1).ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
        let mut start = after.as_second().checked_add(1)?;
        while start < limit {
            let time = Timestamp::from_second(start).ok()?;
            let offset = i64::from(self.zone.to_offset(time).seconds());
            let switch = self.zone.following(time).next().map(|switch| switch.timestamp().as_second());
            let end = switch.map_or(limit, |switch| switch.min(limit));
            if let Some(found) = fields.next(start + offset, end + offset) {
                return Timestamp::from_second(found - offset).ok();
            }
            start = end;
        }
        None
    }
}

#[cfg(test)]
impl Schedule {
    fn fields(&self) -> Option<&Fields> {
        match &self.times {
            Times::At(fields) => Some(fields),
            Times::Every(_) => None,
        }
    }
}

impl Times {
    fn parse(text: &str) -> Result<Self, String> {
        let fields = match text {
            "" => return Err("is empty".to_owned()),
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => match other.strip_prefix("@every ") {
                Some(every) => return Ok(Self::Every(zone::seconds(every)?)),
                None if other.starts_with('@') => return Err(format!("is {other:?}, which nobody knows")),
                None => other,
            },
        };
        Fields::parse(fields).map(Self::At)
    }
}
