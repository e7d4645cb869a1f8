//! Objects whose status the leader replaces at a version: budgets, spreads and PersistentPodStates. Each is
//! kept as it was seen last, with the write to it that is not answered yet.

use std::time::Instant;

use crate::{
    images::Effect,
    seen::{CustomSeen, Key},
    site::StatusWrite,
    work::Sent,
};

/// Object as it was seen last, by the types of its spec and status.
#[derive(Debug)]
pub(crate) struct Observed<S, T> {
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: Box<str>,
    pub(crate) generation: Option<i64>,
    pub(crate) deleting: bool,
    /// The number of the list that showed it last.
    pub(crate) list: u32,
    pub(crate) spec: Result<S, String>,
    pub(crate) status: Result<T, String>,
    sent: Sent,
}

impl<S: Clone, T: Clone + PartialEq> Observed<S, T> {
    pub(crate) fn new(seen: &CustomSeen<S, T>, list: u32) -> Self {
        Self {
            uid: seen.uid.as_str().into(),
            resource_version: seen.resource_version.as_str().into(),
            generation: seen.generation,
            deleting: seen.deleting,
            list,
            spec: seen.spec.clone(),
            status: seen.status.clone(),
            sent: Sent::default(),
        }
    }

    /// Takes the place of the same object as it was before, with its write that is not answered. False: it is
    /// the same version, which stays and counts as listed.
    pub(crate) fn follow(&mut self, before: &mut Self) -> bool {
        before.list = self.list;
        let is_news = before.resource_version != self.resource_version;
        if is_news {
            self.sent = std::mem::take(&mut before.sent);
        }
        is_news
    }

    /// Says until when nothing is decided, because the effect of the newest write is not seen yet.
    pub(crate) fn waits(&self, now: Instant) -> Option<Instant> {
        self.sent.waits(&self.resource_version, now)
    }

    /// Writes a status that is not there yet, and says when its effect is late. An object whose spec cannot
    /// be read gets none: a write has all of it.
    pub(crate) fn owe(
        &mut self,
        key: &Key,
        next: T,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) -> Option<Instant>
    where
        Effect: From<StatusWrite<S, T>>,
    {
        let spec = self.spec.as_ref().ok()?;
        if self.status.as_ref() == Ok(&next) {
            return None;
        }
        let write = StatusWrite {
            key: key.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            spec: Box::new(spec.clone()),
            status: Box::new(next),
        };
        effects.push(write.into());
        Some(self.sent.now(&self.resource_version, now))
    }

    /// This replica does not lead any more: what it has written counts for nothing.
    pub(crate) fn rests(&mut self) {
        self.sent = Sent::default();
    }
}
