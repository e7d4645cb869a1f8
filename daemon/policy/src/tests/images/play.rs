//! One conversation: facts go in, the steps that are owed come out as short lines.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::tests::world::NowForTests;
use crate::{
    CallId, CredentialKey, Credentials, ImageEvent, ImageLimits, ImageReference, ImageStep, Images,
    PullFailure, PullId, PullOrder, PulledImage, Settled, Wish, WishId, WishPhase, WishReport, WishSource,
};

pub(super) struct Play {
    pub(super) images: Images,
    pub(super) now: Instant,
    pub(super) start: Instant,
    /// The pulls that were handed out.
    pub(super) orders: Vec<PullOrder>,
}

impl Play {
    pub(super) fn new() -> Self {
        Self::limited(10, 10)
    }

    pub(super) fn limited(parallel: usize, per_registry: usize) -> Self {
        Self::on(ImageLimits { parallel, per_registry, seed: 0 })
    }

    pub(super) fn on(limits: ImageLimits) -> Self {
        let start = Instant::now_for_tests();
        let images = Images::new(limits);
        Self { images, now: start, start, orders: Vec::new() }
    }

    pub(super) fn apply(&mut self, event: ImageEvent) {
        self.images.apply(event, self.now);
    }

    pub(super) fn see(&mut self, wish: Wish) {
        self.apply(ImageEvent::WishSeen(Box::new(wish)));
    }

    pub(super) fn gone(&mut self, key: &str) {
        self.apply(ImageEvent::WishGone(id(key)));
    }

    /// The wish is seen and its image is not there.
    pub(super) fn miss(&mut self, wish: Wish) {
        let image = wish.image.given.clone();
        self.see(wish);
        assert_eq!(self.plan(), [format!("look {image}")]);
        self.absent(&image);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Returns the owed steps, one line for each step.
    pub(super) fn plan(&mut self) -> Vec<String> {
        let steps = self.images.plan(self.now);
        if let Some(next) = self.images.next_deadline() {
            assert!(next > self.now, "it would be asked again at once");
        }
        steps.iter().map(|step| self.line(step)).collect()
    }

    pub(super) fn absent(&mut self, image: &str) {
        self.apply(ImageEvent::Looked { image: reference(image), found: None });
    }

    pub(super) fn found(&mut self, image: &str) {
        self.apply(ImageEvent::Looked { image: reference(image), found: Some(pulled(image)) });
    }

    pub(super) fn look_fails(&mut self, image: &str, message: &str) {
        self.apply(ImageEvent::LookFailed { image: reference(image), message: message.to_owned() });
    }

    pub(super) fn pulled(&mut self, pull: u64) {
        let order = self.orders.iter().find(|order| order.pull == PullId(pull)).unwrap();
        let result = Ok(pulled(&order.image.given));
        self.apply(ImageEvent::PullEnded { pull: PullId(pull), result });
    }

    pub(super) fn fails(&mut self, pull: u64, failure: PullFailure) {
        self.apply(ImageEvent::PullEnded { pull: PullId(pull), result: Err(failure) });
    }

    pub(super) fn refused(&mut self, pull: u64) {
        self.fails(pull, PullFailure::Refused("no such tag".to_owned()));
    }

    pub(super) fn asks(&mut self, pull: u64, credential: u64) {
        self.apply(ImageEvent::PullAsked { pull: PullId(pull), credential: CredentialKey(credential) });
    }

    pub(super) fn kubelet_pulls(&mut self, call: u64, image: &str) {
        let credential = CredentialKey(0);
        self.apply(ImageEvent::KubeletPullBegan { call: CallId(call), image: record(image), credential });
    }

    pub(super) fn kubelet_ends(&mut self, call: u64) {
        self.apply(ImageEvent::KubeletPullEnded { call: CallId(call) });
    }

    pub(super) fn join(&mut self, call: u64, pull: u64) {
        self.apply(ImageEvent::Joined { call: CallId(call), pull: PullId(pull) });
    }

    pub(super) fn leave(&mut self, call: u64) {
        self.apply(ImageEvent::Left { call: CallId(call) });
    }

    pub(super) fn report(&self, key: &str) -> WishReport {
        self.images.report(&id(key)).unwrap()
    }

    /// Phase, attempts, message.
    pub(super) fn stands(&self, key: &str) -> (WishPhase, u32, String) {
        let report = self.report(key);
        (report.phase, report.attempts, report.message)
    }

    /// Goes on to the next instant at which something may be owed.
    pub(super) fn wait(&mut self) -> Duration {
        let next = self.images.next_deadline().expect("something is waited for");
        let waited = next - self.now;
        self.now = next;
        waited
    }

    fn line(&mut self, step: &ImageStep) -> String {
        match step {
            ImageStep::Look(image) => format!("look {image}"),
            ImageStep::Pull(order) => {
                self.orders.push(PullOrder::clone(order));
                format!("pull {} {}", order.pull.0, order.image)
            }
            ImageStep::Cancel(pull) => format!("cancel {}", pull.0),
            ImageStep::LetGo(image) => format!("let go {image}"),
            ImageStep::Pin(image, until) => format!("pin {image} {}", (*until - self.start).as_secs()),
            ImageStep::Unpin(image) => format!("unpin {image}"),
        }
    }
}

pub(super) fn id(key: &str) -> WishId {
    WishId { source: WishSource::Api, key: key.into() }
}

/// A reference of the form `registry/repository:tag`, `registry/repository@digest`, or `name:tag` of the
/// default registry.
pub(super) fn reference(given: &str) -> ImageReference {
    let record = if given.contains('/') { given.to_owned() } else { format!("docker.io/library/{given}") };
    let (registry, rest) = record.split_once('/').unwrap();
    let (repository, _) = rest.split_once(['@', ':']).unwrap();
    let (registry, repository) = (registry.into(), repository.into());
    ImageReference { given: given.into(), record: record.into(), registry, repository }
}

pub(super) fn record(given: &str) -> Arc<str> {
    reference(given).record
}

/// A wish with a generous limit of everything.
pub(super) fn wish(key: &str, image: &str) -> Wish {
    Wish {
        id: id(key),
        image: reference(image),
        version: 1,
        always: false,
        timeout: Duration::from_secs(600),
        retries: 3,
        deadline: None,
        labels: Default::default(),
        annotations: Default::default(),
        credentials: Credentials::Node,
        pin: None,
        settled: None,
    }
}

pub(super) fn always(key: &str, image: &str) -> Wish {
    Wish { always: true, ..wish(key, image) }
}

pub(super) fn by(source: WishSource, wish: Wish) -> Wish {
    Wish { id: WishId { source, ..wish.id.clone() }, ..wish }
}

pub(super) fn sealed(wish: Wish) -> Wish {
    let secret: Arc<[Arc<str>]> = ["secret".into()].into();
    Wish { credentials: Credentials::Sealed(secret), ..wish }
}

pub(super) fn pulled(image: &str) -> PulledImage {
    let record = record(image);
    PulledImage { id: format!("id of {record}"), image_ref: format!("ref of {record}") }
}

pub(super) fn settled(succeeded: bool) -> Option<Settled> {
    let message = if succeeded { "" } else { "it was refused" };
    let image_id = succeeded.then(|| "remembered".to_owned());
    Some(Settled { succeeded, image_id, message: message.to_owned() })
}

pub(super) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) const A: &str = "r.io/a:1";
pub(super) const NOTHING: [&str; 0] = [];
