//! Knowledge of the model test itself, against which the agent's picture is held.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::play::{Play, pulled};
use crate::{
    CallId, CredentialKey, ImageEvent, ImageLimits, ImageStep, JoinedPull, PullFailure, PullId, PullOrder,
    Wish, WishId, WishPhase, WishReport, WishSource,
};

/// A pull has its slot so long, whoever waits.
const TURN: Duration = Duration::from_secs(15 * 60);
const PAST_DEADLINE: &str = "pulling exceeds the activeDeadlineSeconds";

/// A pull the runtime carries out.
pub(super) struct Running {
    pub(super) order: PullOrder,
    pub(super) cancelled: bool,
    began: Instant,
    /// Somebody waited for it when it began.
    hurried: bool,
    pub(super) credential: Option<CredentialKey>,
}

/// A call of the kubelet that waits.
pub(super) struct Waiting {
    pub(super) pull: PullId,
    /// The runtime has been asked with nothing else since.
    pub(super) entitled: bool,
}

pub(super) struct Truth {
    pub(super) play: Play,
    pub(super) limits: ImageLimits,
    pub(super) wishes: BTreeMap<WishId, Wish>,
    pub(super) looks: BTreeSet<Arc<str>>,
    pub(super) pulls: BTreeMap<PullId, Running>,
    pub(super) outcomes: BTreeMap<PullId, bool>,
    pub(super) kubelet: BTreeMap<CallId, Arc<str>>,
    pub(super) waiting: BTreeMap<CallId, Waiting>,
    /// Pulled, without a success or a word to let it go since.
    pub(super) attempted: BTreeSet<Arc<str>>,
    /// Answers due about pins; `None` is to unpin.
    pub(super) pinning: BTreeMap<Arc<str>, Option<Instant>>,
    /// Images that the runtime keeps.
    pub(super) pinned: BTreeMap<Arc<str>, Instant>,
    pub(super) calls: u64,
    reports: BTreeMap<WishId, WishReport>,
}

impl Truth {
    pub(super) fn new(limits: ImageLimits) -> Self {
        Self {
            play: Play::on(limits),
            limits,
            wishes: BTreeMap::new(),
            looks: BTreeSet::new(),
            pulls: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            kubelet: BTreeMap::new(),
            waiting: BTreeMap::new(),
            attempted: BTreeSet::new(),
            pinning: BTreeMap::new(),
            pinned: BTreeMap::new(),
            calls: 0,
            reports: BTreeMap::new(),
        }
    }

    /// A fact, said twice.
    pub(super) fn apply(&mut self, event: &ImageEvent) {
        self.play.apply(event.clone());
        let once = format!("{:?}", self.play.images);
        self.play.apply(event.clone());
        assert_eq!(format!("{:?}", self.play.images), once, "said again it means something else: {event:?}");
        self.check_changes(event);
    }

    /// Takes what is owed; true when it was anything.
    pub(super) fn plan(&mut self) -> bool {
        let now = self.play.now;
        let steps = self.play.images.plan(now);
        for step in &steps {
            self.take(step);
        }
        assert_eq!(self.play.images.plan(now), [], "a step is given out once");
        assert!(self.play.images.next_deadline().is_none_or(|next| next > now), "it spins");
        self.check();
        !steps.is_empty()
    }

    pub(super) fn end_pull(&mut self, pull: PullId, failure: Option<PullFailure>) {
        let Some(running) = self.pulls.remove(&pull) else { return };
        self.outcomes.insert(pull, failure.is_none());
        if failure.is_none() {
            self.attempted.remove(&running.order.image.given);
        }
        let result = failure.map_or_else(|| Ok(pulled(&running.order.image.given)), Err);
        self.apply(&ImageEvent::PullEnded { pull, result });
    }

    pub(super) fn answer_pin(&mut self, image: &Arc<str>, works: bool) {
        let Some(until) = self.pinning.remove(image) else { return };
        match until {
            Some(until) if works => drop(self.pinned.insert(image.clone(), until)),
            None if works => drop(self.pinned.remove(image)),
            Some(_) | None => {}
        }
        let image = image.clone();
        self.apply(&if works { ImageEvent::PinDone(image) } else { ImageEvent::PinFailed(image) });
    }

    fn take(&mut self, step: &ImageStep) {
        match step {
            ImageStep::Look(image) => {
                assert!(self.looks.insert(image.given.clone()), "looked for twice: {image}");
                let asks = |wish: &&Wish| !wish.always && wish.image == *image && self.is_open(wish);
                assert!(self.wishes.values().any(|wish| asks(&wish)), "nobody asks for {image}");
            }
            ImageStep::Pull(order) => self.take_pull(order),
            ImageStep::Cancel(pull) => {
                let needed = self.is_needed(*pull);
                let waits = self.wishes.values().any(|wish| self.report(wish).phase == WishPhase::Waiting);
                let running = self.pulls.get_mut(pull).expect("it runs");
                let makes_way = waits && self.play.now - running.began >= TURN;
                assert!(makes_way || !needed, "somebody needs {pull:?}");
                assert!(!std::mem::replace(&mut running.cancelled, true), "cancelled twice: {pull:?}");
            }
            ImageStep::LetGo(image) => {
                assert!(self.attempted.remove(&image.given), "nothing was tried: {image}");
                assert!(!self.is_wanted(&image.given), "somebody wants {image}");
            }
            ImageStep::Pin(image, until) => {
                assert!(*until > self.play.now, "pinned for no time: {image}");
                assert!(self.pinning.insert(image.clone(), Some(*until)).is_none(), "no answer yet: {image}");
            }
            ImageStep::Unpin(image) => {
                assert!(self.pinning.insert(image.clone(), None).is_none(), "no answer yet: {image}");
                assert!(self.pinned.contains_key(image), "not pinned: {image}");
            }
        }
    }

    fn take_pull(&mut self, order: &PullOrder) {
        let image = &order.image;
        let mut running: Vec<_> = self.pulls.values().collect();
        let hurries = |wish: &Wish| matches!(wish.id.source, WishSource::Admin | WishSource::Update);
        let mut served =
            self.wishes.values().filter(|wish| serves(order, wish) && self.is_pulled_by_us(wish));
        let hurried = served.any(hurries);
        let more =
            |running: &[&Running]| usize::from(hurried && !running.iter().any(|running| running.hurried));
        assert!(running.len() < self.limits.parallel + more(&running), "too many pulls");
        running.retain(|running| running.order.image.registry == image.registry);
        let allowed = self.limits.per_registry + more(&running);
        assert!(running.len() < allowed, "too many pulls of {}", image.registry);
        running.retain(|running| running.order.image.repository == image.repository);
        assert!(running.is_empty(), "two pulls of {}", image.repository);
        assert!(!self.kubelet.values().any(|record| *record == image.record), "the kubelet pulls {image}");
        assert!(!self.outcomes.contains_key(&order.pull), "{:?} was there before", order.pull);
        self.play.orders.push(order.clone());
        self.attempted.insert(image.given.clone());
        let began = self.play.now;
        let running = Running { order: order.clone(), cancelled: false, began, hurried, credential: None };
        assert!(self.pulls.insert(order.pull, running).is_none(), "{:?} runs", order.pull);
        assert!(self.is_needed(order.pull), "nobody needs {image}");
        let served = self.wishes.values().filter(|wish| serves(order, wish) && self.is_open(wish));
        let (timeouts, deadlines): (Vec<_>, Vec<_>) =
            served.map(|wish| (wish.timeout, wish.deadline.unwrap_or(Duration::MAX))).unzip();
        let longest = timeouts.into_iter().max().min(deadlines.into_iter().max());
        assert!(longest.is_some_and(|longest| order.timeout <= longest), "too long: {order:?}");
    }

    /// A present wish is being pulled by it, or a call waits for it that is entitled to it.
    fn is_needed(&self, pull: PullId) -> bool {
        let order = &self.pulls[&pull].order;
        let wished = self.wishes.values().any(|wish| serves(order, wish) && self.is_pulled_by_us(wish));
        wished || self.waiting.values().any(|waiting| waiting.pull == pull && waiting.entitled)
    }

    /// An open wish asks for it, or it is being pulled, be it to the end only.
    fn is_wanted(&self, given: &Arc<str>) -> bool {
        let pulled = self.pulls.values().any(|running| running.order.image.given == *given);
        pulled || self.wishes.values().any(|wish| wish.image.given == *given && self.is_open(wish))
    }

    fn report(&self, wish: &Wish) -> WishReport {
        self.play.images.report(&wish.id).expect("every wish is reported")
    }

    fn is_open(&self, wish: &Wish) -> bool {
        matches!(self.report(wish).phase, WishPhase::Waiting | WishPhase::Pulling)
    }

    fn is_pulled_by_us(&self, wish: &Wish) -> bool {
        let report = self.report(wish);
        report.phase == WishPhase::Pulling && report.message != "the kubelet is pulling it"
    }

    /// Checks that the reports have changed only as this fact allows.
    fn check_changes(&mut self, event: &ImageEvent) {
        let there = match event {
            ImageEvent::Looked { image, found: Some(_) } => Some(image.given.clone()),
            ImageEvent::PullEnded { pull, result: Ok(_) } => {
                let order = self.play.orders.iter().find(|order| order.pull == *pull);
                order.map(|order| order.image.given.clone())
            }
            _ => None,
        };
        let wished = matches!(event, ImageEvent::WishSeen(_) | ImageEvent::WishesListed(..));
        // What says nothing about the limits of a wish.
        let blameless = |id: &WishId| match event {
            ImageEvent::PullEnded { result: Err(PullFailure::TimedOut(limit)), .. } => {
                *limit < self.wishes[id].timeout
            }
            ImageEvent::PullEnded { result: Err(failure), .. } => {
                matches!(failure, PullFailure::Away(_) | PullFailure::Cancelled)
            }
            _ => false,
        };
        for report in self.play.images.reports() {
            let before = self.reports.get(&report.id);
            if let Some(before) = before
                && before.phase >= WishPhase::Succeeded
                && !wished
            {
                assert_eq!(*before, report, "what has ended stays so");
            }
            if blameless(&report.id) && before.is_some_and(|before| before.phase < WishPhase::Succeeded) {
                let late = report.phase == WishPhase::Failed && report.message == PAST_DEADLINE;
                assert!(late || report.phase < WishPhase::Succeeded, "failed by {event:?}");
            }
            let new = before.is_none_or(|before| before.phase != WishPhase::Succeeded);
            if report.phase == WishPhase::Succeeded && new && !wished {
                assert_eq!(there.as_ref(), Some(&report.image.given), "nobody has seen it");
            }
        }
    }

    /// Checks the invariants that hold after every step.
    fn check(&mut self) {
        let reports = self.play.images.reports();
        let ids: Vec<_> = reports.iter().map(|report| report.id.clone()).collect();
        assert_eq!(ids, self.wishes.keys().cloned().collect::<Vec<_>>());
        for wish in self.wishes.values() {
            let report = self.report(wish);
            assert_eq!((report.version, &report.image), (wish.version, &wish.image));
            assert!(report.attempts <= wish.retries + 1 || !self.is_open(wish), "{report:?}");
            if self.is_pulled_by_us(wish) {
                let runs = |running: &Running| serves(&running.order, wish) && !running.cancelled;
                assert!(self.pulls.values().any(runs), "nothing goes on for {report:?}");
                let before = self.reports.get(&wish.id);
                let waited = before.is_some_and(|before| {
                    (before.phase, before.version) == (WishPhase::Pulling, wish.version)
                        && before.image == wish.image
                });
                let fresh = |running: &Running| runs(running) && running.credential.is_none();
                if wish.always && !waited {
                    assert!(self.pulls.values().any(fresh), "asked before it was wished: {report:?}");
                }
            } else if report.phase == WishPhase::Pulling {
                assert!(self.kubelet.values().any(|record| *record == wish.image.record), "{report:?}");
            }
            assert!(report.ended.is_none() || !self.is_open(wish), "{report:?}");
        }
        for (pull, running) in &self.pulls {
            assert!(running.cancelled || self.is_needed(*pull), "nobody needs {pull:?}");
        }
        for given in &self.attempted {
            assert!(self.is_wanted(given), "kept for nobody: {given}");
        }
        for waiting in self.waiting.values() {
            let all = || self.waiting.values().filter(|other| other.pull == waiting.pull);
            let expected = match self.outcomes.get(&waiting.pull) {
                _ if !all().all(|waiting| waiting.entitled) => JoinedPull::Failed,
                None => JoinedPull::Running,
                Some(true) => {
                    let order = self.play.orders.iter().find(|order| order.pull == waiting.pull).unwrap();
                    JoinedPull::Done(pulled(&order.image.given).image_ref)
                }
                Some(false) => JoinedPull::Failed,
            };
            assert_eq!(self.play.images.joined(waiting.pull), expected);
        }
        let size = self.play.images.size();
        assert_eq!((size.wishes, size.kubelet_pulls), (self.wishes.len(), self.kubelet.len()));
        let told = self.pulls.len()..=self.pulls.len() + self.waiting.len();
        assert!(told.contains(&size.pulling), "{size:?}");
        self.reports = reports.into_iter().map(|report| (report.id.clone(), report)).collect();
    }
}

fn serves(order: &PullOrder, wish: &Wish) -> bool {
    wish.image.given == order.image.given && wish.credentials == order.credentials
}
