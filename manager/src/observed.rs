//! Objects whose status the leader replaces at a version: budgets, spreads and PersistentPodStates. Each is
//! kept as it was seen last, with the write to it that is not answered yet.

use std::{marker::PhantomData, time::Instant};

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    effect::Effect,
    steps::StatusWrite,
    store::{CustomSeen, Key},
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
    /// Its spec, if it can be read. A write of the status has all of it; as text it takes a fraction of the
    /// memory that its parts take, of which some are of free form.
    spec: Option<Box<[u8]>>,
    pub(crate) status: Result<T, String>,
    sent: Sent,
    types: PhantomData<S>,
}

impl<S: Serialize + DeserializeOwned, T: Clone + PartialEq> Observed<S, T> {
    pub(crate) fn new(seen: &CustomSeen<S, T>, list: u32) -> Self {
        Self {
            uid: seen.uid.as_str().into(),
            resource_version: seen.resource_version.as_str().into(),
            generation: seen.generation,
            deleting: seen.deleting,
            list,
            spec: seen.spec.as_ref().ok().and_then(|spec| serde_json::to_vec(spec).ok()).map(Into::into),
            status: seen.status.clone(),
            sent: Sent::default(),
            types: PhantomData,
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
        let spec = self.spec.as_ref()?;
        if self.status.as_ref() == Ok(&next) {
            return None;
        }
        let spec: S = serde_json::from_slice(spec).ok()?;
        let write = StatusWrite {
            key: key.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            spec: Box::new(spec),
            status: Box::new(next),
        };
        effects.push(write.into());
        Some(self.sent.now(&self.resource_version, now))
    }

    /// Rests: this replica does not lead any more, and what it has written counts for nothing.
    pub(crate) fn rests(&mut self) {
        self.sent = Sent::default();
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::{WorkloadSpreadSpec, WorkloadSpreadStatus};
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::{spreads::SpreadStep, store::SpreadSeen};

    /// A spread whose patches are as large as they may be, and of as many parts.
    fn large() -> WorkloadSpreadSpec {
        let labels: Map<String, Value> = (0..5_000).map(|number| (format!("k{number}"), json!(""))).collect();
        let subset = |name: usize| json!({ "name": format!("s{name}"), "patch": { "metadata": { "labels": labels } } });
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
        let spec = json!({ "targetRef": target, "subsets": (0..8).map(subset).collect::<Vec<_>>() });
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_spec_is_kept_small_and_written_as_it_was() {
        let spec = large();
        let seen = SpreadSeen::of_test("shop", "s", Ok(spec.clone()));
        let mut observed: Observed<WorkloadSpreadSpec, WorkloadSpreadStatus> = Observed::new(&seen, 1);
        let bytes = observed.spec.as_ref().unwrap().len();
        assert!((400 << 10..640 << 10).contains(&bytes), "{bytes}: a hundred of them are not 64 MiB");
        let next = WorkloadSpreadStatus { observed_generation: Some(1), ..WorkloadSpreadStatus::default() };
        let mut effects = Vec::new();
        let key = Key::of_cluster(&"s".into());
        assert!(observed.owe(&key, next, Instant::now(), &mut effects).is_some());
        let Some(Effect::Spread(SpreadStep::Write(write))) = effects.pop() else { panic!("no write") };
        assert_eq!(json!(write.spec), json!(spec));
        let unreadable = SpreadSeen { spec: Err("no".to_owned()), ..seen };
        let mut observed: Observed<WorkloadSpreadSpec, WorkloadSpreadStatus> = Observed::new(&unreadable, 1);
        let status = WorkloadSpreadStatus { observed_generation: Some(2), ..WorkloadSpreadStatus::default() };
        assert_eq!(observed.owe(&key, status, Instant::now(), &mut effects), None, "a write has all of it");
    }
}
