//! Which wish is pulled for next, and with which others.
//!
//! Pulls that somebody waits for go first, then whoever came first. A wish whose registry or repository is
//! busy keeps nobody else waiting. Two pulls of one repository would load the layers they share twice, and
//! could not be told apart by what the runtime shows of their progress.

use std::time::{Duration, Instant};

use super::{
    ImageStep, Images, PullOrder,
    pulls::Pull,
    wanted::{State, Wanted},
    wish::{ImageReference, PullId, Wish, WishId, WishSource},
};

impl Images {
    /// Lets queued wishes share a pull that goes on already and was begun for another wish.
    pub(super) fn share_pulls(&mut self, now: Instant) {
        for wanted in self.wishes.values_mut().filter(|wanted| wanted.state == State::Queued) {
            let same = |pull: &Pull| {
                let shares = pull.is_open() && wanted.shares(&pull.image.given, &pull.credentials);
                shares && (!wanted.wish.always || pull.is_fresh())
            };
            if let Some((id, _)) = self.pulls.iter().find(|(_, pull)| same(pull)) {
                wanted.begin(*id, now);
            }
        }
    }

    pub(super) fn pulls_due(&mut self, now: Instant) -> Vec<ImageStep> {
        let mut steps = Vec::new();
        for id in self.in_order(now) {
            // One before it may have taken it along.
            let Some(first) = self.wishes.get(&id).filter(|wanted| wanted.state == State::Queued) else {
                continue;
            };
            if !self.is_pulled_by_kubelet(first.record()) && self.has_slot(&first.wish.image) {
                let wish = first.wish.clone();
                steps.push(self.pull(wish, now));
            }
        }
        steps
    }

    /// The kubelet has this pulled, with whatever credentials.
    pub(super) fn is_pulled_by_kubelet(&self, record: &str) -> bool {
        self.kubelet.values().any(|image| **image == *record)
    }

    /// The wishes that are due for an attempt.
    fn in_order(&self, now: Instant) -> Vec<WishId> {
        let due = |wanted: &&Wanted| {
            wanted.state == State::Queued && wanted.not_before.is_none_or(|not_before| not_before <= now)
        };
        let mut due: Vec<&Wanted> = self.wishes.values().filter(due).collect();
        due.sort_by_key(|wanted| (is_patient(wanted.wish.id.source), wanted.arrival));
        due.into_iter().map(|wanted| wanted.wish.id.clone()).collect()
    }

    fn has_slot(&self, image: &ImageReference) -> bool {
        let running = || self.pulls.values().filter(|pull| pull.is_running());
        let of_registry = || running().filter(|pull| pull.image.registry == image.registry);
        running().count() < self.limits.parallel
            && of_registry().count() < self.limits.per_registry
            && !of_registry().any(|pull| pull.image.repository == image.repository)
    }

    fn pull(&mut self, first: Wish, now: Instant) -> ImageStep {
        self.last_pull += 1;
        let id = PullId(self.last_pull);
        // Those between two attempts come along: it is the attempt they wait for.
        let served = self.wishes.values_mut().filter(|wanted| {
            wanted.state == State::Queued && wanted.shares(&first.image.given, &first.credentials)
        });
        // One with little time left leaves by itself; its deadline is no reason to end the pull of the
        // others.
        let mut longest = Duration::ZERO;
        for wanted in served {
            wanted.begin(id, now);
            let left = wanted.deadline().map(|deadline| deadline.saturating_duration_since(now));
            longest = longest.max(left.unwrap_or(Duration::MAX));
        }
        self.attempted.insert(first.image.given.clone(), first.image.clone());
        self.pulls.insert(id, Pull::new(first.image.clone(), first.credentials.clone()));
        ImageStep::Pull(Box::new(PullOrder {
            pull: id,
            image: first.image,
            credentials: first.credentials,
            timeout: first.timeout.min(longest),
            labels: first.labels,
            annotations: first.annotations,
        }))
    }
}

/// Nobody sits and waits for it.
fn is_patient(source: WishSource) -> bool {
    match source {
        WishSource::Admin | WishSource::Update => false,
        WishSource::Api | WishSource::File => true,
    }
}
