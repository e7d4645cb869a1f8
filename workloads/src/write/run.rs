//! Parts of a plan, one after the other.
//!
//! A part that fails keeps none of the others from being written: with a quota that is used up gates are
//! opened, and pods that are there get their update. In a part a pod or a claim that cannot be written to is
//! set aside. Where a picture turns out to be old, all is decided anew. What could not be written comes last
//! in the next plan, and is decided on last.

use std::collections::BTreeSet;

use berth_workloads_policy::action::Action;

use super::{
    End, Work,
    order::{is_of_claim, last},
};
use crate::{kinds::Plan, put_off::Late};

/// Failures of a part after which its rest is decided anew: what refuses so many may refuse all.
const MOST_ASIDE: usize = 16;
/// Errors of the API server in a plan after which the next one ends its part, whose rest is decided anew:
/// each may be a webhook that does not answer for half a minute, and others wait for the place of this plan.
pub(super) const MOST_ERRORS: usize = 3;

/// End of writes that are made together.
pub(super) struct Outcome {
    pub(super) end: End,
    /// Keys of what could not be written.
    pub(super) failed: Vec<String>,
}

impl Work {
    /// Writes a plan. Its end is the failure that is to be told.
    pub(super) async fn run(&mut self, plan: Plan, put_off: &BTreeSet<String>) -> End {
        let (parts, status) = plan.into_parts();
        let has_actions = parts.iter().any(|part| !part.is_empty());
        let mut failed = End::Done;
        for part in parts {
            let keys = part.iter().filter_map(Action::key);
            let known: Vec<String> = keys.filter_map(|key| put_off.get(key).cloned()).collect();
            let (end, names) = self.part(last(part, put_off)).await;
            if !names.is_empty() {
                self.put_off.push(Late { names, known });
            }
            if end != End::Done && !end.is_failure() {
                if failed == End::Done {
                    return end;
                }
                break;
            }
            failed = failed.or(end);
            if self.busy {
                // So would the status be refused.
                return failed;
            }
        }
        // It says what failed before. What fails now goes on counting, however that ends.
        let written = match status {
            Some(status) => self.status(status).await,
            None => End::Done,
        };
        match (failed, written) {
            // All else is done, and the next plan has the status again: it is no failure that makes that one
            // wait, though somebody writes to the set all the time.
            (End::Done, End::Changed) if has_actions => End::Done,
            (End::Done, written) => written,
            (failed, _) => failed,
        }
    }

    /// Writes a part; keys of what could not be written.
    async fn part(&mut self, actions: Vec<Action>) -> (End, Vec<String>) {
        let mut actions = actions.into_iter().peekable();
        let mut aside = Aside::default();
        while let Some(action) = actions.next() {
            let mut all = vec![action];
            let together = all.first().and_then(together);
            while let Some(next) = together.and_then(|together| actions.next_if(together)) {
                all.push(next);
            }
            aside.leave_out(&mut all);
            let is_of_pods = all.iter().any(|action| action.pod().is_some());
            // What fails of these is about itself.
            let there = all.iter().filter(|action| action.pod().is_some() || is_of_claim(action));
            let there: Vec<String> = there.filter_map(Action::key).map(str::to_owned).collect();
            let (is_alone, errors) = (!there.is_empty(), self.errors);
            let Outcome { end, failed } = match all.first() {
                None => continue,
                Some(action) if is_new(action) => self.create(all).await,
                Some(action) if is_in_place(action) => self.in_place(all).await,
                Some(_) => match all.pop() {
                    Some(action) => Outcome { end: self.write(action).await, failed: there },
                    None => continue,
                },
            };
            // One that is no error of the API server is about what was written alone, whatever failed before.
            let is_last = self.errors > errors && self.errors >= MOST_ERRORS;
            if end == End::Done {
                aside.is_behind &= !is_of_pods;
            } else if let Some(end) = aside.take(failed, end, is_last || !is_alone) {
                return (end, aside.keys.into_iter().collect());
            } else {
                aside.is_behind |= is_of_pods;
            }
        }
        (aside.failed, aside.keys.into_iter().collect())
    }
}

/// Pods and claims of a part that are left alone, since a write to them has failed. What is decided on others
/// goes on: all of a part counts against the same budget, and what is not done takes nothing of it.
#[derive(Debug)]
struct Aside {
    keys: BTreeSet<String>,
    /// The next actions belong to such a pod: one that is not deleted keeps its claims.
    is_behind: bool,
    /// The failure that is to be told.
    failed: End,
    count: usize,
}

impl Default for Aside {
    fn default() -> Self {
        Self { keys: BTreeSet::new(), is_behind: false, failed: End::Done, count: 0 }
    }
}

impl Aside {
    /// Leaves out what is about these pods.
    fn leave_out(&mut self, actions: &mut Vec<Action>) {
        actions.retain(|action| match action.pod() {
            Some(uid) if self.keys.contains(uid) => {
                self.is_behind = true;
                false
            }
            Some(_) => true,
            None => !self.is_behind || !is_of_claim(action),
        });
    }

    /// Takes in that these could not be written; the end of the part, where that is one.
    fn take(&mut self, failed: Vec<String>, end: End, is_last: bool) -> Option<End> {
        self.count = self.count.saturating_add(1);
        if !end.is_failure() {
            return Some(end);
        }
        self.keys.extend(failed);
        self.failed = std::mem::replace(&mut self.failed, End::Done).or(end);
        (is_last || self.count >= MOST_ASIDE).then(|| self.failed.clone())
    }
}

/// Tells which actions are written together with this one, where they follow it.
fn together(action: &Action) -> Option<fn(&Action) -> bool> {
    [is_new as fn(&Action) -> bool, is_in_place].into_iter().find(|is_of| is_of(action))
}

fn is_new(action: &Action) -> bool {
    matches!(action, Action::CreateClaim(_) | Action::CreatePod(_))
}

fn is_in_place(action: &Action) -> bool {
    matches!(action, Action::UpdateInPlace(_) | Action::ForgetInPlace { .. })
}

#[cfg(test)]
mod tests;
