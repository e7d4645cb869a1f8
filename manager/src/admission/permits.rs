//! Permits for requests to recreate containers, which the manager asks for before it assigns one: the same
//! answer, from the same budgets, as to anybody else who makes a pod unavailable.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::budgets::Guard;
use crate::{
    lease::Tenure,
    requests::{Ask, Reply},
    steps::{self, Queued},
};

impl Queued for Ask {
    fn namespace(&self) -> &Arc<str> {
        &self.id.key.namespace
    }
}

/// Answers until nobody asks.
pub(super) async fn give(
    guard: Arc<Guard>,
    tenure: Tenure,
    asks: mpsc::UnboundedReceiver<Ask>,
    replies: mpsc::Sender<Reply>,
) {
    steps::each(asks, |ask| {
        let (guard, tenure, replies) = (guard.clone(), tenure.clone(), replies.clone());
        async move {
            // Whoever leads now asks for itself.
            if !tenure.holds() {
                return;
            }
            let said = guard.permit(&ask).await;
            // Its reader has ended.
            let _ = replies.send(Reply { ask, said }).await;
        }
    })
    .await;
}
