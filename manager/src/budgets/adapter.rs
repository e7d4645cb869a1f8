//! The adapter: carries out the steps that the index gives, and tells it what it found.

use std::sync::Arc;

use berth_proto::crd::{PodUnavailableBudget, PodUnavailableBudgetSpec, PodUnavailableBudgetStatus};
use kube::Client;
use tokio::sync::mpsc;

use super::lookup::{Found, Lookup, look_up};
use crate::{
    effect::Effect,
    lease::Tenure,
    steps::{self, Queued, StatusWrite},
    store::Key,
};

/// Step that the index wants.
#[derive(Clone, Debug)]
pub enum Step {
    /// A fact is to be looked up.
    LookUp(Lookup),
    /// A status is to be written.
    Write(Box<BudgetWrite>),
}

/// A write to the status of a budget.
pub type BudgetWrite = StatusWrite<PodUnavailableBudgetSpec, PodUnavailableBudgetStatus>;

impl From<BudgetWrite> for Effect {
    fn from(write: BudgetWrite) -> Self {
        Self::Budget(Step::Write(Box::new(write)))
    }
}

impl Queued for Step {
    fn namespace(&self) -> &Arc<str> {
        match self {
            Self::LookUp(lookup) => &lookup.namespace,
            Self::Write(write) => &write.key.namespace,
        }
    }

    fn object(&self) -> Option<&Key> {
        match self {
            // One is handed out once.
            Self::LookUp(_) => None,
            Self::Write(write) => Some(&write.key),
        }
    }
}

/// A fact that was looked up.
#[derive(Debug)]
pub struct Answer {
    /// Lookup that was asked for.
    pub lookup: Lookup,
    /// Its result.
    pub found: Found,
}

/// Carries out steps until nobody gives any.
pub async fn carry_out(
    client: Client,
    tenure: Tenure,
    steps: mpsc::UnboundedReceiver<Step>,
    answers: mpsc::Sender<Answer>,
) {
    let reads = |step: &Step| matches!(step, Step::LookUp(_));
    steps::reads_and_writes(steps, reads, |step| {
        let (client, tenure, answers) = (client.clone(), tenure.clone(), answers.clone());
        async move {
            match step {
                Step::LookUp(lookup) => {
                    let found = look_up(&client, &lookup).await;
                    // Its reader has ended.
                    let _ = answers.send(Answer { lookup, found }).await;
                }
                Step::Write(order) if tenure.holds() => {
                    let object = |metadata, spec, status| PodUnavailableBudget { metadata, spec, status };
                    steps::write(&client, *order, object).await;
                }
                Step::Write(_) => {}
            }
        }
    })
    .await;
}
