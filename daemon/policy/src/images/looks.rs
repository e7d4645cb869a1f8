//! Looks at whether an image is on the node: one at a time for each reference, however many wishes ask.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Instant,
};

use super::{
    ImageStep, Images,
    backoff::pause,
    event::PulledImage,
    wanted::{State, Wanted},
    wish::ImageReference,
};
use crate::backoff::Retry;

/// A look that is under way, or failed and is to be repeated.
#[derive(Debug)]
pub(super) struct Look {
    record: Arc<str>,
    in_flight: bool,
    /// A pull of it ended since the look was given out: that it was not there then means nothing.
    outdated: bool,
    retry: Retry,
    /// Why the last one failed, for people.
    pub(super) failure: Option<String>,
}

impl Look {
    fn new(record: Arc<str>) -> Self {
        Self { record, in_flight: false, outdated: false, retry: Retry::default(), failure: None }
    }
}

impl Images {
    pub(super) fn looks_due(&mut self, now: Instant) -> Vec<ImageStep> {
        let looking = self.wishes.values().filter(|wanted| wanted.state == State::Looking);
        let wanted: BTreeMap<Arc<str>, ImageReference> =
            looking.map(|wanted| (wanted.given().clone(), wanted.wish.image.clone())).collect();
        self.looks.retain(|given, look| look.in_flight || wanted.contains_key(given));
        let mut steps = Vec::new();
        for (given, image) in wanted {
            let look = self.looks.entry(given).or_insert_with(|| Look::new(image.record.clone()));
            if !look.in_flight && look.retry.is_due(now) {
                look.in_flight = true;
                look.outdated = false;
                steps.push(ImageStep::Look(image));
            }
        }
        steps
    }

    pub(super) fn looked(&mut self, given: &Arc<str>, found: Option<PulledImage>, now: Instant) {
        let Entry::Occupied(look) = self.looks.entry(given.clone()) else { return };
        if !look.get().in_flight {
            return;
        }
        let look = look.remove();
        match found {
            Some(found) => {
                // One that waits for another attempt has its image, too. A pull that goes on may end as it
                // will.
                let waits = |wanted: &Wanted| !matches!(wanted.state, State::Pulling(_));
                self.succeed(
                    |wanted| !wanted.wish.always && wanted.given() == given && waits(wanted),
                    &found,
                    now,
                );
            }
            None if look.outdated => {}
            None => {
                let looking =
                    |wanted: &&mut Wanted| wanted.state == State::Looking && wanted.given() == given;
                self.wishes.values_mut().filter(looking).for_each(|wanted| wanted.state = State::Queued);
            }
        }
    }

    pub(super) fn look_failed(&mut self, given: &Arc<str>, message: String, now: Instant) {
        if let Some(look) = self.looks.get_mut(given).filter(|look| look.in_flight) {
            look.in_flight = false;
            look.failure = Some(message);
            look.retry.failed(now, |failures| pause(self.limits.seed, given, failures));
        }
    }

    /// A pull of this ended: it may be there now, for those who wait with other credentials, with another
    /// spelling, or for a pull of the kubelet.
    pub(super) fn look_again(&mut self, record: &Arc<str>) {
        for wanted in self.wishes.values_mut() {
            if wanted.state == State::Queued && !wanted.wish.always && wanted.record() == record {
                wanted.state = State::Looking;
            }
        }
        for look in self.looks.values_mut().filter(|look| look.record == *record) {
            look.outdated = true;
        }
    }

    /// Returns when looks that failed are repeated.
    pub(super) fn look_deadlines(&self) -> impl Iterator<Item = Instant> {
        self.looks.values().filter(|look| !look.in_flight).filter_map(|look| look.retry.next)
    }
}
