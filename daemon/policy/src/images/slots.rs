//! Which wish is pulled for next, and with which others.
//!
//! Wishes that have had no slot for long go first; among them those that somebody waits for, then whoever
//! came first. One that somebody waits for may have a slot more than there are, so that it never waits for
//! what nobody waits for. A wish whose registry or repository is busy keeps nobody else waiting. Two pulls of
//! one repository would load the layers they share twice, and could not be told apart by what the runtime
//! shows of their progress.

use std::time::{Duration, Instant};

use super::{
    ImageStep, Images, PullOrder,
    preemption::{TURN, turn},
    pulls::Pull,
    wanted::{State, Wanted},
    wish::{PullId, Wish, WishId, WishSource},
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
            if !self.is_pulled_by_kubelet(first.record()) && self.in_way(&first.wish).is_empty() {
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
    pub(super) fn in_order(&self, now: Instant) -> Vec<WishId> {
        let due = |wanted: &&Wanted| {
            wanted.state == State::Queued && wanted.not_before.is_none_or(|not_before| not_before <= now)
        };
        let mut due: Vec<&Wanted> = self.wishes.values().filter(due).collect();
        due.sort_by_key(|wanted| {
            let turns = wanted.held.as_secs().checked_div(TURN.as_secs());
            (turns, !is_hurried(wanted.wish.id.source), wanted.arrival)
        });
        due.into_iter().map(|wanted| wanted.wish.id.clone()).collect()
    }

    /// The pulls one of which has to end before this is pulled; none when it has a slot.
    pub(super) fn in_way(&self, wish: &Wish) -> Vec<(PullId, &Pull)> {
        let hurried = is_hurried(wish.id.source);
        let is_full = |running: &[(PullId, &Pull)], limit: usize| {
            let more = hurried && !running.iter().any(|(_, pull)| pull.hurried);
            running.len() >= limit.saturating_add(more.into())
        };
        let running = self.pulls.iter().filter(|(_, pull)| pull.is_running());
        let running: Vec<_> = running.map(|(id, pull)| (*id, pull)).collect();
        let mut of_registry = running.clone();
        of_registry.retain(|(_, pull)| pull.image.registry == wish.image.registry);
        let mut of_repository = of_registry.clone();
        of_repository.retain(|(_, pull)| pull.image.repository == wish.image.repository);
        if !of_repository.is_empty() {
            of_repository
        } else if is_full(&of_registry, self.limits.per_registry) {
            of_registry
        } else if is_full(&running, self.limits.parallel) {
            running
        } else {
            Vec::new()
        }
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
        let mut pull = Pull::new(&first, now);
        for wanted in served {
            pull.held = pull.held.max(wanted.held);
            pull.turn = pull.turn.max(turn(wanted.put_back));
            pull.hurried |= is_hurried(wanted.wish.id.source);
            wanted.begin(id, now);
            let left = wanted.deadline().map(|deadline| deadline.saturating_duration_since(now));
            longest = longest.max(left.unwrap_or(Duration::MAX));
        }
        self.attempted.insert(first.image.given.clone(), first.image.clone());
        self.pulls.insert(id, pull);
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

/// Tells whether somebody sits and waits for it.
fn is_hurried(source: WishSource) -> bool {
    match source {
        WishSource::Admin | WishSource::Update => true,
        WishSource::Api | WishSource::File => false,
    }
}
