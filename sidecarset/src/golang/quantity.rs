//! Quantities of Kubernetes in their canonical form, in which they enter a hash: `1000m` is `1`, `1024Mi` is
//! `1Gi`.

/// Billionths in one.
const NANO: i128 = 1_000_000_000;
/// The largest quantity, in billionths; a larger one is cut to it.
const MOST: i128 = (i64::MAX as i128) * NANO;
/// The longest text that is read; nobody's number has as many digits.
const LONGEST: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// A number with the suffix that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    nano: i128,
    format: Format,
}

/// Text of a quantity as Go writes it again: one that looks canonical as it was given, any other one in its
/// canonical form. With `milli`, one that is finer than a thousandth is rounded first. None for what is none.
pub(crate) fn rewritten(text: &str, milli: bool) -> Option<String> {
    let text = text.trim();
    let quantity = Quantity::parse(text)?;
    match kept_scale(text) {
        Some(scale) if !milli || scale >= -3 => Some(text.to_owned()),
        _ if milli => Some(quantity.rounded_to_milli().canonical()),
        _ => Some(quantity.canonical()),
    }
}

/// Power of ten of the last digit of a text that Go keeps as it is; None for one that it writes anew.
fn kept_scale(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let (format, ten, two) = suffix_of(suffix)?;
    let long = whole.len() + fraction.len();
    if format == Format::Binary {
        let most = 14_usize.checked_sub(usize::try_from(two).ok()? * 3 / 10)?;
        let odd = whole.parse::<u64>().is_ok_and(|number| number & 7 != 0);
        return (fraction.is_empty() && long <= most && odd).then_some(0);
    }
    let scale = ten - i32::try_from(fraction.len()).ok()?;
    let shifted = [whole, fraction].concat();
    let canonical = !whole.is_empty() && scale % 3 == 0 && !shifted.ends_with("000");
    (canonical && long <= 18 && scale >= -9).then_some(scale)
}

impl Quantity {
    /// Reads a quantity; None when it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > LONGEST {
            return None;
        }
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (format, ten, two) = suffix_of(suffix)?;
        let nano = amount(whole, fraction, ten, two);
        Some(Self { nano: if negative { -nano } else { nano }, format })
    }

    /// Quantity as it is kept: no finer than a thousandth, rounded away from zero.
    pub(crate) fn rounded_to_milli(self) -> Self {
        let milli = NANO / 1000;
        let rest = self.nano % milli;
        let up = if rest == 0 { 0 } else { rest.signum() * milli };
        Self { nano: self.nano - rest + up, ..self }
    }

    /// Tells whether it is less than another one.
    pub(crate) fn is_below(self, other: Self) -> bool {
        self.nano < other.nano
    }

    /// Tells whether it is less than zero.
    pub(crate) fn is_negative(self) -> bool {
        self.nano < 0
    }

    /// Text that stands for it in JSON.
    pub(crate) fn canonical(self) -> String {
        if self.nano == 0 {
            return "0".to_owned();
        }
        let whole = self.nano % NANO == 0;
        let units = self.nano / NANO;
        if self.format == Format::Binary && whole && units.unsigned_abs() >= 1024 {
            return in_steps(units, 1024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]);
        }
        let suffixes = match self.format {
            Format::Exponent => ["e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"],
            Format::Decimal | Format::Binary => ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"],
        };
        in_steps(self.nano, 1000, &suffixes)
    }
}

/// Number divided by the step as often as nothing is lost, with the suffix for it.
fn in_steps(mut number: i128, step: i128, suffixes: &[&str]) -> String {
    let mut at = 0;
    while at + 1 < suffixes.len() && number % step == 0 {
        number /= step;
        at += 1;
    }
    format!("{number}{}", suffixes[at])
}

/// Format, power of ten and power of two of a suffix.
fn suffix_of(suffix: &str) -> Option<(Format, i32, u32)> {
    let found = match suffix {
        "" => (Format::Decimal, 0, 0),
        "n" => (Format::Decimal, -9, 0),
        "u" => (Format::Decimal, -6, 0),
        "m" => (Format::Decimal, -3, 0),
        "k" => (Format::Decimal, 3, 0),
        "M" => (Format::Decimal, 6, 0),
        "G" => (Format::Decimal, 9, 0),
        "T" => (Format::Decimal, 12, 0),
        "P" => (Format::Decimal, 15, 0),
        "E" => (Format::Decimal, 18, 0),
        "Ki" => (Format::Binary, 0, 10),
        "Mi" => (Format::Binary, 0, 20),
        "Gi" => (Format::Binary, 0, 30),
        "Ti" => (Format::Binary, 0, 40),
        "Pi" => (Format::Binary, 0, 50),
        "Ei" => (Format::Binary, 0, 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
            (Format::Exponent, exponent.parse::<i16>().ok()?.into(), 0)
        }
    };
    Some(found)
}

/// Billionths of `whole.fraction` times the powers, rounded up, at most [`MOST`].
fn amount(whole: &str, fraction: &str, ten: i32, two: u32) -> i128 {
    // Of each digit its place, as a power of ten of a billionth.
    let first = ten + 9 + i32::try_from(whole.len()).unwrap_or(i32::MAX >> 1);
    let mut sum: i128 = 0;
    let mut more = false;
    for (at, digit) in whole.bytes().chain(fraction.bytes()).enumerate() {
        let digit = i128::from(digit - b'0');
        if digit == 0 {
            continue;
        }
        let place = first - 1 - i32::try_from(at).unwrap_or(i32::MAX >> 1);
        // Twenty places below a billionth are left for the power of two.
        let Ok(place) = u32::try_from(place.saturating_add(if two > 0 { 10 } else { 0 })) else {
            more = true;
            continue;
        };
        let value = 10_i128.checked_pow(place).and_then(|power| power.checked_mul(digit));
        match value.and_then(|value| sum.checked_add(value)) {
            Some(next) => sum = next,
            None => return MOST,
        }
    }
    if two > 0 {
        let Some(product) = sum.checked_mul(1_i128 << two) else { return MOST };
        let parts = 10_000_000_000;
        more |= product % parts != 0;
        sum = product / parts;
    }
    sum.saturating_add(i128::from(more)).min(MOST)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::rewritten;

    /// Quantity, text of Go for it, and that after rounding to thousandths: as Kubernetes' own package has
    /// them.
    #[rstest]
    #[case("0", "0", "0")]
    #[case("1", "1", "1")]
    #[case("1000m", "1", "1")]
    #[case("500m", "500m", "500m")]
    #[case("0.5", "500m", "500m")]
    #[case("1.5Gi", "1536Mi", "1536Mi")]
    #[case("1024Mi", "1Gi", "1Gi")]
    #[case("1536Mi", "1536Mi", "1536Mi")]
    #[case("100Ki", "100Ki", "100Ki")]
    #[case("0.5Ki", "512", "512")]
    #[case("1000Ki", "1000Ki", "1000Ki")]
    #[case("1e3", "1e3", "1e3")]
    #[case("1E3", "1E3", "1E3")]
    #[case("1e-3", "1e-3", "1e-3")]
    #[case("1E", "1E", "1E")]
    #[case("12e6", "12e6", "12e6")]
    #[case("1000000", "1M", "1M")]
    #[case("1500", "1500", "1500")]
    #[case("0.0001", "100u", "1m")]
    #[case("1n", "1n", "1m")]
    #[case("1500u", "1500u", "2m")]
    #[case("100n", "100n", "1m")]
    #[case("0.1Ki", "102400m", "102400m")]
    #[case("1.5Ki", "1536", "1536")]
    #[case("1Ei", "1Ei", "1Ei")]
    #[case("8Ei", "9223372036854775807", "9223372036854775807")]
    #[case("100E", "100E", "100E")]
    #[case("-1", "-1", "-1")]
    #[case("-1500m", "-1500m", "-1500m")]
    #[case("+5", "+5", "+5")]
    #[case(".5", "500m", "500m")]
    #[case("5.", "5.", "5.")]
    #[case("0Ki", "0", "0")]
    #[case("1023", "1023", "1023")]
    #[case("1025Ki", "1025Ki", "1025Ki")]
    #[case("123456789", "123456789", "123456789")]
    #[case("0.1Gi", "107374182400m", "107374182400m")]
    #[case("1e21", "1e21", "1e21")]
    #[case("3.14159", "3141590u", "3142m")]
    #[case("9223372036854775807", "9223372036854775807", "9223372036854775807")]
    #[case("1000k", "1M", "1M")]
    #[case("1e0", "1e0", "1e0")]
    #[case("00100", "00100", "00100")]
    #[case("0.5m", "500u", "1m")]
    #[case("2048", "2048", "2048")]
    #[case("1M", "1M", "1M")]
    #[case("1024M", "1024M", "1024M")]
    #[case("1x", "", "")]
    #[case("", "", "")]
    #[case("1.2.3", "", "")]
    #[case("--1", "", "")]
    #[case("1 Gi", "", "")]
    #[case("1ki", "", "")]
    fn as_go_writes_it(#[case] given: &str, #[case] text: &str, #[case] rounded: &str) {
        let expected = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        assert_eq!(rewritten(given, false), expected(text));
        assert_eq!(rewritten(given, true), expected(rounded));
    }
}
