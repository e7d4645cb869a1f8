//! Shares of something, as fields of objects give them: `10%`. One reader for all programs, so that none
//! takes what another refuses.

/// Most digits before the percent sign that are read: more mean nothing, and a number of these fits.
const MOST_DIGITS: usize = 9;

/// Reads a whole number before a percent sign. As in Kubernetes (`IsValidPercent`) there is no sign before
/// it, no point in it, and no space; how large it may be is up to the field.
pub fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let is_number =
        (1..=MOST_DIGITS).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Reads a share that is at most all there is.
pub fn part(text: &str) -> Option<u8> {
    percent(text).and_then(|percent| u8::try_from(percent).ok()).filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_number_before_the_sign_is_read() {
        for (text, number, share) in [
            ("0%", Some(0), Some(0)),
            ("007%", Some(7), Some(7)),
            ("100%", Some(100), Some(100)),
            ("101%", Some(101), None),
            ("999999999%", Some(999_999_999), None),
            ("9999999999%", None, None),
            ("10", None, None),
            ("10%%", None, None),
            ("%", None, None),
            ("", None, None),
            ("+5%", None, None),
            ("-5%", None, None),
            ("1.5%", None, None),
            (" 5%", None, None),
            (" 5 %", None, None),
            ("1e9%", None, None),
            ("\u{665}%", None, None),
        ] {
            assert_eq!((percent(text), part(text)), (number, share), "{text:?}");
        }
    }
}
