//! Owners of the kinds that OpenKruise has as well, followed for as long as a program runs: two programs that
//! decide on the same kinds fight over them.
//!
//! Where the configuration does not say whose they are, they are left to an OpenKruise that decides, whenever
//! it comes, and are Berth's when it has gone. A program works for one ownership at a time: when that
//! changes it ends its work as for a stop, and begins anew.

mod look;
mod signs;

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, anyhow};
use kube::Client;
use prometheus_client::{metrics::gauge::Gauge, registry::Registry};
use tokio::{net::TcpListener, task::JoinError, time::sleep};
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::{
    look::{Look, Verdict},
    signs::Broken,
};
use crate::{
    http::{self, Check, Pages},
    ownership::Ownership,
    signals::Signals,
};

/// Pause between two looks before anything has begun.
const PAUSE: Duration = Duration::from_secs(2);
/// Pause between two looks while an OpenKruise owns the kinds, or may: that it has gone shows only in time.
const WATCH_INTERVAL: Duration = Duration::from_secs(5);
const LEFT: &str = "An OpenKruise decides: the kinds that both have are left to it; stop its manager, or say \
                    with --ownership whose they are";
const TWO: &str = "An OpenKruise decides on the same kinds; stop its manager, or this one";

/// Registers the metric that says whether the kinds are left to an OpenKruise, for as long as the program
/// works for one ownership.
pub fn register(registry: &mut Registry, ownership: Ownership) {
    let gauge = Gauge::<i64>::default();
    gauge.set(i64::from(ownership.yields()));
    let help = "1 while an OpenKruise decides and the kinds that both have are left to it; 0 where the \
                configuration says whose they are";
    registry.register("yields", help, gauge);
}

/// Follows whose the kinds are.
pub struct Owners {
    /// Ownership that was configured.
    asked: Ownership,
    look: Look,
    /// An OpenKruise decides; `None` while that is not known.
    decides: Option<bool>,
    /// The last look found none: only a change can make another verdict.
    settled: bool,
}

impl Owners {
    /// Owners as they are configured, and as the cluster shows them where they are not.
    pub fn new(client: &Client, asked: Ownership) -> Self {
        Self { asked, look: Look::new(client), decides: None, settled: false }
    }

    /// Comes back with the ownership as it is now, as soon as it is known; with nothing when the program is
    /// told to end first. A page of health says meanwhile what is missing.
    ///
    /// # Errors
    ///
    /// When the address of the page cannot be had.
    pub async fn known(
        &mut self,
        page: SocketAddr,
        signals: &mut Signals,
    ) -> anyhow::Result<Option<Ownership>> {
        if self.asked.detects() && self.decides.is_none() {
            let listener = TcpListener::bind(page).await.context("--health-address")?;
            let stop = CancellationToken::new();
            let missing = "it is not known yet whether an OpenKruise decides";
            let checks = Box::new(move || vec![Check { name: "ownership", done: false, missing }]);
            let served = tokio::spawn(http::serve(listener, Pages::Health(checks), stop.clone()));
            // Cancel-safe: nothing has been begun.
            let told = signals.tell_before(self.learn()).await;
            stop.cancel();
            served.await.context("the page of health")?;
            if told {
                return Ok(None);
            }
        }
        Ok(Some(self.asked.beside(self.decides == Some(true))))
    }

    async fn learn(&mut self) {
        while self.decides.is_none() {
            self.decides = self.take().await;
            if self.decides.is_none() {
                sleep(PAUSE).await;
            }
        }
    }

    /// Comes back when the kinds have changed hands. Where they are configured they never do; then it says
    /// when an OpenKruise decides although all of them are Berth's. Cancel-safe: what was seen is kept.
    pub async fn changed(&mut self) {
        if !self.asked.detects() && !self.asked.has_all() {
            std::future::pending::<()>().await;
        }
        let mut signs = None;
        loop {
            signs = self.settled.then(|| self.look.signs(signs.take()));
            let told = match &mut signs {
                Some(signs) => signs.changed().await,
                None => Err(Broken),
            };
            if told.is_err() {
                signs = None;
                sleep(WATCH_INTERVAL).await;
            }
            let decides = self.take().await;
            let changed = self.asked.detects() && decides != self.decides;
            self.decides = decides;
            if changed {
                return;
            }
        }
    }

    /// Looks once, says what is new, and returns whether an OpenKruise decides.
    async fn take(&mut self) -> Option<bool> {
        let verdict = self.look.take().await;
        self.settled = verdict == Some(Verdict::Free);
        let next = next(self.decides, verdict.as_ref());
        match verdict {
            Some(Verdict::Decides(by)) => self.look.say(by, if self.asked.detects() { LEFT } else { TWO }),
            Some(Verdict::Free) => self.look.forget(),
            Some(Verdict::Unclear) | None => {}
        }
        if self.decides == Some(true) && next == Some(false) {
            info!("No OpenKruise decides any more");
        }
        next
    }
}

/// End of what a program does for one ownership.
#[derive(Debug)]
pub enum End {
    /// It was told to end.
    Told,
    /// The kinds have changed hands.
    OtherOwner,
    /// One of its tasks ended by itself.
    Task(Option<Result<(), JoinError>>),
}

impl End {
    /// Tells whether the program begins anew.
    ///
    /// # Errors
    ///
    /// Where a task ended by itself: none ever should.
    pub fn goes_on(self) -> anyhow::Result<bool> {
        match self {
            Self::Told => Ok(false),
            Self::OtherOwner => Ok(true),
            Self::Task(Some(Err(error))) => Err(error).context("a task ended before it was told to"),
            Self::Task(Some(Ok(())) | None) => Err(anyhow!("a task ended before it was told to")),
        }
    }
}

/// Tells whether an OpenKruise decides, after a look: what is not clear changes nothing.
fn next(before: Option<bool>, verdict: Option<&Verdict>) -> Option<bool> {
    match verdict {
        Some(Verdict::Free) => Some(false),
        Some(Verdict::Decides(_)) => Some(true),
        Some(Verdict::Unclear) | None => before,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::ownership::SharedKind;

    /// From what is known and looks to what is known.
    #[rstest]
    #[case::nothing_is_known(None, &[], None)]
    #[case::no_answer(None, &[None], None)]
    #[case::not_clear(None, &[Some("?"), None], None)]
    #[case::none_is_there(None, &[Some("?"), Some("-")], Some(false))]
    #[case::one_is_there(None, &[Some("kruise")], Some(true))]
    #[case::one_comes(Some(false), &[Some("-"), Some("kruise")], Some(true))]
    #[case::one_may_have_come(Some(false), &[Some("?")], Some(false))]
    #[case::one_may_have_gone(Some(true), &[Some("?")], Some(true))]
    #[case::no_answer_is_no_end(Some(true), &[None, None], Some(true))]
    #[case::it_goes(Some(true), &[Some("?"), Some("-")], Some(false))]
    #[case::it_comes_back(Some(true), &[Some("-"), Some("kruise")], Some(true))]
    fn what_is_clear_counts(
        #[case] before: Option<bool>,
        #[case] looks: &[Option<&str>],
        #[case] expected: Option<bool>,
    ) {
        let verdict = |look: &str| match look {
            "-" => Verdict::Free,
            "?" => Verdict::Unclear,
            by => Verdict::Decides(by.to_owned()),
        };
        let after = looks.iter().fold(before, |known, look| next(known, look.map(verdict).as_ref()));
        assert_eq!(after, expected);
    }

    /// The configuration counts, whatever runs.
    #[rstest]
    #[case::detect("detect", false, true, true)]
    #[case::detect_beside("detect", true, false, false)]
    #[case::berth("berth", true, true, true)]
    #[case::one_is_left("berth,CloneSet=openkruise", true, false, true)]
    #[case::one_is_ours("openkruise,CloneSet=berth", true, true, false)]
    #[case::none_is_ours("openkruise", false, false, false)]
    fn kinds_beside_an_openkruise(
        #[case] asked: &str,
        #[case] decides: bool,
        #[case] clone_sets: bool,
        #[case] sidecar_sets: bool,
    ) {
        let ownership = asked.parse::<Ownership>().unwrap().beside(decides);
        assert_eq!(ownership.has(SharedKind::CloneSet), clone_sets);
        assert_eq!(ownership.has(SharedKind::SidecarSet), sidecar_sets);
    }
}
