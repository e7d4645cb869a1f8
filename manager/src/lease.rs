//! Who leads: one replica of several, elected by a Lease of the cluster.
//!
//! The algorithm is that of Kubernetes' own components (client-go's leader election): the lease's holder renews it, every
//! change of it is made on the version that was read, and another replica takes it over when it has seen no change of it
//! for the lease's whole duration *by its own clock*. So no clocks of two machines are ever compared, and a holder that
//! gives the lease up is followed within one retry.
//!
//! Decisions are in [`decision`]; here are the requests. What follows from holding the lease is asked of a [`Tenure`],
//! which ends by itself when it is not prolonged: a leader that cannot reach the API server stops before another begins.

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
use crate::{metrics::Metrics, telemetry::chain};

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
    /// Pause between two attempts: 2 s of 15 s.
    fn retry(&self) -> Duration {
        self.duration * 2 / 15
    }

    /// An attempt without an answer is given up, in time for another one.
    fn answer_within(&self) -> Duration {
        self.renew_within() / 2
    }

    /// A leader that could not renew for so long stops: 10 s of 15 s. The rest is the margin to its successor.
    fn renew_within(&self) -> Duration {
        self.duration * 2 / 3
    }
}

/// Whether this replica leads, now and later. A clone is about the same lease.
#[derive(Clone, Debug)]
pub struct Tenure(watch::Receiver<Option<Instant>>);

impl Tenure {
    /// May this replica write?
    pub fn holds(&self) -> bool {
        self.0.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Comes back when the lease was taken, renewed or lost; never, when that cannot happen any more. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// One that ends as its sender says.
    #[cfg(test)]
    pub(crate) fn of_test() -> (watch::Sender<Option<Instant>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }
}

/// Takes part in the election.
#[derive(Debug)]
pub struct Candidate {
    api: Api<Lease>,
    terms: Terms,
    metrics: Metrics,
    tenure: watch::Sender<Option<Instant>>,
    /// The lease as last read or written.
    lease: Option<Lease>,
    observed: Option<Observed>,
}

impl Candidate {
    /// One that takes part from [`Candidate::run`] on.
    pub fn new(client: Client, terms: Terms, metrics: Metrics) -> (Self, Tenure) {
        let (sender, receiver) = watch::channel(None);
        let api = Api::namespaced(client, &terms.namespace);
        let candidate = Self { api, terms, metrics, tenure: sender, lease: None, observed: None };
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
            let failure = match timeout(self.terms.answer_within(), self.attempt()).await {
                Ok(Ok(held)) => {
                    self.tell(held.then(|| begun + self.terms.renew_within()));
                    None
                }
                Ok(Err(error)) => Some(chain(&error)),
                Err(_) => Some("no answer".to_owned()),
            };
            if let Some(error) = &failure {
                self.metrics.lease_failed();
                // Said once for each outage and cause.
                if said.as_ref() != Some(error) {
                    warn!(lease = self.terms.name, error, "Lease not taken or renewed");
                }
                let until = *self.tenure.borrow();
                if until.is_some_and(|until| until <= Instant::now()) {
                    self.tell(None);
                }
            }
            said = failure;
            sleep(self.terms.retry()).await;
        }
    }

    fn tell(&self, until: Option<Instant>) {
        let led = self.tenure.send_replace(until).is_some();
        self.metrics.leads(until.is_some());
        match (led, until.is_some()) {
            (false, true) => info!(lease = self.terms.name, identity = self.terms.identity, "Leads"),
            (true, false) => {
                warn!(lease = self.terms.name, identity = self.terms.identity, "Leads no longer")
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
