//! Durations as Go writes them (`1m30s`), and ages as crictl writes them (`2 minutes ago`).

use std::time::Duration;

use berthd::config::GoDuration;

/// Reads a Go-style duration. A plain number is seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; write it like 500ms, 90s, 1m30s or 2h");
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    text.parse().map(|GoDuration(duration)| duration).map_err(|_| bad())
}

/// Reads a duration of whole seconds, which is all that Kubernetes knows.
pub(crate) fn seconds(text: &str) -> Result<u32, String> {
    let duration = parse(text)?;
    let whole = u32::try_from(duration.as_secs()).ok().filter(|_| duration.subsec_nanos() == 0);
    whole.ok_or_else(|| format!("{text:?} is not a number of whole seconds; write it like 5s, 1m30s or 2h"))
}

/// A duration for people: `850ms`, `4.2s`, `1m30s`.
pub(crate) fn short(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..60_000 => format!("{:.1}s", duration.as_secs_f64()),
        60_000..3_600_000 => format!("{}m{}s", millis / 60_000, millis / 1000 % 60),
        _ => format!("{}h{}m", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// An age in crictl's words.
pub(crate) fn ago(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours) = (seconds / 60, (seconds as f64 / 3600.0).round() as u64);
    let text = match seconds {
        0 => "Less than a second".to_owned(),
        1 => "1 second".to_owned(),
        2..60 => format!("{seconds} seconds"),
        60..120 => "About a minute".to_owned(),
        120..3600 => format!("{minutes} minutes"),
        _ if hours == 1 => "About an hour".to_owned(),
        _ if hours < 48 => format!("{hours} hours"),
        _ if hours < 24 * 7 * 2 => format!("{} days", hours / 24),
        _ if hours < 24 * 30 * 2 => format!("{} weeks", hours / 24 / 7),
        _ if hours < 24 * 365 * 2 => format!("{} months", hours / 24 / 30),
        _ => format!("{} years", hours / 24 / 365),
    };
    format!("{text} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("10s", Some(10_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("1.5h", Some(5_400_000)),
            ("30", Some(30_000)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("", None),
            ("s", None),
            ("10", Some(10_000)),
            ("10x", None),
            ("-5s", None),
            ("1.2.3s", None),
        ] {
            assert_eq!(parse(text).ok().map(|duration| duration.as_millis()), millis, "{text:?}");
        }
        for (text, whole) in
            [("90", Some(90)), ("1m30s", Some(90)), ("0", Some(0)), ("1.5s", None), ("x", None)]
        {
            assert_eq!(seconds(text).ok(), whole, "{text:?}");
        }
    }

    #[test]
    fn words() {
        for (seconds, text) in [
            (0, "Less than a second ago"),
            (1, "1 second ago"),
            (59, "59 seconds ago"),
            (61, "About a minute ago"),
            (150, "2 minutes ago"),
            (3700, "About an hour ago"),
            (7200, "2 hours ago"),
            (86_400 * 3, "3 days ago"),
            (86_400 * 20, "2 weeks ago"),
            (86_400 * 100, "3 months ago"),
            (86_400 * 900, "2 years ago"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), text);
        }
        assert_eq!(short(Duration::from_millis(850)), "850ms");
        assert_eq!(short(Duration::from_millis(4249)), "4.2s");
        assert_eq!(short(Duration::from_secs(90)), "1m30s");
        assert_eq!(short(Duration::from_secs(7260)), "2h1m");
    }
}
