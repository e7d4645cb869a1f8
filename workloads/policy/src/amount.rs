//! Numbers of pods, and shares of them.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::fault::Fault;

/// Parts of one percent in which a share is kept, so that `99.5%` is exact.
const PARTS: i64 = 10_000;

/// A number of pods, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Number of pods.
    Number(i64),
    /// Share of the pods, in millionths.
    Share(i64),
}

impl Amount {
    /// Parses the field, or takes its default.
    pub fn parse(field: &str, given: Option<&IntOrString>, default: Self) -> Result<Self, Fault> {
        let wrong = |given: &dyn std::fmt::Display| {
            Fault::new(field, format!("is {given}: give a number from 0 on, or a share such as 10%"))
        };
        match given {
            None => Ok(default),
            Some(IntOrString::Int(number)) if *number >= 0 => Ok(Self::Number(i64::from(*number))),
            Some(IntOrString::Int(number)) => Err(wrong(number)),
            Some(IntOrString::String(text)) => share(text).map(Self::Share).ok_or_else(|| wrong(text)),
        }
    }

    /// Number of pods out of `total`, rounded up.
    pub fn up(self, total: i64) -> i64 {
        match self {
            Self::Number(number) => number,
            Self::Share(share) => total.saturating_mul(share).saturating_add(100 * PARTS - 1) / (100 * PARTS),
        }
    }

    /// Number of pods out of `total`, rounded down.
    pub fn down(self, total: i64) -> i64 {
        match self {
            Self::Number(number) => number,
            Self::Share(share) => total.saturating_mul(share) / (100 * PARTS),
        }
    }

    /// Size of a partition: at most `total`, and a share below all of them lets at least one go.
    pub fn partition(self, total: i64) -> i64 {
        let kept = self.up(total).clamp(0, total.max(0));
        let is_all = matches!(self, Self::Share(share) if share >= 100 * PARTS);
        if matches!(self, Self::Share(_)) && !is_all && kept == total && total > 1 { kept - 1 } else { kept }
    }
}

/// Parses a percentage, with up to four digits behind a point.
fn share(text: &str) -> Option<i64> {
    let number = text.strip_suffix('%')?;
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 9 || rest.len() > 4 || !digits(whole) || !digits(rest) {
        return None;
    }
    let parts = format!("{rest:0<4}").parse::<i64>().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(PARTS)?.checked_add(parts)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse("f", Some(&IntOrString::String(text.to_owned())), Amount::Number(0)).unwrap()
    }

    #[rstest]
    #[case::none("0%", 10, 0, 0, 0)]
    #[case::a_part("25%", 10, 3, 2, 3)]
    #[case::nearly_all("99%", 4, 4, 3, 3)]
    #[case::a_fraction("99.5%", 1000, 995, 995, 995)]
    #[case::a_small_fraction("99.5%", 4, 4, 3, 3)]
    #[case::all("100%", 4, 4, 4, 4)]
    #[case::of_one("95%", 1, 1, 0, 1)]
    #[case::of_nothing("50%", 0, 0, 0, 0)]
    #[case::more_than_all("150%", 4, 6, 6, 4)]
    fn shares(
        #[case] text: &str,
        #[case] total: i64,
        #[case] up: i64,
        #[case] down: i64,
        #[case] partition: i64,
    ) {
        let amount = amount(text);
        assert_eq!((amount.up(total), amount.down(total), amount.partition(total)), (up, down, partition));
    }

    #[rstest]
    #[case(IntOrString::Int(-1))]
    #[case(IntOrString::String("5".to_owned()))]
    #[case(IntOrString::String("-5%".to_owned()))]
    #[case(IntOrString::String("%".to_owned()))]
    #[case(IntOrString::String("1.23456%".to_owned()))]
    #[case(IntOrString::String("1e9%".to_owned()))]
    #[case(IntOrString::String(" 5 %".to_owned()))]
    #[case(IntOrString::String(String::new()))]
    #[case(IntOrString::Int(i32::MIN))]
    #[case(IntOrString::String("99999999999999999999%".to_owned()))]
    fn what_makes_no_sense_is_named(#[case] given: IntOrString) {
        let fault = Amount::parse("spec.partition", Some(&given), Amount::Number(0)).unwrap_err().to_string();
        assert!(fault.starts_with("spec.partition is ") && fault.contains("10%"), "{fault}");
    }
}
