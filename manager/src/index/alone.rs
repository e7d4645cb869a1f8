//! One index without the others, for its tests.

use std::{
    borrow::Borrow,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    time::Instant,
};

use super::{Index, Set};
use crate::{
    effect::Effect,
    store::{Kind, Now, Object, Pods},
    write::{Target, Write},
};

/// An index and its pods; `E` is what it gives.
#[derive(Debug)]
pub(crate) struct Alone<I, E> {
    pub(crate) pods: Pods,
    pub(crate) index: I,
    effects: PhantomData<E>,
}

impl<I: Default, E> Default for Alone<I, E> {
    fn default() -> Self {
        Self { pods: Pods::default(), index: I::default(), effects: PhantomData }
    }
}

impl<I, E> Deref for Alone<I, E> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.index
    }
}

impl<I, E> DerefMut for Alone<I, E> {
    fn deref_mut(&mut self) -> &mut I {
        &mut self.index
    }
}

impl<I: Index, E: From<Effect>> Alone<I, E> {
    fn set(&mut self) -> Set<'_, 1> {
        Set { pods: &mut self.pods, indexes: [&mut self.index] }
    }

    pub(crate) fn apply(&mut self, object: impl Borrow<Object>, now: Now) -> Vec<E> {
        own(self.set().apply(object.borrow(), now))
    }

    pub(crate) fn delete(&mut self, kind: Kind, namespace: &str, name: &str, now: Now) -> Vec<E> {
        own(self.set().delete(kind, namespace, name, now))
    }

    pub(crate) fn list_begins(&mut self, kind: Kind, now: Now) {
        self.set().list_begins(kind, now);
    }

    pub(crate) fn list_ends(&mut self, kind: Kind, now: Now) -> Vec<E> {
        own(self.set().list_ends(kind, now))
    }

    pub(crate) fn view_broke(&mut self, kind: Kind, now: Now) {
        self.set().view_broke(kind, now);
    }

    pub(crate) fn due(&mut self, now: Now) -> Vec<E> {
        own(self.set().time_passed(now))
    }

    pub(crate) fn owed(&mut self, now: Now) -> Vec<E> {
        own(self.set().leads(now))
    }

    pub(crate) fn rests(&mut self, now: Now) -> Vec<E> {
        own(self.set().rests(now))
    }

    pub(crate) fn lost(&mut self, target: &Target, now: Now) {
        self.set().lost(target, now);
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.index.next_deadline()
    }
}

fn own<E: From<Effect>>(effects: Vec<Effect>) -> Vec<E> {
    effects.into_iter().map(E::from).collect()
}

impl From<Effect> for Write {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Write(write) => write,
            other => panic!("no write: {other:?}"),
        }
    }
}
