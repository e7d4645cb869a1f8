//! The state of this node's images, shared: [`berth_policy::Images`] behind a lock that is never held over an
//! await.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use berth_policy::{
    CallId, CredentialKey, ImageEvent, ImageLimits, ImageStep, Images, JoinedPull, WishId, WishReport,
    time::later,
};
use tokio::sync::watch;

use crate::{
    agent::{AFTER_PANIC, metrics::AgentMetrics, now},
    images::record_name,
};

/// The state of the images and the way to it.
#[derive(Debug)]
pub(crate) struct SharedImages {
    /// A std mutex: nothing awaits inside, and the data path and the rest live on different threads.
    images: Mutex<Images>,
    /// Grows with every fact: then it is time to plan.
    changes: watch::Sender<u64>,
    /// Grows with every fact and every plan: then there may be something to tell. A number of its own,
    /// because a plan that called for a plan would never end.
    news: watch::Sender<u64>,
    /// Whether one is pulled, or may have to be. Before the first fact or plan it may.
    busy: watch::Sender<bool>,
    metrics: AgentMetrics,
}

/// A call that waits for a pull of ours, until it is dropped.
struct Waiting<'a> {
    images: &'a SharedImages,
    call: CallId,
}

impl SharedImages {
    /// Knows nothing yet.
    pub(crate) fn new(limits: ImageLimits, metrics: AgentMetrics) -> Self {
        Self {
            images: Mutex::new(Images::new(limits)),
            changes: watch::Sender::new(0),
            news: watch::Sender::new(0),
            busy: watch::Sender::new(true),
            metrics,
        }
    }

    /// Takes a fact.
    pub(crate) fn apply(&self, event: ImageEvent) {
        let taken = self.guarded(|images| {
            images.apply(event, now());
            self.tell_busy(images.is_busy());
        });
        if taken.is_none() {
            self.tell_busy(true);
        }
        self.changes.send_modify(|changes| *changes += 1);
        self.news.send_modify(|news| *news += 1);
    }

    /// The effects that are due now, and when to ask again.
    pub(crate) fn plan(&self) -> (Vec<ImageStep>, Option<Instant>) {
        let planned = self.guarded(|images| {
            let steps = images.plan(now());
            self.tell_busy(images.is_busy());
            let named = |(id, again): (WishId, Instant)| (format!("image {}", id.key), again);
            let set_aside = || images.set_aside(now()).into_iter().map(named).collect();
            self.metrics.set_aside("images", images.panics(), set_aside);
            (steps, images.next_deadline())
        });
        if planned.is_none() {
            self.tell_busy(true);
        }
        self.news.send_modify(|news| *news += 1);
        planned.unwrap_or_else(|| (Vec::new(), Some(later(now(), AFTER_PANIC))))
    }

    /// A number that grows whenever there may be something new to tell.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// A number that grows whenever [`SharedImages::plan`] may have a new answer. Subscribe before asking, so
    /// that no change in between is lost.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Tells whether one is pulled, or may have to be: see [`Images::is_busy`]. One may, where the policy
    /// fails.
    pub(crate) fn busy(&self) -> watch::Receiver<bool> {
        self.busy.subscribe()
    }

    /// Says where all wishes stand.
    pub(crate) fn reports(&self) -> Vec<WishReport> {
        self.guarded(|images| images.reports()).unwrap_or_default()
    }

    /// Says where one stands; `None` when it is not wished.
    pub(crate) fn report(&self, id: &WishId) -> Option<WishReport> {
        self.guarded(|images| images.report(id)).flatten()
    }

    /// Waits while the agent pulls this image with these credentials. See [`berth_shim::Query::Pull`].
    pub(crate) async fn joins(&self, call: CallId, image: &str, credential: CredentialKey) -> Option<String> {
        let record = record_name(image);
        let pull = self.guarded(|images| {
            let pull = images.joinable(&record, credential)?;
            images.apply(ImageEvent::Joined { call, pull }, now());
            Some(pull)
        });
        let pull = pull.flatten()?;
        let _waiting = Waiting { images: self, call };
        let mut changes = self.news();
        loop {
            changes.mark_unchanged();
            match self.guarded(|images| images.joined(pull)) {
                Some(JoinedPull::Running) => {}
                Some(JoinedPull::Done(image_ref)) => return Some(image_ref),
                Some(JoinedPull::Failed) | None => return None,
            }
            changes.changed().await.ok()?;
        }
    }

    /// A client's pull went on to the runtime.
    pub(crate) fn passed(&self, call: CallId, image: &str, credential: CredentialKey) {
        self.apply(ImageEvent::KubeletPullBegan { call, image: Arc::from(record_name(image)), credential });
    }

    /// A call is over. Most are no pulls, so whoever waits for changes is left alone then.
    pub(crate) fn call_ended(&self, call: CallId) {
        let pulling = self.guarded(|images| images.size().kubelet_pulls > 0);
        if pulling != Some(false) {
            self.apply(ImageEvent::KubeletPullEnded { call });
        }
    }

    /// A container is made of an image, by any of these names.
    pub(crate) fn used(&self, names: &[String]) {
        // Most containers are made of images that nobody keeps.
        if self.guarded(|images| images.size().pins) == Some(0) {
            return;
        }
        for name in names {
            self.apply(ImageEvent::ImageUsed(Arc::from(record_name(name))));
        }
    }

    /// Takes note of it, under the lock of what it is about: a later word is never overtaken.
    fn tell_busy(&self, busy: bool) {
        self.busy.send_if_modified(|before| std::mem::replace(before, busy) != busy);
    }

    fn guarded<T>(&self, work: impl FnOnce(&mut Images) -> T) -> Option<T> {
        // The state may be half-changed after a panic; images that are not pulled ahead are pulled by the
        // kubelet.
        let work = || work(&mut self.images.lock().unwrap_or_else(PoisonError::into_inner));
        self.metrics.guarded("Image policy panicked", work)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.images.apply(ImageEvent::Left { call: self.call });
    }
}
