//! Order of an update as the set's author wants it: by priority, then spread over labels.

use berth_proto::crd::UpdateScatterTerm;

use super::{member::Member, order, rules::Priority};

/// Sorts the pods that wait for an update. `all`: every pod of the set.
///
/// Among pods of one priority those that do not serve come first: otherwise one that is broken could hold all
/// others back for ever.
pub(super) fn sort<'a>(
    waiting: &mut Vec<Member<'a>>,
    all: &[Member<'a>],
    priority: &Priority,
    scatter: &[UpdateScatterTerm],
) {
    order::waiting(waiting);
    match priority {
        Priority::None => {}
        Priority::Weights(terms) => waiting.sort_by_cached_key(|member| {
            let weights = terms.iter().filter(|(_, selector)| selector.takes(&member.pod.labels));
            weights.map(|(weight, _)| i64::from(*weight)).fold(0, i64::saturating_add).saturating_neg()
        }),
        Priority::Labels(keys) => waiting.sort_by_cached_key(|member| {
            let found = keys
                .iter()
                .enumerate()
                .find_map(|(at, key)| Some((at, trailing(member.pod.labels.get(key)?).saturating_neg())));
            // Those with none of the keys come first.
            found.map_or((0, 0, 0), |(at, number)| (1, at, number))
        }),
    }
    let mut terms: Vec<(usize, &UpdateScatterTerm)> = scatter
        .iter()
        .map(|term| (waiting.iter().filter(|member| has(member, term)).count(), term))
        .filter(|(matched, _)| *matched > 0)
        .collect();
    // Stable: of those that match as many, the one that was named first.
    terms.sort_by_key(|(matched, _)| std::cmp::Reverse(*matched));
    for (_, term) in terms {
        *waiting = spread(waiting, all, term);
    }
    waiting.sort_by_key(|member| !member.state.awaits_update());
}

fn has(member: &Member<'_>, term: &UpdateScatterTerm) -> bool {
    member.pod.labels.get(&term.key) == Some(&term.value)
}

/// The number at the end of a text; 0 when there is none.
pub(crate) fn trailing(text: &str) -> i64 {
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    text.get(text.len().saturating_sub(digits)..).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Spreads the pods with a label over the others, the last one of them at the end.
fn spread<'a>(waiting: &[Member<'a>], all: &[Member<'a>], term: &UpdateScatterTerm) -> Vec<Member<'a>> {
    let (mut with, without): (Vec<_>, Vec<_>) = waiting.iter().copied().partition(|member| has(member, term));
    if with.len() <= 1 || without.len() <= 1 {
        return waiting.to_vec();
    }
    let held = with.pop();
    let all_with = all.iter().filter(|member| has(member, term)).count();
    let all_without = all.len().saturating_sub(all_with);
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
