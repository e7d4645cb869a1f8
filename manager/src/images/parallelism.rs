//! How many nodes pull at once.

use berth_proto::percent::part;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A number of nodes, or a share of those that are selected. 0 pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parallelism {
    Nodes(u32),
    Percent(u32),
}

impl Parallelism {
    /// Parallelism where none is given.
    pub(super) const DEFAULT: Self = Self::Nodes(1);

    /// Parses the field; the error says what is wrong with it.
    pub(super) fn parse(given: &IntOrString) -> Result<Self, String> {
        match given {
            IntOrString::Int(number) => u32::try_from(*number)
                .map(Self::Nodes)
                .map_err(|_| format!("is {number}; give a number from 0, or a share such as \"25%\"")),
            IntOrString::String(text) => Self::of_text(text),
        }
    }

    fn of_text(text: &str) -> Result<Self, String> {
        if let Some(share) = part(text) {
            return Ok(Self::Percent(share.into()));
        }
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| text.parse().ok()).flatten();
        let wrong = || format!("is {text:?}; give a number from 0, or a share from \"0%\" to \"100%\"");
        number.map(Self::Nodes).ok_or_else(wrong)
    }

    /// Computes the number of nodes out of so many selected nodes. A share is rounded up, so that one above 0
    /// % is at least one node.
    pub(super) fn of(self, selected: usize) -> usize {
        match self {
            Self::Nodes(nodes) => nodes as usize,
            Self::Percent(percent) => (selected * percent as usize).div_ceil(100),
        }
    }

    pub(super) const fn is_pause(self) -> bool {
        matches!(self, Self::Nodes(0) | Self::Percent(0))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::number(IntOrString::Int(5), 10, 5)]
    #[case::more_than_there_are(IntOrString::Int(50), 10, 50)]
    #[case::pause(IntOrString::Int(0), 10, 0)]
    #[case::share(IntOrString::String("25%".into()), 100, 25)]
    #[case::share_rounded_up(IntOrString::String("25%".into()), 5, 2)]
    #[case::share_at_least_one(IntOrString::String("1%".into()), 3, 1)]
    #[case::share_of_nothing(IntOrString::String("50%".into()), 0, 0)]
    #[case::all(IntOrString::String("100%".into()), 7, 7)]
    #[case::paused_share(IntOrString::String("0%".into()), 7, 0)]
    #[case::number_as_text(IntOrString::String("3".into()), 7, 3)]
    fn so_many(#[case] given: IntOrString, #[case] selected: usize, #[case] expected: usize) {
        let parallelism = Parallelism::parse(&given).unwrap();
        assert_eq!(parallelism.of(selected), expected);
        assert_eq!(parallelism.is_pause(), expected == 0 && selected > 0);
    }

    #[rstest]
    #[case::negative(IntOrString::Int(-1))]
    #[case::too_much(IntOrString::String("101%".into()))]
    #[case::negative_share(IntOrString::String("-5%".into()))]
    #[case::signed(IntOrString::String("+5".into()))]
    #[case::word(IntOrString::String("many".into()))]
    #[case::nothing(IntOrString::String(String::new()))]
    #[case::only_the_sign(IntOrString::String("%".into()))]
    #[case::huge(IntOrString::String("99999999999".into()))]
    #[case::power(IntOrString::String("1e9%".into()))]
    #[case::blanks(IntOrString::String(" 5 %".into()))]
    fn what_makes_no_sense(#[case] given: IntOrString) {
        assert!(Parallelism::parse(&given).unwrap_err().contains("give a number"));
    }
}
