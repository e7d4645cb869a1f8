//! The dialect, by tables as robfig/cron has them; switches of zones; and each answer against a walk over all
//! minutes.

use jiff::{Timestamp, Zoned, tz::TimeZone};
use rstest::rstest;

use super::{Schedule, zone};

fn at(text: &str) -> Timestamp {
    text.parse::<Zoned>().map(|zoned| zoned.timestamp()).unwrap_or_else(|_| text.parse().unwrap())
}

fn schedule(text: &str, name: &str) -> Schedule {
    let zone = zone("zone", name).unwrap();
    Schedule::parse(text, None, &zone).unwrap_or_else(|fault| panic!("{fault}"))
}

/// Times after the first one as wall times, up to the given number.
fn times(text: &str, name: &str, after: &str, count: usize) -> Vec<String> {
    let (schedule, mut time) = (schedule(text, name), at(after));
    let zone = zone("zone", name).unwrap();
    let mut times = Vec::new();
    while times.len() < count
        && let Some(next) = schedule.next(time)
    {
        times.push(next.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string());
        time = next;
    }
    times
}

#[rstest]
// Simple cases.
#[case("0/15 * * * *", "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z")]
#[case("0/15 * * * *", "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z")]
// Wrap around hours, days, months, years.
#[case("20-35/15 * * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z")]
#[case("20-35/15 */2 * * *", "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z")]
#[case("20-35/15 1/2 * * *", "2012-07-09T15:45:00Z", "2012-07-09T17:20:00Z")]
#[case("20-35/15 10-12 * * *", "2012-07-09T15:45:00Z", "2012-07-10T10:20:00Z")]
#[case("20-35/15 1/2 */2 * *", "2012-07-09T23:35:51Z", "2012-07-11T01:20:00Z")]
#[case("20-35/15 * 9-20 * *", "2012-07-09T23:35:51Z", "2012-07-10T00:20:00Z")]
#[case("20-35/15 * 9-20 Jul *", "2012-07-20T23:35:51Z", "2013-07-09T00:20:00Z")]
#[case("0 0 9 Apr-Oct ?", "2012-07-09T23:35:00Z", "2012-08-09T00:00:00Z")]
#[case("0 0 */5 Apr,Aug,Oct Mon", "2012-07-09T23:35:00Z", "2012-08-01T00:00:00Z")]
#[case("0 0 */5 Oct Mon", "2012-07-09T23:35:00Z", "2012-10-01T00:00:00Z")]
#[case("0 0 * Feb Mon", "2012-07-09T23:35:00Z", "2013-02-04T00:00:00Z")]
#[case("0 0 * Feb Mon/2", "2012-07-09T23:35:00Z", "2013-02-01T00:00:00Z")]
#[case("59 23 31 Dec ?", "2012-07-09T23:35:00Z", "2012-12-31T23:59:00Z")]
#[case("0 0 29 Feb ?", "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z")]
// Days of the month and of the week: both, if one is any; either of them otherwise.
#[case("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")]
#[case("0 0 13 * *", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z")]
#[case("0 0 */1 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")]
#[case("0 0 13 * */1", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z")]
#[case("0 0 */2 * 0", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")]
#[case("0 0 13 * ?", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z")]
#[case("0 0 */2,* * 0", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z")]
// Lists, names of any case, a point of a range, blanks.
#[case("5,,10 * * * *", "2026-01-01T00:05:00Z", "2026-01-01T00:10:00Z")]
#[case("0 0 1 JAN,fEb *", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")]
#[case("0 0 * * SUN", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z")]
#[case("7-7 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:07:00Z")]
#[case("  5  *\t* * *  ", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z")]
// Names for whole schedules.
#[case("@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")]
#[case("@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z")]
#[case("@monthly", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")]
#[case("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z")]
#[case("@daily", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")]
#[case("@midnight", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")]
#[case("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z")]
#[case("@every 1h30m", "2026-01-01T00:00:01Z", "2026-01-01T01:30:01Z")]
#[case("@every 1.5s", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")]
#[case("@every 5ns", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")]
#[case("@every -1h", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")]
#[case("@every 0", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z")]
#[case("@every 2562047h", "2026-01-01T00:00:00Z", "2318-04-12T23:00:00Z")]
// Zones in front.
#[case("TZ=America/New_York 0 4 * * *", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00Z")]
#[case("CRON_TZ=Asia/Tokyo 0 4 * * *", "2026-01-01T00:00:00Z", "2026-01-01T19:00:00Z")]
#[case("CRON_TZ=Asia/Kolkata   @daily", "2026-01-01T00:00:00Z", "2026-01-01T18:30:00Z")]
fn the_next_time(#[case] text: &str, #[case] after: &str, #[case] next: &str) {
    assert_eq!(schedule(text, "UTC").next(at(after)), Some(at(next)));
}

#[rstest]
#[case("0 0 30 2 *")]
#[case("0 0 31 Sep ?")]
fn a_day_that_never_comes(#[case] text: &str) {
    assert_eq!(schedule(text, "UTC").next(at("2026-01-01T00:00:00Z")), None);
}

#[rstest]
#[case("", "is empty")]
#[case("* * * *", "has 4 fields")]
#[case("* * * * * *", "has 6 fields")]
#[case("60 * * * *", "as minute, no number from 0 to 59")]
#[case("* 24 * * *", "as hour")]
#[case("* * 0 * *", "as day of month")]
#[case("* * * 13 *", "as month")]
#[case("* * * * 7", "as day of week, no number from 0 to 6")]
#[case("* * * * mon-sun", "begins after its end")]
#[case("*/0 * * * *", "no step")]
#[case("*/-1 * * * *", "no step")]
#[case("1-2-3 * * * *", "as minute")]
#[case("1/2/3 * * * *", "no step")]
#[case("*-5 * * * *", "as minute")]
#[case(", * * * *", "no number")]
#[case("+5 * * * *", "as minute")]
#[case("99999999999 * * * *", "as minute")]
#[case("* * L * *", "as day of month")]
#[case("* * 15W * *", "as day of month")]
#[case("* * * * 5#2", "as day of week")]
#[case("* * * january *", "as month")]
#[case("@reboot", "nobody knows")]
#[case("@Hourly", "nobody knows")]
#[case("@every", "nobody knows")]
#[case("@every 5", "no duration")]
#[case("@every 1d", "no duration")]
#[case("@every 1h0", "no duration")]
#[case("@every 1h 5m", "no duration")]
#[case("@every 99999999h", "no duration")]
#[case("@every .s", "no duration")]
#[case("TZ=UTC", "a zone and no times")]
#[case("TZ= 0 5 * * *", "time zone")]
#[case("TZ=Local 0 5 * * *", "time zone")]
#[case("TZ=Europe/Atlantis 0 5 * * *", "time zone")]
fn what_is_no_schedule_is_named_with_a_remedy(#[case] text: &str, #[case] why: &str) {
    let fault = Schedule::parse(text, None, &TimeZone::UTC).unwrap_err().to_string();
    assert!(fault.starts_with("spec.schedule ") && fault.contains(why) && fault.contains("give "), "{fault}");
}

#[rstest]
#[case("0 5 * * *", "", "spec.timeZone names")]
#[case("0 5 * * *", "local", "spec.timeZone names")]
#[case("TZ=UTC 0 5 * * *", "UTC", "spec.timeZone goes not with")]
fn zones_that_are_none(#[case] text: &str, #[case] name: &str, #[case] why: &str) {
    let fault = Schedule::parse(text, Some(name), &TimeZone::UTC).unwrap_err().to_string();
    assert!(fault.starts_with(why), "{fault}");
}

/// A time that a switch leaves out is left out, and one that comes twice is two times, as in robfig/cron.
#[rstest]
#[case::berlin_spring("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", &[
    "2026-03-28 02:30:00 +01:00", "2026-03-30 02:30:00 +02:00"])]
#[case::berlin_spring_hourly("0 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", &[
    "2026-03-29 03:00:00 +02:00", "2026-03-29 04:00:00 +02:00"])]
#[case::berlin_autumn("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &[
    "2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00 +01:00", "2026-10-26 02:30:00 +01:00"])]
#[case::berlin_autumn_half_hours("*/30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", &[
    "2026-10-25 02:00:00 +02:00", "2026-10-25 02:30:00 +02:00", "2026-10-25 02:00:00 +01:00",
    "2026-10-25 02:30:00 +01:00", "2026-10-26 02:00:00 +01:00"])]
#[case::new_york_spring("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", &[
    "2026-03-09 02:30:00 -04:00"])]
#[case::new_york_autumn("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", &[
    "2026-11-01 01:30:00 -04:00", "2026-11-01 01:30:00 -05:00", "2026-11-02 01:30:00 -05:00"])]
// Half an hour: 02:00 becomes 02:30 in October, and 01:30 again in April.
#[case::lord_howe_spring("*/15 2 * * *", "Australia/Lord_Howe", "2026-10-03T14:00:00Z", &[
    "2026-10-04 02:30:00 +11:00", "2026-10-04 02:45:00 +11:00", "2026-10-05 02:00:00 +11:00"])]
#[case::lord_howe_autumn("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", &[
    "2026-04-05 01:45:00 +11:00", "2026-04-05 01:45:00 +10:30", "2026-04-06 01:45:00 +10:30"])]
fn switches(#[case] text: &str, #[case] name: &str, #[case] after: &str, #[case] expected: &[&str]) {
    assert_eq!(times(text, name, after, expected.len()), expected);
}

/// Each minute whose wall clock shows a time of the schedule is one, and no other: over both switches.
#[test]
fn the_next_time_is_that_of_a_walk_over_all_minutes() {
    let texts = [
        "*/7 * * * *",
        "30 2 * * *",
        "15,45 1-3 * * *",
        "0 0 * * *",
        "59 23 * * 6",
        "*/20 */5 1-7 * sun",
        "0 12 29 3 *",
    ];
    let windows = [
        ("Europe/Berlin", "2026-03-27T00:00:00Z"),
        ("Europe/Berlin", "2026-10-23T00:00:00Z"),
        ("America/New_York", "2026-03-06T00:00:00Z"),
        ("America/New_York", "2026-10-30T00:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-03T00:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-02T00:00:00Z"),
        // Midnight itself is left out here.
        ("America/Santiago", "2026-09-04T00:00:00Z"),
        ("Asia/Kathmandu", "2026-01-01T00:00:00Z"),
    ];
    for (name, from) in windows {
        let zone = zone("zone", name).unwrap();
        let from = at(from).as_second();
        for text in texts {
            let schedule = schedule(text, name);
            let Some(fields) = schedule.fields() else { panic!("{text}") };
            let shows = |second: i64| {
                let wall = Timestamp::from_second(second).unwrap().to_zoned(zone.clone());
                fields.shows(&wall)
            };
            let walked: Vec<i64> =
                (1..=4 * 1440).map(|minute| from + minute * 60).filter(|second| shows(*second)).collect();
            let (mut found, mut time) = (Vec::new(), Timestamp::from_second(from).unwrap());
            let end = Timestamp::from_second(from + 4 * 86_400).unwrap();
            while let Some(next) = schedule.next(time).filter(|next| *next <= end) {
                found.push(next.as_second());
                time = next;
            }
            assert_eq!(found, walked, "{text} {name}");
            let start = Timestamp::from_second(from).unwrap();
            for minutes in [1, 59, 61, 1439, 1500, 3000, 5760] {
                let until = from + minutes * 60 - 7;
                let last = walked.iter().rev().find(|second| **second <= until).copied();
                let got = schedule.last(start, Timestamp::from_second(until).unwrap());
                assert_eq!(got.map(Timestamp::as_second), last, "{text} {name} {minutes}");
            }
        }
    }
}

#[rstest]
#[case("@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z", Some("2026-01-01T00:09:00Z"))]
#[case("@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:29Z", None)]
#[case("@every 1s", "2000-01-01T00:00:00Z", "2026-01-01T00:00:00Z", Some("2026-01-01T00:00:00Z"))]
#[case("* * * * *", "2000-01-01T00:00:00Z", "2026-01-01T00:00:59Z", Some("2026-01-01T00:00:00Z"))]
#[case("0 0 29 2 *", "2000-01-01T00:00:00Z", "2026-01-01T00:00:00Z", Some("2024-02-29T00:00:00Z"))]
#[case("* * * * *", "2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z", None)]
fn the_last_time(#[case] text: &str, #[case] after: &str, #[case] until: &str, #[case] last: Option<&str>) {
    assert_eq!(schedule(text, "UTC").last(at(after), at(until)), last.map(at));
}

/// No time that an API server takes makes a sum overflow.
#[rstest]
#[case(Timestamp::MIN)]
#[case(Timestamp::MAX)]
fn the_ends_of_time(#[case] time: Timestamp) {
    for text in ["* * * * *", "@every 2562047h", "0 0 29 2 *", "TZ=Europe/Berlin @daily"] {
        let schedule = schedule(text, "UTC");
        let next = schedule.next(time);
        assert!(next.is_none_or(|next| next > time), "{text}");
        let _ = schedule.last(Timestamp::MIN, time);
    }
}
