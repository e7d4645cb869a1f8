//! How a set's pods are upgraded, and how numbers and shares of pods are meant.

use berth_proto::{crd::SidecarSetUpdateStrategy, percent::part};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::spec::parse_selector;
use crate::selector::Selector;

/// The update strategy of a set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Strategy {
    /// Only new pods get a new revision.
    pub(super) not_update: bool,
    pub(super) paused: bool,
    /// Pods that are upgraded: those that this takes, or all.
    pub(super) selector: Option<Selector>,
    /// Pods that keep what they have.
    pub(super) partition: Amount,
    /// Pods that may be unavailable.
    pub(super) most_unavailable: Amount,
    pub(super) priority: Priority,
    /// Labels whose pods are spread; the value `*` is every value.
    pub(super) scatter: Vec<(String, String)>,
}

/// A number of pods, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    Number(usize),
    Percent(u8),
}

/// Pods that come first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Priority {
    #[default]
    None,
    /// Largest sum of weights first.
    Weights(Vec<(i32, Option<Selector>)>),
    /// Largest number at the end of the first of these labels that a pod has first, and before all of them
    /// those that have none.
    Labels(Vec<String>),
}

impl Strategy {
    pub(super) fn parse(given: Option<&SidecarSetUpdateStrategy>) -> Result<Self, String> {
        let given = given.cloned().unwrap_or_default();
        let not_update = given.type_.as_deref() == Some("NotUpdate");
        let given = match not_update {
            // Admission, here and upstream, takes whatever else it says.
            true => SidecarSetUpdateStrategy { paused: given.paused, ..SidecarSetUpdateStrategy::default() },
            false => given,
        };
        let field = |name: &str| format!("spec.updateStrategy.{name}");
        let selector = given.selector.as_ref();
        let selector = selector.map(|selector| parse_selector(&field("selector"), selector)).transpose()?;
        let priority = given.priority_strategy.unwrap_or_default();
        let priority = if priority.weight_priority.is_empty() {
            let keys = priority.order_priority.into_iter().map(|term| term.ordered_key).collect::<Vec<_>>();
            if keys.is_empty() { Priority::None } else { Priority::Labels(keys) }
        } else {
            let terms = priority.weight_priority.iter().map(|term| {
                let path = field("priorityStrategy.weightPriority.matchSelector");
                Ok((term.weight, parse_selector(&path, &term.match_selector)?))
            });
            Priority::Weights(terms.collect::<Result<_, String>>()?)
        };
        Ok(Self {
            not_update,
            paused: given.paused,
            // As upstream, an update selector that asks for nothing takes all pods.
            selector: selector.flatten(),
            partition: Amount::parse(&field("partition"), given.partition.as_ref(), 0)?,
            most_unavailable: Amount::parse(&field("maxUnavailable"), given.max_unavailable.as_ref(), 1)?,
            priority,
            scatter: given.scatter_strategy.into_iter().map(|term| (term.key, term.value)).collect(),
        })
    }
}

impl Amount {
    fn parse(path: &str, given: Option<&IntOrString>, default: usize) -> Result<Self, String> {
        let wrong = |given: &dyn std::fmt::Display| {
            format!("{path} is {given}; give a number from 0 on, or a share such as 10%")
        };
        match given {
            None => Ok(Self::Number(default)),
            Some(IntOrString::Int(number)) => {
                usize::try_from(*number).map(Self::Number).map_err(|_| wrong(number))
            }
            Some(IntOrString::String(text)) => part(text).map(Self::Percent).ok_or_else(|| wrong(text)),
        }
    }

    /// Returns how many of so many pods, rounded down, as with OpenKruise 1.4.
    pub(super) fn of(self, total: usize) -> usize {
        match self {
            Self::Number(number) => number,
            // In two parts, which cannot overflow.
            Self::Percent(share) => {
                let share = usize::from(share);
                (total / 100).saturating_mul(share) + (total % 100) * share / 100
            }
        }
    }

    /// Returns how many of so many pods at least: a share of few pods is never none of them, which would be
    /// an upgrade that waits for ever.
    pub(super) fn some_of(self, total: usize) -> usize {
        match self {
            Self::Percent(1..) if total > 0 => self.of(total).max(1),
            _ => self.of(total),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn amount(given: IntOrString) -> Result<Amount, String> {
        Amount::parse("spec.updateStrategy.partition", Some(&given), 1)
    }

    #[rstest]
    #[case::none("0%", 10, 0, 0)]
    #[case::less_than_one("5%", 6, 0, 1)]
    #[case::rounded_down("50%", 5, 2, 2)]
    #[case::nearly_all("99%", 6, 5, 5)]
    #[case::all("100%", 6, 6, 6)]
    #[case::of_one("50%", 1, 0, 1)]
    #[case::of_nothing("50%", 0, 0, 0)]
    #[case::of_many("33%", usize::MAX, usize::MAX / 100 * 33 + 4, usize::MAX / 100 * 33 + 4)]
    fn shares(#[case] given: &str, #[case] total: usize, #[case] of: usize, #[case] some: usize) {
        let amount = amount(IntOrString::String(given.to_owned())).unwrap();
        assert_eq!((amount.of(total), amount.some_of(total)), (of, some));
    }

    #[rstest]
    #[case::negative(IntOrString::Int(-1))]
    #[case::no_share(IntOrString::String("5".to_owned()))]
    #[case::more_than_all(IntOrString::String("101%".to_owned()))]
    #[case::negative_share(IntOrString::String("-5%".to_owned()))]
    #[case::no_number(IntOrString::String("%".to_owned()))]
    #[case::huge(IntOrString::String("99999999999999999999%".to_owned()))]
    fn what_makes_no_sense_is_named(#[case] given: IntOrString) {
        let error = amount(given).unwrap_err();
        assert!(error.contains("spec.updateStrategy.partition is ") && error.contains("10%"), "{error}");
    }

    #[rstest]
    #[case::rolls("RollingUpdate", false)]
    #[case::rests("NotUpdate", true)]
    fn what_nobody_goes_by_is_not_looked_at(#[case] type_: &str, #[case] taken: bool) {
        let given = SidecarSetUpdateStrategy {
            type_: Some(type_.to_owned()),
            partition: Some(IntOrString::String("some".to_owned())),
            ..SidecarSetUpdateStrategy::default()
        };
        let strategy = Strategy::parse(Some(&given));
        assert_eq!(strategy.is_ok_and(|strategy| strategy.not_update), taken);
    }

    #[test]
    fn a_number_is_a_number() {
        let amount = amount(IntOrString::Int(7)).unwrap();
        assert_eq!((amount.of(3), amount.some_of(3)), (7, 7));
    }
}
