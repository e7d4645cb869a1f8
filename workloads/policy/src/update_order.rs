//! Order of an update as its author wants it, for pods of any kind: by numbers in labels, and spread over a
//! label. The rules are OpenKruise's; CloneSets, StatefulSets and, in the manager, SidecarSets go by them.

/// Rank of a pod by its values of these labels; the smallest comes first. The first label that it has counts,
/// and of one label the largest number; a pod with none of them comes before all others.
pub fn rank<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> (usize, i64) {
    let found = values.into_iter().enumerate().find_map(|(at, value)| Some((at, trailing(value?))));
    found.map_or((0, 0), |(at, number)| (at.saturating_add(1), number.saturating_neg()))
}

/// The number at the end of a text; 0 when there is none.
fn trailing(text: &str) -> i64 {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text.get(text.len().saturating_sub(digits)..).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Spreads those that have something over the others, the last one of them at the end. `all_with` and
/// `all_without` count the pods that do not wait, too.
pub fn spread<T: Copy>(
    waiting: &[T],
    has: impl Fn(&T) -> bool,
    (all_with, all_without): (usize, usize),
) -> Vec<T> {
    let (mut with, without): (Vec<_>, Vec<_>) = waiting.iter().copied().partition(has);
    if with.len() <= 1 || without.len() <= 1 {
        return waiting.to_vec();
    }
    let held = with.pop();
    let all_with = all_with.saturating_sub(1).max(1);
    let (mut with_group, mut without_group) = groups(with.len(), without.len());
    let mut surplus = 0;
    // The whole set is less diluted than what is left of it: as if the update had begun now.
    if all_without.saturating_mul(with.len()) < without.len().saturating_mul(all_with) {
        (with_group, without_group) = groups(all_with, all_without);
        let rounds = with.len().div_ceil(with_group.max(1));
        surplus = without.len().saturating_sub(rounds.saturating_mul(without_group));
    }
    let mut ordered = Vec::with_capacity(waiting.len());
    let (mut with, mut without) = (with.into_iter(), without.into_iter());
    ordered.extend(without.by_ref().take(surplus));
    while with.len() > 0 && without.len() > 0 {
        ordered.extend(with.by_ref().take(with_group.max(1)));
        ordered.extend(without.by_ref().take(without_group.max(1)));
    }
    ordered.extend(with);
    ordered.extend(without);
    ordered.extend(held);
    ordered
}

/// Sizes of the groups in which so many and so many alternate.
fn groups(with: usize, without: usize) -> (usize, usize) {
    let rounds = with.min(without).max(1);
    let rounded = |count: usize| count.saturating_add(rounds / 2) / rounds;
    (rounded(with), rounded(without))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: values of two labels, and the rank.
    #[test]
    fn the_first_label_that_a_pod_has_counts() {
        let table = [
            ([None, None], (0, 0)),
            ([Some("p-10"), None], (1, -10)),
            ([Some("p-10"), Some("99")], (1, -10)),
            ([Some("none"), Some("99")], (1, 0)),
            ([Some(""), None], (1, 0)),
            ([None, Some("99")], (2, -99)),
            ([Some("99999999999999999999"), None], (1, 0)),
        ];
        for (values, expected) in table {
            assert_eq!(rank(values), expected, "{values:?}");
        }
    }
}
