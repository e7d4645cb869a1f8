//! Numbers of a pass: how many pods are made, deleted and updated.
//!
//! The names are those of the calculation in OpenKruise, whose results these are for the same pods. Four
//! things differ:
//! - A set that is paused makes no pods beyond the wanted number.
//! - Pods that are to be deleted and do not serve count as such.
//! - As long as new pods are missing, as many are made at once as may be.
//! - Where pods are updated in place, those beyond the wanted number stay until the last one is updated. So
//!   no pod is deleted for one that was made.

use super::{Rules, member::Member};
use crate::{names::SURGE_LABEL, plan::count};

/// Pods of one side: those with the newest revision, or the others.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    all: i64,
    preparing: i64,
    specified: i64,
    unavailable: i64,
}

/// Work of a pass, in pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Pods that are missing.
    pub(super) up: i64,
    /// Part of them that gets the current revision.
    pub(super) up_old: i64,
    /// How many may be made now.
    pub(super) limit: i64,
    /// Pods that are too many.
    pub(super) down: i64,
    /// Part of them that is not of the newest revision.
    pub(super) down_old: i64,
    /// Available pods that may be deleted now.
    pub(super) delete: i64,
    /// Pods that get the newest revision; below zero: that go back to the current one.
    pub(super) update: i64,
    /// Pods that may be unavailable by it.
    pub(super) update_unavailable: i64,
    /// Pods beyond the wanted number.
    pub(super) surge: i64,
}

impl Side {
    fn of<'a>(members: impl Iterator<Item = &'a Member<'a>>) -> Self {
        let mut side = Self::default();
        for member in members {
            side.all += 1;
            if member.is_preparing_delete() {
                side.preparing += 1;
            } else if member.specified {
                side.specified += 1;
            } else if !member.available {
                side.unavailable += 1;
            }
        }
        side
    }

    fn active(self) -> i64 {
        self.all - self.preparing
    }
}

/// Ways in which a rollout goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Course {
    /// Pods beyond the partition go back to the current revision.
    pub(super) rolls_back: bool,
    /// Pods are updated in place.
    pub(super) in_place: bool,
}

/// Both sides, and how many pods each has beyond what it is to have.
#[derive(Clone, Copy, Debug)]
struct Balance {
    new: Side,
    old: Side,
    new_over: i64,
    old_over: i64,
    specified: i64,
    most_surge: i64,
    /// Pods whose update goes on.
    going_on: i64,
    /// Pods beyond the wanted number stay until the last one is updated in place.
    is_extra: bool,
}

impl Balance {
    fn of(rules: &Rules<'_>, members: &[Member<'_>], course: Course) -> Self {
        let new = Side::of(members.iter().filter(|one| one.updated));
        let old = Side::of(members.iter().filter(|one| !one.updated));
        let (replicas, partition) = (rules.replicas, rules.partition);
        let (mut old_over, mut new_over) = (old.active() - partition, new.active() - (replicas - partition));
        if !course.rolls_back {
            old_over = old_over.max(0);
            new_over = new_over.min(0);
        }
        let specified = new.specified + old.specified;
        // A surge of pods for an update that rests would only cost.
        let most_surge = if rules.paused { 0 } else { rules.max_surge };
        let going_on = count(members.iter().filter(|one| one.updated && one.is_being_updated()).count());
        let is_extra = course.in_place
            && most_surge > 0
            && specified == 0
            && old_over >= 0
            && (old_over > 0 || going_on > 0);
        Self { new, old, new_over, old_over, specified, most_surge, going_on, is_extra }
    }

    /// Pods that get the newest revision; below zero: that go back to the current one.
    fn update(self) -> i64 {
        let Self { new_over, old_over, is_extra, .. } = self;
        if is_extra || old_over.abs() <= new_over.abs() { old_over } else { -new_over }
    }
}

/// Tells whether pods go back to the current revision.
pub(super) fn goes_back(rules: &Rules<'_>, members: &[Member<'_>], course: Course) -> bool {
    Balance::of(rules, members, course).update() < 0
}

/// Calculates the numbers.
pub(super) fn numbers(rules: &Rules<'_>, members: &[Member<'_>], course: Course) -> Numbers {
    let balance = Balance::of(rules, members, course);
    let Balance { new, old, new_over, old_over, specified, most_surge, going_on, is_extra } = balance;
    let (replicas, partition) = (rules.replicas, rules.partition);
    let unavailable = new.preparing + old.preparing + new.unavailable + old.unavailable;
    let (surge, surge_old) = if is_extra {
        (most_surge.min(old_over.saturating_add(going_on)), 0)
    } else if most_surge > 0 {
        let scale = (unavailable + specified - rules.max_unavailable).clamp(0, specified);
        let scale_old = (scale - new.specified).max(0);
        let opposite = old_over.signum() * new_over.signum() < 0;
        // OpenKruise takes the smaller of the two, so that its steps shrink towards the end.
        let update = if opposite { old_over.max(new_over) } else { 0 };
        let to_old = if old_over.abs() <= new_over.abs() { old_over < 0 } else { new_over > 0 };
        let update_old = if to_old { update } else { 0 };
        let (pair, pair_old) = if scale >= update { (scale, scale_old) } else { (update, update_old) };
        let surge = most_surge.min(pair);
        (surge, surge.min(pair_old))
    } else {
        (0, 0)
    };
    let total = new.all + old.all;
    let excluded =
        if rules.excludes_preparing { (new.preparing + old.preparing, old.preparing) } else { (0, 0) };
    let (counted, counted_old) = (total - excluded.0, old.all - excluded.1);
    let (expected, expected_old) = (replicas + surge, partition + surge_old);
    let up = (expected - counted).max(0);
    let down = (counted - specified - expected).max(0);
    let down_old = if is_extra {
        // First those that were made for the time of the update.
        let made = members.iter().filter(|one| one.updated && one.pod.labels.contains_key(SURGE_LABEL));
        (down - count(made.count())).min(old_over)
    } else {
        counted_old - old.specified - expected_old
    };
    // In OpenKruise those that are to go and serve no more are forgotten here: one more than may be is out.
    let going = members.iter().filter(|one| one.specified && !one.is_preparing_delete() && !one.available);
    let out = unavailable + i64::try_from(going.count()).unwrap_or(i64::MAX);
    let delete = (rules.max_unavailable + total - replicas - out).max(0);
    Numbers {
        up,
        up_old: if up > 0 { (expected_old - counted_old).max(0) } else { 0 },
        limit: up.min((rules.scale_max_unavailable - unavailable).max(0)),
        down,
        down_old: if down > 0 { down_old.max(0) } else { 0 },
        delete: if specified > 0 || down > 0 { delete } else { 0 },
        update: balance.update(),
        update_unavailable: rules.max_unavailable + total - replicas,
        surge,
    }
}
