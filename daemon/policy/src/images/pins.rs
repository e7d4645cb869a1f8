//! Images that were pulled ahead are kept from the kubelet's image collection until they are used, or for
//! some time.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Instant,
};

use super::{ImageStep, backoff::pause};
use crate::backoff::Retry;

/// The pins of this node, by the records that were pinned. They outlive their wishes: a job that has
/// succeeded is deleted.
#[derive(Debug, Default)]
pub(super) struct Pins(BTreeMap<Arc<str>, Pin>);

#[derive(Debug)]
struct Pin {
    until: Instant,
    /// `Image.id`: containers are made of that as well. Unknown for a pin of an earlier process.
    image_id: Option<String>,
    /// A container was made of it.
    used: bool,
    /// Until when the runtime keeps it, as far as it has answered.
    held: Option<Instant>,
    asked: Option<PinStep>,
    /// A pull of it ended since it was asked for.
    rewritten: bool,
    retry: Retry,
}

/// A step whose answer is due.
#[derive(Clone, Copy, Debug)]
enum PinStep {
    Pin(Instant),
    Unpin,
}

impl Pins {
    /// A fulfilled wish wants it kept until then. One pin that lasts longer is enough.
    pub(super) fn want(&mut self, record: &Arc<str>, image_id: &str, until: Instant) {
        let pin = self.0.entry(record.clone()).or_insert_with(|| Pin::new(until, None));
        pin.image_id = Some(image_id.to_owned());
        if pin.used || pin.until < until {
            pin.until = until;
            pin.used = false;
            pin.retry = Retry::default();
        }
    }

    /// An earlier process set these.
    pub(super) fn listed(&mut self, listed: Vec<(Arc<str>, Instant)>) {
        for (record, end) in listed {
            let pin = self.0.entry(record).or_insert_with(|| Pin::new(end, Some(end)));
            pin.held.get_or_insert(end);
        }
    }

    /// A pull of it ended. A runtime writes what it has of an image anew then, the record of its digest
    /// included, and what it kept it keeps no longer.
    pub(super) fn rewritten(&mut self, record: &str, now: Instant) {
        let pins = self.0.iter_mut().filter(|(pinned, _)| name(pinned) == name(record));
        for (_, pin) in pins {
            // Unless the pull failed: so whichever is wanted has to be asked for.
            pin.held = pin.held.map(|_| now);
            pin.rewritten = pin.asked.is_some();
        }
    }

    /// A container was made of this. `has_id` tells of a record whether this is its identity, for what is not
    /// known here.
    pub(super) fn used(&mut self, image: &str, has_id: impl Fn(&str) -> bool) {
        for (record, pin) in &mut self.0 {
            let same = **record == *image || pin.image_id.as_deref() == Some(image) || has_id(record);
            if same && !pin.used {
                pin.used = true;
                pin.retry = Retry::default();
            }
        }
    }

    pub(super) fn done(&mut self, record: &Arc<str>, now: Instant) {
        let Entry::Occupied(mut entry) = self.0.entry(record.clone()) else { return };
        let pin = entry.get_mut();
        let Some(asked) = pin.asked.take() else { return };
        pin.retry = Retry::default();
        pin.held = match asked {
            // Which of the two came first, nobody knows.
            PinStep::Pin(_) if pin.rewritten => Some(now),
            PinStep::Pin(until) => Some(until),
            PinStep::Unpin => None,
        };
        pin.rewritten = false;
        if pin.held.is_none() && pin.is_over(now) {
            entry.remove();
        }
    }

    pub(super) fn failed(&mut self, record: &Arc<str>, seed: u64, now: Instant) {
        let Some(pin) = self.0.get_mut(record) else { return };
        match pin.asked.take() {
            None => return,
            Some(PinStep::Pin(_)) => {}
            // Perhaps it is kept, perhaps not: whichever is wanted has to be asked for.
            Some(PinStep::Unpin) => pin.held = Some(now),
        }
        pin.retry.failed(now, |failures| pause(seed, record, failures));
    }

    /// Returns the steps that are due about the pins.
    pub(super) fn due(&mut self, now: Instant) -> Vec<ImageStep> {
        let mut steps = Vec::new();
        self.0.retain(|record, pin| {
            if pin.asked.is_some() {
                return true;
            }
            let over = pin.is_over(now);
            if over && pin.held.is_none() {
                return false;
            }
            if pin.retry.is_due(now) && (over || pin.held != Some(pin.until)) {
                let (asked, step) = match over {
                    true => (PinStep::Unpin, ImageStep::Unpin(record.clone())),
                    false => (PinStep::Pin(pin.until), ImageStep::Pin(record.clone(), pin.until)),
                };
                pin.asked = Some(asked);
                steps.push(step);
            }
            true
        });
        steps
    }

    /// Returns when something about them may be due.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let idle = self.0.values().filter(|pin| pin.asked.is_none());
        idle.flat_map(|pin| [Some(pin.until).filter(|_| !pin.used), pin.retry.next]).flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

// === impl Pin ===

impl Pin {
    fn new(until: Instant, held: Option<Instant>) -> Self {
        Self {
            until,
            image_id: None,
            used: false,
            held,
            asked: None,
            rewritten: false,
            retry: Retry::default(),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.used || self.until <= now
    }
}

/// Returns the part before tag and digest: the registry and the repository.
fn name(record: &str) -> &str {
    let record = record.split_once('@').map_or(record, |(tagged, _)| tagged);
    match record.rsplit_once(':') {
        // Otherwise it is the port of the registry.
        Some((name, tag)) if !tag.contains('/') => name,
        Some(_) | None => record,
    }
}
