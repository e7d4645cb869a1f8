//! Quantities as Kubernetes writes them, in billionths, so that `1Gi` and `1024Mi` are the same.

/// The longest number that is read.
const LONGEST: usize = 32;

/// Reads a quantity such as `500m`, `2`, `64Mi` or `1e3`, rounded up to a billionth.
pub(crate) fn quantity(text: &str) -> Option<i128> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.len() > LONGEST || (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let ten = |power: i32| 10_i128.checked_pow(u32::try_from(power).ok()?);
    let (times, power) = match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1_i128 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        other => (1, other.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    };
    let power = power.checked_sub(i32::try_from(fraction.len()).ok()?)?.checked_add(9)?;
    let amount = digits.checked_mul(times)?;
    if power >= 0 {
        // More than any node has.
        return Some(ten(power).and_then(|ten| amount.checked_mul(ten)).unwrap_or(i128::MAX));
    }
    let divisor = ten(power.checked_neg()?)?;
    Some(amount / divisor + i128::from(amount % divisor != 0))
}
