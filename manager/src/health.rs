//! Readiness of this replica. It is ready when every kind has been listed once, or is known not to be
//! installed: then it could lead at once. And when its admission server, if it has one, could answer.

use berth_base::http::{Check, Checks};
use tokio::sync::watch;

use crate::store::Kind;

/// The kinds that have been listed, or that there are none of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listed([bool; Kind::ALL.len()]);

impl Listed {
    /// Notes that this kind was listed.
    pub fn add(&mut self, kind: Kind) {
        self.0[kind as usize] = true;
    }

    /// Each kind, and whether it has been.
    pub fn checks(self) -> impl Iterator<Item = (&'static str, bool)> {
        Kind::ALL.into_iter().map(move |kind| (kind.name(), self.0[kind as usize]))
    }
}

/// Readiness of the admission server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admits(Option<Admission>);

#[derive(Clone, Copy, Debug, Default)]
struct Admission {
    certificate: bool,
    listed: bool,
    configured: bool,
}

impl Admits {
    /// An admission server that is not ready yet.
    pub fn waiting() -> Self {
        Self(Some(Admission::default()))
    }

    /// It has a certificate; what it needs has been listed; its webhook configurations stand. The last two
    /// are remembered: what somebody else spoils later takes no replica from the Service.
    pub fn add(&mut self, certificate: bool, listed: bool, configured: bool) {
        let Some(known) = &mut self.0 else { return };
        known.certificate = certificate;
        known.listed |= listed;
        known.configured |= configured;
    }

    /// Each check: its name, whether it passed, and what is missing while it has not.
    pub fn checks(self) -> impl Iterator<Item = (&'static str, bool, &'static str)> {
        self.0.into_iter().flat_map(|known| {
            [
                ("admission-certificate", known.certificate, "no certificate in its Secret"),
                ("admission-sets", known.listed, "SidecarSets and namespaces not listed yet"),
                ("admission-webhooks", known.configured, "webhook configurations not written yet"),
            ]
        })
    }
}

/// Checks of this replica, as they are whenever somebody asks.
pub fn checks(listed: watch::Receiver<Listed>, admits: watch::Receiver<Admits>) -> Checks {
    Box::new(move || {
        let kinds = listed.borrow().checks();
        let kinds = kinds.map(|(name, done)| Check { name, done, missing: "not listed yet" });
        let admission = admits.borrow().checks();
        kinds.chain(admission.map(|(name, done, missing)| Check { name, done, missing })).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_spoil_later_takes_no_replica_away() {
        let failed = |admits: Admits| admits.checks().filter(|(_, done, _)| !done).count();
        assert_eq!(failed(Admits::default()), 0, "there is no admission server");
        let mut admits = Admits::waiting();
        assert_eq!(failed(admits), 3);
        admits.add(true, true, true);
        assert_eq!(failed(admits), 0);
        admits.add(true, false, false);
        assert_eq!(failed(admits), 0);
        admits.add(false, true, true);
        assert_eq!(failed(admits), 1);
    }
}
