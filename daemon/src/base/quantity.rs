//! Kubernetes quantities (`500m`, `64Mi`, `1e3`), exact to a thousandth.

use std::fmt;

use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A quantity, not yet read: the error must be able to name the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity(pub String);

impl Quantity {
    /// Returns it in thousandths, rounded up as Kubernetes rounds: `0.5` is 500, `1Ki` is 1 024 000.
    pub fn milli(&self) -> Result<i64> {
        let text = self.0.as_str();
        let bad = || anyhow!("{text:?} is not a quantity; write it like 500m, 2, 64Mi or 1G");
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        ensure!(!(whole.is_empty() && fraction.is_empty()), bad());
        let mut mantissa: i128 = format!("{whole}{fraction}").parse().map_err(|_| bad())?;
        let mut divisor = 10_i128.checked_pow(u32::try_from(fraction.len())?).ok_or_else(bad)?;
        let (factor, shrink) = scale(suffix).ok_or_else(bad)?;
        mantissa = mantissa.checked_mul(factor).and_then(|n| n.checked_mul(1000)).ok_or_else(bad)?;
        divisor = divisor.checked_mul(shrink).ok_or_else(bad)?;
        let milli = mantissa / divisor + i128::from(mantissa % divisor != 0);
        i64::try_from(milli).map_err(|_| anyhow!("quantity {text:?} is too large"))
    }

    /// Returns it in whole units, rounded up.
    pub fn whole(&self) -> Result<i64> {
        let milli = self.milli()?;
        Ok(milli / 1000 + i64::from(milli % 1000 != 0))
    }
}

/// Returns the number that a suffix multiplies by, and the one it divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "k" => Some((1000, 1)),
        "M" => Some((1_000_000, 1)),
        "G" => Some((1_000_000_000, 1)),
        "T" => Some((10_i128.pow(12), 1)),
        "P" => Some((10_i128.pow(15), 1)),
        "E" => Some((10_i128.pow(18), 1)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let size = 10_i128.checked_pow(power.unsigned_abs())?;
            Some(if power < 0 { (1, size) } else { (size, 1) })
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity such as 500m or 64Mi")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity(value.to_string()))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity(value.to_string()))
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<Quantity, E> {
                Ok(Quantity(value.to_string()))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<Quantity, E> {
                Ok(Quantity(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Quantities as the CRI wants them: shares and quota of a container.
pub fn cpu_shares(milli: i64) -> i64 {
    // 2 is the kernel's minimum and what the kubelet gives a container that asks for nothing.
    if milli == 0 { 2 } else { (milli * 1024 / 1000).clamp(2, 262_144) }
}

/// The quota per 100 ms period, or none.
pub fn cpu_quota(milli: i64) -> Result<i64> {
    if milli < 0 {
        bail!("a negative cpu limit");
    }
    Ok(if milli == 0 { 0 } else { (milli * CPU_PERIOD / 1000).max(1000) })
}

/// The kubelet's default, in microseconds.
pub const CPU_PERIOD: i64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        for (text, milli) in [
            ("0", Some(0)),
            ("1", Some(1000)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("500m", Some(500)),
            ("1500u", Some(2)),
            ("64Mi", Some(64 * 1024 * 1024 * 1000)),
            ("1.5Gi", Some(1536 * 1024 * 1024 * 1000)),
            ("1e3", Some(1_000_000)),
            ("25e-1", Some(2500)),
            ("2k", Some(2_000_000)),
            ("", None),
            ("-1", None),
            ("1Kb", None),
            ("ten", None),
            ("1.2.3", None),
            ("99999999999999999999999999999999999999999999", None),
            ("8E8", Some(800_000_000_000)),
            ("9Ei", None),
        ] {
            assert_eq!(Quantity(text.into()).milli().ok(), milli, "{text:?}");
        }
    }

    #[test]
    fn what_the_kernel_gets() {
        assert_eq!(cpu_shares(0), 2);
        assert_eq!(cpu_shares(500), 512);
        assert_eq!(cpu_quota(500).ok(), Some(50_000));
        assert_eq!(cpu_quota(1).ok(), Some(1000));
        assert_eq!(Quantity("100m".into()).whole().ok(), Some(1));
    }
}
