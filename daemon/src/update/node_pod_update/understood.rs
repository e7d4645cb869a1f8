//! The condition `Understood` of this node's `NodePodUpdate`: every entry can be carried out.
//!
//! It speaks of entries whose owners have been read. While one was not, which takes a moment, what was said
//! before stays: it is neither called understood nor written twice. If its owner could not be read, the
//! condition is Unknown.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

use crate::base::status::{bounded, whole_second};

/// Condition: every entry can be carried out.
const UNDERSTOOD: &str = "Understood";
/// How many entries that cannot be carried out are said.
const MOST_FAULTS: usize = 32;

/// Knowledge of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It can be carried out, or has been.
    Sound,
    /// It cannot, for this reason.
    Faulty(String),
    /// Its owner is to be read first.
    Unjudged,
    /// Its owner could not be read, and is read again.
    Unread,
}

/// The conditions as they are to be, from those that are said and the entries, each with its name.
pub(super) fn understood<'a>(
    said: &[Condition],
    entries: impl IntoIterator<Item = (&'a str, Standing)>,
    now: Timestamp,
) -> Vec<Condition> {
    let (mut faults, mut unread, mut unjudged, mut any) = (Vec::new(), Vec::new(), false, false);
    for (name, standing) in entries {
        any = true;
        match standing {
            Standing::Sound => {}
            Standing::Faulty(why) if faults.len() < MOST_FAULTS => faults.push(format!("{name}: {why}")),
            Standing::Faulty(_) => {}
            Standing::Unread if unread.len() < MOST_FAULTS => unread.push(name),
            Standing::Unread => {}
            Standing::Unjudged => unjudged = true,
        }
    }
    if !any && said.is_empty() {
        return Vec::new();
    }
    let (holds, reason, message) = if !faults.is_empty() {
        ("False", "InvalidEntry", faults.join("; "))
    } else if !unread.is_empty() {
        let message = format!("{}: the owner could not be read, trying again", unread.join(", "));
        ("Unknown", "OwnerNotRead", message)
    } else if unjudged {
        return said.to_vec();
    } else {
        ("True", "Understood", String::new())
    };
    let old = said.iter().find(|old| old.type_ == UNDERSTOOD && old.status == holds);
    vec![Condition {
        type_: UNDERSTOOD.to_owned(),
        status: holds.to_owned(),
        reason: reason.to_owned(),
        message: bounded(&message),
        last_transition_time: old
            .map_or_else(|| Time(whole_second(now)), |old| old.last_transition_time.clone()),
        observed_generation: None,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faulty() -> Standing {
        Standing::Faulty("no such image".to_owned())
    }

    fn said(second: i64, standings: &[Standing]) -> Vec<Condition> {
        after(&[], second, standings)
    }

    fn after(before: &[Condition], second: i64, standings: &[Standing]) -> Vec<Condition> {
        let names = ["a", "b", "c"];
        let now = Timestamp::from_second(second).unwrap();
        understood(before, names.into_iter().zip(standings.iter().cloned()), now)
    }

    #[test]
    fn of_entries() {
        use Standing::{Sound, Unjudged, Unread};
        let table = [
            (vec![], None),
            (vec![Sound, Sound], Some(("True", "Understood", ""))),
            (vec![Sound, faulty()], Some(("False", "InvalidEntry", "b: no such image"))),
            (vec![Sound, Unjudged], None),
            (vec![Unjudged, Unread, faulty()], Some(("False", "InvalidEntry", "c: no such image"))),
            (
                vec![Sound, Unread, Unjudged],
                Some(("Unknown", "OwnerNotRead", "b: the owner could not be read, trying again")),
            ),
        ];
        for (standings, expect) in table {
            let said = said(1, &standings);
            let parts = said.first().map(|said| (&*said.status, &*said.reason, &*said.message));
            assert_eq!(parts, expect, "{standings:?}");
        }
    }

    /// One entry was refused, and another one takes its place: until that is judged nothing new is said.
    #[test]
    fn an_entry_that_nobody_has_judged_is_not_called_understood() {
        let refused = said(1, &[faulty()]);
        assert_eq!(after(&refused, 2, &[Standing::Unjudged]), refused);
        let again = after(&refused, 3, &[Standing::Faulty("no such set".to_owned())]);
        assert_eq!(again[0].message, "a: no such set");
        assert_eq!(again[0].last_transition_time, refused[0].last_transition_time, "it was False before");
        assert_eq!(after(&again, 4, &[Standing::Sound])[0].status, "True");
        assert_eq!(after(&again, 4, &[])[0].status, "True", "nothing is there to be refused");
    }

    #[test]
    fn what_is_said_is_bounded() {
        let many = (0..1000).map(|_| ("name", faulty()));
        let said = understood(&[], many, Timestamp::UNIX_EPOCH);
        assert_eq!(said[0].message.matches("no such image").count(), MOST_FAULTS);
    }
}
