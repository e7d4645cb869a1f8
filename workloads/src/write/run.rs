//! Parts of a plan, one after the other.
//!
//! A part that fails keeps none of the others from being written: with a quota that is used up gates are
//! opened, and pods that are there get their update. In a part a pod that cannot be written to is set aside.
//! Where a picture turns out to be old, all is decided anew. What has kept others from being written comes
//! last in the next plan.

use std::collections::BTreeSet;

use berth_workloads_policy::action::Action;

use super::{End, Work};
use crate::kinds::Plan;

/// Failures of a part after which its rest is decided anew: what refuses so many may refuse all.
const MOST_ASIDE: usize = 16;
/// Errors of the API server in a plan after which the next one ends its part, whose rest is decided anew:
/// each may be a webhook that does not answer for half a minute, and others wait for the place of this plan.
pub(super) const MOST_ERRORS: usize = 3;

impl Work {
    /// Writes a plan. The first failure is its end.
    pub(super) async fn run(&mut self, plan: Plan, put_off: &BTreeSet<String>) -> End {
        let (parts, status) = plan.into_parts();
        let mut failed = End::Done;
        for part in parts {
            let end = self.part(last(part, put_off)).await;
            let is_failure = end.is_failure();
            if end == End::Done || is_failure && failed != End::Done {
                continue;
            }
            if !is_failure {
                if failed == End::Done {
                    return end;
                }
                break;
            }
            failed = end;
        }
        // It says what failed before. What fails now goes on counting, however that ends.
        let written = match status {
            Some(status) => self.status(status).await,
            None => End::Done,
        };
        if failed == End::Done { written } else { failed }
    }

    async fn part(&mut self, actions: Vec<Action>) -> End {
        let mut actions = actions.into_iter().peekable();
        let mut aside = Aside::default();
        while let Some(action) = actions.next() {
            let mut all = vec![action];
            let together = all.first().and_then(together);
            while let Some(next) = together.and_then(|together| actions.next_if(together)) {
                all.push(next);
            }
            aside.leave_out(&mut all);
            let pods: Vec<String> = all.iter().filter_map(pod).map(str::to_owned).collect();
            let end = match all.first() {
                None => continue,
                Some(action) if is_new(action) => self.create(all).await,
                Some(action) if is_in_place(action) => self.in_place(all).await,
                Some(_) => match all.pop() {
                    Some(action) => self.write(action).await,
                    None => continue,
                },
            };
            if let Some(end) = aside.take(pods, end, self.errors) {
                self.put_off.extend(aside.pods);
                return end;
            }
        }
        aside.failed.unwrap_or(End::Done)
    }
}

/// Pods of a part that are left alone, since a write to them has failed. What is decided on others goes
/// on: all of a part counts against the same budget, and what is not done takes nothing of it.
#[derive(Debug, Default)]
struct Aside {
    pods: BTreeSet<String>,
    /// The next actions belong to one of them: a pod that is not deleted keeps its claims.
    is_behind: bool,
    /// The first failure.
    failed: Option<End>,
    count: usize,
}

impl Aside {
    /// Leaves out what is about these pods.
    fn leave_out(&mut self, actions: &mut Vec<Action>) {
        actions.retain(|action| match pod(action) {
            Some(uid) if self.pods.contains(uid) => {
                self.is_behind = true;
                false
            }
            Some(_) => true,
            None => !self.is_behind || !is_of_claim(action),
        });
    }

    /// Takes in the end of writes to these pods, after so many errors of the API server; the end of the part,
    /// where that is one.
    fn take(&mut self, pods: Vec<String>, end: End, errors: usize) -> Option<End> {
        if end == End::Done {
            self.is_behind &= pods.is_empty();
            return None;
        }
        self.count = self.count.saturating_add(1);
        if !end.is_failure() {
            return Some(end);
        }
        let is_last = pods.is_empty() || self.count >= MOST_ASIDE || errors >= MOST_ERRORS;
        self.pods.extend(pods);
        self.is_behind = true;
        let first = self.failed.get_or_insert(end);
        is_last.then(|| first.clone())
    }
}

/// Puts what is about these pods behind all others, with the claims that follow it.
fn last(actions: Vec<Action>, put_off: &BTreeSet<String>) -> Vec<Action> {
    let mut is_off = false;
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for action in actions {
        is_off = match pod(&action) {
            Some(uid) => put_off.contains(uid),
            None => is_off && is_of_claim(&action),
        };
        if is_off { last.push(action) } else { first.push(action) }
    }
    first.append(&mut last);
    first
}

/// Tells which actions are written together with this one, where they follow it.
fn together(action: &Action) -> Option<fn(&Action) -> bool> {
    [is_new as fn(&Action) -> bool, is_in_place].into_iter().find(|is_of| is_of(action))
}

/// UID of the one pod that an action is about, if it is there already and the set's.
fn pod(action: &Action) -> Option<&str> {
    match action {
        Action::PatchPod(target, _) | Action::PatchPodStatus(target, _) | Action::DeletePod(target) => {
            Some(&target.uid)
        }
        Action::UpdateInPlace(update) => Some(&update.uid),
        Action::ForgetInPlace { uid, .. } => Some(uid),
        _ => None,
    }
}

fn is_of_claim(action: &Action) -> bool {
    matches!(action, Action::DeleteClaim(_) | Action::PatchClaim(..))
}

fn is_new(action: &Action) -> bool {
    matches!(action, Action::CreateClaim(_) | Action::CreatePod(_))
}

fn is_in_place(action: &Action) -> bool {
    matches!(action, Action::UpdateInPlace(_) | Action::ForgetInPlace { .. })
}

#[cfg(test)]
mod tests;
