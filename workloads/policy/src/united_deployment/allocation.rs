//! Pods of each subset: fixed numbers and shares first, the rest evenly; or, where a subset has a least or a
//! largest number, in the order of the list.

use std::collections::BTreeMap;

use berth_proto::percent::part;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::fault::Fault;

/// Field that all subsets are in.
const FIELD: &str = "spec.topology.subsets";

/// Replicas of a subset, as they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    Number(i64),
    /// Share of the pods, in hundredths.
    Percent(i64),
}

/// Replicas that a subset asks for: the fields that its number follows from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replicas {
    /// `replicas`; `None`: an even part of the rest.
    pub(super) share: Option<Share>,
    /// `minReplicas`.
    pub(super) least: Option<Share>,
    /// `maxReplicas`.
    pub(super) most: Option<Share>,
}

/// A subset, as far as its replicas count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'a> {
    pub(super) name: &'a str,
    pub(super) asked: Replicas,
    /// How many it is to have now.
    pub(super) current: i64,
}

impl Share {
    /// Parses the field.
    pub(super) fn parse(field: &str, given: &IntOrString) -> Result<Self, Fault> {
        let wrong = |given: &dyn std::fmt::Display| {
            Fault::new(field, format!("is {given}: give a number from 0 on, or a share from 0% to 100%"))
        };
        match given {
            IntOrString::Int(number) if *number >= 0 => Ok(Self::Number(i64::from(*number))),
            IntOrString::Int(number) => Err(wrong(number)),
            IntOrString::String(text) => {
                part(text).map(|percent| Self::Percent(percent.into())).ok_or_else(|| wrong(text))
            }
        }
    }

    /// Number of pods out of `total`, rounded to the nearest.
    pub(super) fn of(self, total: i64) -> i64 {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => total.saturating_mul(percent).saturating_add(50) / 100,
        }
    }
}

impl Replicas {
    /// Tells whether the subset has a least or a largest number.
    pub(super) fn is_bounded(self) -> bool {
        self.least.is_some() || self.most.is_some()
    }
}

/// Finds out how many pods each subset has.
pub(super) fn allocate(replicas: i64, claims: &[Claim<'_>]) -> Result<BTreeMap<String, i64>, Fault> {
    if claims.iter().any(|claim| claim.asked.is_bounded()) {
        return in_order(replicas, claims);
    }
    let mut all = BTreeMap::new();
    let mut given: i64 = 0;
    for claim in claims {
        let number = claim.asked.share.map_or(0, |share| share.of(replicas));
        given = given.saturating_add(number);
        all.insert(claim.name.to_owned(), number);
    }
    if given > replicas {
        let why = format!(
            "have {given} replicas together, more than the {replicas} of spec.replicas: give less of them, or more \
             there"
        );
        return Err(Fault::new(FIELD, why));
    }
    let rest = replicas.saturating_sub(given);
    let mut open: Vec<&Claim<'_>> = claims.iter().filter(|claim| claim.asked.share.is_none()).collect();
    let Ok(count) = i64::try_from(open.len()) else { return Ok(all) };
    if count == 0 {
        if rest == 0 {
            return Ok(all);
        }
        let why = format!(
            "have {given} replicas together, less than the {replicas} of spec.replicas: leave them out in one subset, \
             or give as many"
        );
        return Err(Fault::new(FIELD, why));
    }
    open.sort_by_key(|claim| (claim.current, claim.name));
    let (each, more) = (rest / count, rest % count);
    // Those with the most pods keep the most, so that as few as possible move.
    for (claim, left) in open.iter().rev().zip((0..=more).rev().chain(std::iter::repeat(0))) {
        all.insert(claim.name.to_owned(), each.saturating_add(i64::from(left > 0)));
    }
    Ok(all)
}

/// Gives each subset, in the order of the list, its least number, and then each, in the same order, what it
/// may have beyond it. So new pods go to the first subset with room, and the last one loses the first pods.
fn in_order(replicas: i64, claims: &[Claim<'_>]) -> Result<BTreeMap<String, i64>, Fault> {
    let mut all = BTreeMap::new();
    let mut left = replicas.max(0);
    for claim in claims {
        let least = claim.asked.least.map_or(0, |least| least.of(replicas)).min(left);
        left = left.saturating_sub(least);
        all.insert(claim.name.to_owned(), least);
    }
    for claim in claims {
        let Some(number) = all.get_mut(claim.name) else { continue };
        let room = claim.asked.most.map_or(left, |most| most.of(replicas).saturating_sub(*number));
        let more = room.min(left).max(0);
        left = left.saturating_sub(more);
        *number = number.saturating_add(more);
    }
    if left == 0 {
        return Ok(all);
    }
    let why = format!(
        "all have maxReplicas, and {left} of the {replicas} of spec.replicas have no place: leave it out in one subset"
    );
    Err(Fault::new(FIELD, why))
}
