//! The `grpc-timeout` header: read to know how long a call may wait here, and shortened by what it waited.

use std::time::Duration;

use http::HeaderValue;

/// The longest value the header can carry has eight digits.
const MAX_DIGITS: usize = 8;

/// The value of the header; `None` when it is not one.
pub(crate) fn parse(value: &HeaderValue) -> Option<Duration> {
    let (unit, digits) = value.as_bytes().split_last()?;
    if digits.is_empty() || digits.len() > MAX_DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(number * 3600)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// The header for this duration, in the finest unit whose number has at most eight digits.
pub(crate) fn format(duration: Duration) -> HeaderValue {
    let units = [
        (duration.as_nanos(), 'n'),
        (duration.as_micros(), 'u'),
        (duration.as_millis(), 'm'),
        (duration.as_secs().into(), 'S'),
        (u128::from(duration.as_secs()) / 60, 'M'),
    ];
    let (number, unit) = units
        .into_iter()
        .find(|(number, _)| *number < 100_000_000)
        .unwrap_or(((u128::from(duration.as_secs()) / 3600).min(99_999_999), 'H'));
    // Digits and a letter are always a header value.
    HeaderValue::try_from(format!("{number}{unit}")).unwrap_or(HeaderValue::from_static("0n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Duration> {
        parse(&HeaderValue::from_str(text).unwrap())
    }

    #[test]
    fn reads_every_unit() {
        let table = [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("120S", Duration::from_secs(120)),
            ("119999m", Duration::from_millis(119_999)),
            ("7u", Duration::from_micros(7)),
            ("99999999n", Duration::from_nanos(99_999_999)),
            ("99999999H", Duration::from_secs(99_999_999 * 3600)),
            ("0n", Duration::ZERO),
        ];
        for (text, expected) in table {
            assert_eq!(parsed(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_no_timeout() {
        for text in ["", "1", "S", "1s", "-1S", "+1S", "1.5S", "123456789n", " 1S", "1S "] {
            assert_eq!(parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn writes_what_it_reads() {
        let table = [
            (Duration::ZERO, "0n"),
            (Duration::from_nanos(99_999_999), "99999999n"),
            (Duration::from_secs(99), "99000000u"),
            (Duration::from_millis(119_999), "119999m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(99_999_999 * 60), "99999999M"),
            (Duration::MAX, "99999999H"),
        ];
        for (duration, expected) in table {
            assert_eq!(format(duration), expected);
        }
        assert_eq!(parse(&format(Duration::from_secs(120))), Some(Duration::from_secs(120)));
    }
}
