//! Leader election: one replica of several, by a Lease of the cluster.
//!
//! The algorithm is that of Kubernetes' own components (client-go's leader election). The lease's holder
//! renews it, and every change of it is made on the version that was read. Another replica takes it over when
//! it has seen no change of it for the lease's whole duration *by its own clock*. So no clocks of two
//! machines are ever compared, and a holder that gives the lease up is followed within one retry.
//!
//! Decisions are in `decision`; here are the requests. What follows from holding the lease is asked of a
//! [`Tenure`], which ends by itself when it is not prolonged: a leader that cannot reach the API server stops
//! before another begins.

mod decision;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::decision::{Move, Observed};
use crate::{telemetry::chain, time::later_timer};

/// Which lease, for whom, and for how long.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// This replica; no other may have the same.
    pub identity: String,
    /// How long after its last sign of life a leader is followed.
    pub duration: Duration,
}

impl Terms {
    /// Pause before the next attempt, after one that ended so.
    fn pause(&self, last: Attempt) -> Duration {
        match last {
            // Each renewal is a write to etcd, and wakes a program that has nothing to do: 3 s of 15 s.
            Attempt::Holds => self.duration / 5,
            // One that is given up is followed soon: 2 s of 15 s.
            Attempt::Waits => self.duration * 2 / 15,
            Attempt::Failed => self.duration / 15,
        }
    }

    /// An attempt without an answer is given up, in time for another one.
    fn answer_within(&self) -> Duration {
        self.renew_within() / 2
    }

    /// A leader that could not renew for so long stops: 10 s of 15 s. The rest is the margin to its
    /// successor.
    fn renew_within(&self) -> Duration {
        self.duration * 2 / 3
    }
}

/// End of an attempt to hold the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// This replica holds it.
    Holds,
    /// Another one does.
    Waits,
    /// It is not known who does.
    Failed,
}

/// Whether this replica leads, now and later. A clone is about the same lease.
#[derive(Clone, Debug)]
pub struct Tenure(watch::Receiver<Option<Term>>);

/// One term of a leader, from taking the lease to losing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Counts the terms of this replica. Between two of them it did not lead, however short that was.
    number: u64,
    /// It ends then, if it is not prolonged.
    until: Instant,
}

impl Tenure {
    /// May this replica write?
    pub fn holds(&self) -> bool {
        self.term().is_some()
    }

    /// The number of the term it is in, if it may write.
    pub fn term(&self) -> Option<u64> {
        self.0.borrow().filter(|term| Instant::now() < term.until).map(|term| term.number)
    }

    /// Comes back when the lease was taken, renewed or lost; never, when that cannot happen any more.
    /// Cancel-safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// One that ends as its sender says.
    #[cfg(feature = "testing")]
    pub fn of_test() -> (watch::Sender<Option<Term>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }
}

impl Term {
    /// A first term.
    #[cfg(feature = "testing")]
    pub fn of_test(until: Instant) -> Self {
        Self { number: 0, until }
    }

    /// The term after an attempt that holds the lease until then.
    fn next(before: Option<Self>, terms: u64, until: Instant, now: Instant) -> Self {
        let goes_on = before.filter(|before| now < before.until);
        Self { number: goes_on.map_or(terms, |before| before.number), until }
    }
}

/// Counters of an election.
pub trait Counters: Send + 'static {
    /// The lease could not be taken or renewed.
    fn lease_failed(&self);
    /// Tells whether this replica leads now.
    fn leads(&self, leads: bool);
}

/// Takes part in the election.
#[derive(Debug)]
pub struct Candidate<C> {
    api: Api<Lease>,
    terms: Terms,
    metrics: C,
    tenure: watch::Sender<Option<Term>>,
    /// How many terms there have been.
    terms_so_far: u64,
    /// The lease as last read or written.
    lease: Option<Lease>,
    observed: Option<Observed>,
}

impl<C: Counters> Candidate<C> {
    /// One that takes part from [`Candidate::run`] on.
    pub fn new(client: Client, terms: Terms, metrics: C) -> (Self, Tenure) {
        let (sender, receiver) = watch::channel(None);
        let api = Api::namespaced(client, &terms.namespace);
        let candidate =
            Self { api, terms, metrics, tenure: sender, terms_so_far: 0, lease: None, observed: None };
        (candidate, Tenure(receiver))
    }

    /// Takes part until the shutdown, and gives the lease up then.
    pub async fn run(mut self, shutdown: CancellationToken) {
        // Cancel-safe: an attempt whose answer is not waited for is as one whose answer was lost.
        shutdown.run_until_cancelled(self.take_part()).await;
        self.give_up().await;
    }

    async fn take_part(&mut self) {
        let mut said = None;
        loop {
            let begun = Instant::now();
            let (last, failure) = match timeout(self.terms.answer_within(), self.attempt()).await {
                Ok(Ok(held)) => {
                    self.tell(held.then(|| later_timer(begun, self.terms.renew_within())));
                    (if held { Attempt::Holds } else { Attempt::Waits }, None)
                }
                Ok(Err(error)) => (Attempt::Failed, Some(chain(&error))),
                Err(_) => (Attempt::Failed, Some("no answer".to_owned())),
            };
            if let Some(error) = &failure {
                self.metrics.lease_failed();
                // Said once for each outage and cause.
                if said.as_ref() != Some(error) {
                    warn!(lease = self.terms.name, error, "Lease not taken or renewed");
                }
                let term = *self.tenure.borrow();
                if term.is_some_and(|term| term.until <= Instant::now()) {
                    self.tell(None);
                }
            }
            said = failure;
            sleep(self.terms.pause(last)).await;
        }
    }

    fn tell(&mut self, until: Option<Instant>) {
        let before = *self.tenure.borrow();
        let term = until.map(|until| Term::next(before, self.terms_so_far, until, Instant::now()));
        if term.is_some_and(|term| term.number == self.terms_so_far) {
            self.terms_so_far += 1;
        }
        let led = self.tenure.send_replace(term).is_some();
        self.metrics.leads(until.is_some());
        match (led, until.is_some()) {
            (false, true) => info!(lease = self.terms.name, identity = self.terms.identity, "Leads"),
            (true, false) => {
                warn!(lease = self.terms.name, identity = self.terms.identity, "Leads no longer");
            }
            _ => {}
        }
    }

    /// One attempt; whether this replica holds the lease after it.
    async fn attempt(&mut self) -> kube::Result<bool> {
        // The holder writes on what it wrote last, everybody else looks first.
        let ours = self.lease.take().filter(|lease| decision::holder(lease) == Some(&self.terms.identity));
        let lease = match ours {
            Some(lease) => lease,
            None => match self.api.get_opt(&self.terms.name).await? {
                Some(lease) => lease,
                None => return self.created().await,
            },
        };
        let observed = Observed::next(self.observed.take(), &lease, Instant::now());
        let next = decision::decide(&lease, &observed, &self.terms, Instant::now());
        self.observed = Some(observed);
        match next {
            Move::Wait => Ok(false),
            Move::Renew => self.written(decision::renewed(lease, &self.terms, Timestamp::now())).await,
            Move::Take => self.written(decision::taken(lease, &self.terms, Timestamp::now())).await,
        }
    }

    async fn created(&mut self) -> kube::Result<bool> {
        let lease = Lease {
            metadata: ObjectMeta { name: Some(self.terms.name.clone()), ..ObjectMeta::default() },
            spec: Some(LeaseSpec::default()),
        };
        let lease = decision::taken(lease, &self.terms, Timestamp::now());
        let written = self.api.create(&PostParams::default(), &lease).await;
        self.settle(written)
    }

    async fn written(&mut self, lease: Lease) -> kube::Result<bool> {
        let written = self.api.replace(&self.terms.name, &PostParams::default(), &lease).await;
        self.settle(written)
    }

    fn settle(&mut self, written: kube::Result<Lease>) -> kube::Result<bool> {
        match written {
            Ok(lease) => {
                self.lease = Some(lease);
                Ok(true)
            }
            // Somebody was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A successor need not wait for the end of a lease that is given up.
    async fn give_up(self) {
        self.metrics.leads(false);
        if self.tenure.send_replace(None).is_none() {
            return;
        }
        let giving_up = async {
            // Read again: the last renewal may have been cut short.
            let lease = self.api.get(&self.terms.name).await?;
            if decision::holder(&lease) == Some(&self.terms.identity) {
                let lease = decision::given_up(lease, Timestamp::now());
                self.api.replace(&self.terms.name, &PostParams::default(), &lease).await?;
            }
            Ok::<_, kube::Error>(())
        };
        match timeout(self.terms.answer_within(), giving_up).await {
            Ok(Ok(())) => info!(lease = self.terms.name, "Lease given up"),
            Ok(Err(error)) => warn!(lease = self.terms.name, error = chain(&error), "Lease not given up"),
            Err(_) => warn!(lease = self.terms.name, "Lease not given up in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One renewal without an answer costs no leader its lease.
    #[test]
    fn there_is_time_for_a_second_attempt() {
        let terms = Terms {
            namespace: "n".to_owned(),
            name: "l".to_owned(),
            identity: "a".to_owned(),
            duration: Duration::from_secs(15),
        };
        let second = terms.pause(Attempt::Holds) + terms.answer_within() + terms.pause(Attempt::Failed);
        assert_eq!((second, terms.renew_within()), (Duration::from_secs(9), Duration::from_secs(10)));
    }

    /// Writes are dropped between two terms, so that there was such a time must not go unnoticed.
    #[test]
    fn a_term_that_was_not_prolonged_in_time_is_another_one() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let first = Term::next(None, 0, start + 10 * second, start);
        let prolonged = Term::next(Some(first), 1, start + 12 * second, start + 2 * second);
        assert_eq!((first.number, prolonged.number), (0, 0));
        let late = Term::next(Some(prolonged), 1, start + 22 * second, start + 12 * second);
        assert_eq!(late.number, 1);
    }
}
