//! Objects whose evaluation panicked: set aside, so that everything else goes on.
//!
//! A panic in the policy is a bug of Berth, and an object that somebody wrote can be what sets it off. Each
//! object is therefore evaluated by itself. One that fails is left alone for a while, longer each time, and
//! then tried again: what it was evaluated with may have changed. What was half done is still there; every
//! later decision goes through the same checks. The last resort, around the whole policy, is with the caller.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt::Debug,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use crate::{
    backoff::{Pace, Retry},
    model::{PodRef, PodUid, RequestId},
    node::Node,
    step::{About, Notice},
};

/// How long an object is left alone after its evaluation panicked.
const PACE: Pace = Pace { first: Duration::from_secs(5), longest: Duration::from_secs(600) };

/// An object that is evaluated by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// A pod, for what is not about a request.
    Pod(PodUid),
    /// A request to recreate containers.
    Request(RequestId),
}

/// The objects that are set aside. Behind a cell, because objects are evaluated by shared reference, too.
#[derive(Clone, Debug)]
pub struct SetAside<K> {
    failed: RefCell<BTreeMap<K, Failed>>,
    panics: Cell<u64>,
}

/// Memory of an object that failed, kept as long as the object is there.
#[derive(Clone, Debug, Default)]
struct Failed {
    retry: Retry,
    /// It was not said yet that it failed.
    news: bool,
}

impl<K> Default for SetAside<K> {
    fn default() -> Self {
        Self { failed: RefCell::default(), panics: Cell::new(0) }
    }
}

impl<K: Ord + Clone + Debug> SetAside<K> {
    /// The result of `work`, which evaluates the object; `None` while it is set aside, and when `work`
    /// panics.
    pub fn evaluate<T>(&self, object: impl Fn() -> K, now: Instant, work: impl FnOnce() -> T) -> Option<T> {
        // On a healthy node nobody is asked who it is.
        let is_due = |failed: &BTreeMap<K, Failed>| {
            failed.is_empty() || failed.get(&object()).is_none_or(|failed| failed.retry.is_due(now))
        };
        if !is_due(&self.failed.borrow()) {
            return None;
        }
        let result = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(any(test, feature = "fault-points"))]
            trap::spring(&object());
            work()
        }));
        if result.is_err() {
            self.panics.set(self.panics.get().saturating_add(1));
            let mut all = self.failed.borrow_mut();
            let failed = all.entry(object()).or_default();
            failed.news = true;
            failed.retry.failed(now, |failures| PACE.pause(failures));
        }
        result.ok()
    }

    /// Returns how often an evaluation panicked.
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }

    /// Forgets the objects that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&K) -> bool) {
        self.failed.get_mut().retain(|object, _| is_there(object));
    }

    /// Objects that failed since the last question.
    pub fn news(&mut self) -> Vec<K> {
        let failed = self.failed.get_mut().iter_mut();
        let news = failed.filter_map(|(object, failed)| std::mem::take(&mut failed.news).then_some(object));
        news.cloned().collect()
    }

    /// Objects that are set aside, with the time when each is tried again.
    pub fn all(&self, now: Instant) -> Vec<(K, Instant)> {
        let failed = self.failed.borrow();
        let waiting = failed.iter().filter_map(|(object, failed)| Some((object.clone(), failed.retry.next?)));
        waiting.filter(|(_, again)| *again > now).collect()
    }

    /// Returns when the next one is tried again, after `now`.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        self.failed.borrow().values().filter_map(|failed| failed.retry.next).filter(|next| *next > now).min()
    }
}

// === Node ===

/// The reason of the Event on a pod.
const REASON: &str = "SetAside";

/// An object that is set aside, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAsideView {
    /// `pod namespace/name` or `request namespace/name`; the identity where the name is not known any more.
    pub object: String,
    /// When it is evaluated again.
    pub again: Instant,
}

impl Node {
    /// The objects that are left alone because their evaluation panicked.
    pub fn set_aside(&self, now: Instant) -> Vec<SetAsideView> {
        let all = self.set_aside.all(now).into_iter();
        all.map(|(subject, again)| SetAsideView { object: self.name_of(&subject), again }).collect()
    }

    /// Returns how often the evaluation of an object panicked.
    pub fn panics(&self) -> u64 {
        self.set_aside.panics()
    }

    /// Forgets objects that are gone.
    pub(crate) fn set_aside_is_kept(&mut self) {
        let (pods, requests) = (&self.pods, &self.recreates);
        self.set_aside.keep(|subject| match subject {
            Subject::Pod(uid) => pods.contains_key(uid),
            Subject::Request(id) => requests.has(id),
        });
    }

    /// Owes an Event on the pod of each object that failed since the last plan.
    pub(crate) fn tell_what_is_set_aside(&mut self) {
        for subject in self.set_aside.news() {
            let note = format!(
                "Berth has failed to evaluate {} and leaves it alone for a while; this is a bug of berthd, whose log has the place",
                self.name_of(&subject)
            );
            if let Some(pod) = self.pod_about(&subject) {
                self.notices.push((pod, Notice { about: About::Pod, reason: REASON, warning: true, note }));
            }
        }
    }

    fn pod_about(&self, subject: &Subject) -> Option<PodRef> {
        let uid = match subject {
            Subject::Pod(uid) => uid,
            Subject::Request(id) => self.recreates.pod_of(id)?,
        };
        self.pod_of(uid)
    }

    fn name_of(&self, subject: &Subject) -> String {
        match subject {
            Subject::Pod(uid) => match self.pod_about(subject) {
                Some(pod) => format!("pod {}/{}", pod.namespace, pod.name),
                None => format!("pod {uid}"),
            },
            Subject::Request(id) => match self.recreates.key_of(id) {
                Some(key) => format!("request {key}"),
                None => format!("request {id}"),
            },
        }
    }
}

/// Evaluations that panic because a test wants it so: no object is known that makes one.
#[cfg(any(test, feature = "fault-points"))]
pub mod trap {
    use std::{
        collections::BTreeSet,
        fmt::Debug,
        sync::{Mutex, PoisonError},
    };

    static SET: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    /// Lets every evaluation panic of objects whose identity has this in it.
    pub fn set(identity: &str) {
        SET.lock().unwrap_or_else(PoisonError::into_inner).insert(identity.to_owned());
    }

    /// Takes it back.
    pub fn clear(identity: &str) {
        SET.lock().unwrap_or_else(PoisonError::into_inner).remove(identity);
    }

    pub(super) fn spring(object: &impl Debug) {
        let set = SET.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if !set.is_empty() {
            let object = format!("{object:?}");
            assert!(!set.iter().any(|identity| object.contains(identity)), "a trap of a test");
        }
    }
}
