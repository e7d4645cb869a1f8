//! The condition `Accepted`: whether new pods get the sidecars of a set.

use std::{
    borrow::Cow,
    time::{Duration, Instant},
};

use super::{SidecarIndex, set::Known, spec::Rules};
use crate::{
    store::{Entry, Now, Webhooks},
    time::later,
};

/// An entry that somebody spoils is put right: only one that is not within so long has fallen.
const FALLS_AFTER: Duration = Duration::from_secs(2);

/// Standing of the webhook entry of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hook<'a> {
    /// None is asked about: there is no admission server here.
    Off,
    /// Not looked at yet; what was said stays.
    Unknown,
    Stands {
        /// It is the one of all sets.
        shared: bool,
    },
    Pending,
    LeftOut(&'a str),
}

impl SidecarIndex {
    /// Takes in which sets have their webhook entries. What follows from it is owed as from any fact.
    pub(crate) fn webhooks_stand(&mut self, webhooks: Webhooks, now: Now) {
        let before = std::mem::replace(&mut self.webhooks, webhooks);
        for (name, known) in &mut self.sets {
            let (stood, stands) = (hook(&before, name, known), hook(&self.webhooks, name, known));
            if stood == stands {
                continue;
            }
            let falls = matches!(stood, Hook::Stands { .. }) && stands == Hook::Pending;
            known.falls_at = falls.then(|| later(now.instant, FALLS_AFTER));
            self.touched.insert(name.clone());
        }
    }
}

/// Entry of a set; one that stands for other fields is none.
pub(super) fn hook<'a>(webhooks: &'a Webhooks, name: &str, known: &Known) -> Hook<'a> {
    let entries = match webhooks {
        Webhooks::Off => return Hook::Off,
        Webhooks::Unknown => return Hook::Unknown,
        Webhooks::Known(entries) => entries,
    };
    let Ok(rules) = &known.rules else { return Hook::Unknown };
    match entries.sets.get(name) {
        Some(Entry::Stands(reach)) if *reach == rules.reach => Hook::Stands { shared: entries.shared },
        Some(Entry::LeftOut(reason)) => Hook::LeftOut(reason),
        Some(Entry::Stands(_) | Entry::Pending) | None => Hook::Pending,
    }
}

/// Condition of a set with these rules: whether it holds, a reason for programs and a sentence. `None` leaves
/// what is shown. `missing` pods were made without it.
pub(super) fn told<'a>(
    hook: &Hook<'_>,
    rules: &Rules,
    flaw: Option<String>,
    missing: usize,
) -> Option<(bool, &'static str, Cow<'a, str>)> {
    match hook {
        Hook::Unknown => return None,
        Hook::Pending => {
            let text = "the webhook entry of the set does not stand yet: new pods get no sidecars, or wait";
            return Some((false, "WebhookPending", text.into()));
        }
        Hook::LeftOut(reason) => {
            let text = format!("no pod can get the sidecars: {reason}; correct the set");
            return Some((false, "NotInjectable", text.into()));
        }
        Hook::Off | Hook::Stands { .. } => {}
    }
    let shared = *hook == Hook::Stands { shared: true };
    Some(match flaw {
        Some(flaw) => (true, "HistoryShortened", flaw.into()),
        None if rules.paused => {
            (true, "InjectionPaused", "new pods get no sidecars: injection is paused".into())
        }
        None if missing > 0 => (true, "PodsNotInjected", told_of_missing(missing).into()),
        None if shared => (
            true,
            "SharedWebhook",
            "too many sets for an entry each: pods that are made while no manager answers get no sidecars, and \
             are counted in status.notInjectedPods"
                .into(),
        ),
        None => (true, "Accepted", "the set is carried out".into()),
    })
}

/// Sentence on pods that have none of the sidecars. Which of the causes it was nobody knows any more.
pub(super) fn told_of_missing(missing: usize) -> String {
    format!(
        "{missing} pods that the set selects have none of its sidecars: they were made while no manager \
         answered, or labels (theirs or their namespace's) were changed since; make them anew"
    )
}

/// Time until which an entry that fell counts as standing.
pub(super) fn spared_until(known: &Known, now: Instant) -> Option<Instant> {
    known.falls_at.filter(|at| *at > now)
}
