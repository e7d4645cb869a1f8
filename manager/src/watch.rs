//! The watches: what the API server shows, in the index's words. Conversion only; nothing is decided here.

mod lists;

use std::pin::pin;

use berth_base::ownership::Ownership;
use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event},
};
use tokio::{sync::mpsc, task::JoinSet};
use tracing::{info, warn};

pub use self::lists::{Lists, Relists};
use crate::{
    metrics::Metrics,
    reads::{PAGE, SMALL_PAGE},
    store::{Kind, Object},
    wire::{Watchable, Watched},
};
pub(crate) use berth_base::outage::{Failure, Outage, is_too_old};

/// Event of the objects of a kind.
#[derive(Debug)]
pub enum Input {
    /// All of them follow.
    ListBegins(Kind),
    /// One is as given. It is large beside the others.
    Apply(Box<Object>),
    /// One is gone.
    Delete {
        /// Its kind.
        kind: Kind,
        /// Its namespace, empty for nodes.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The list has ended.
    ListEnds(Kind),
    /// The API server does not have the kind. It is looked for again.
    Absent(Kind),
    /// The watch broke, and is being tried again.
    Broke(Kind),
}

/// How long one watch request lasts. A connection that died without a word is noticed 5 s after it.
pub(crate) const WATCH_SECONDS: u32 = 60;

/// Connections of the watches.
pub(crate) struct Follower {
    pub(crate) client: Client,
    /// Queue of the index.
    pub(crate) inputs: mpsc::Sender<Input>,
    /// Counts of broken watches.
    pub(crate) metrics: Metrics,
    /// Owner of each kind that OpenKruise has as well.
    pub(crate) ownership: Ownership,
    /// Lists that are asked for, and places for them.
    pub(crate) lists: Lists,
}

impl Follower {
    /// Watches all objects of a kind. One that is left to OpenKruise is as one that is not installed.
    pub(crate) fn follow<W>(&self, watches: &mut JoinSet<()>)
    where
        W: Watchable,
        Watched<W>: Resource<DynamicType = ()>,
    {
        let inputs = self.inputs.clone();
        if W::SHARED.is_none_or(|kind| self.ownership.has(kind)) {
            let (client, metrics) = (self.client.clone(), self.metrics.clone());
            watches.spawn(follow::<W>(client, inputs, metrics, self.lists.clone()));
        } else {
            watches.spawn(leave(W::KIND, inputs));
        }
    }
}

/// Shows that there is nothing of a kind, and nothing ever after. Ends when nobody receives any more.
async fn leave(kind: Kind, inputs: mpsc::Sender<Input>) {
    info!(kind = kind.name(), "Kind is left to OpenKruise");
    if inputs.send(Input::Absent(kind)).await.is_ok() {
        inputs.closed().await;
    }
}

/// Watches all objects of a kind, for ever. Ends when nobody receives any more.
pub async fn follow<W>(client: Client, inputs: mpsc::Sender<Input>, metrics: Metrics, mut lists: Lists)
where
    W: Watchable,
    Watched<W>: Resource<DynamicType = ()>,
{
    let kind = W::KIND;
    let api: Api<Watched<W>> = Api::all(client);
    let page = if W::IS_LARGE { SMALL_PAGE } else { PAGE };
    let config = watcher::Config::default().timeout(WATCH_SECONDS).page_size(page);
    let mut events = pin!(watcher::watcher(api.clone(), config.clone()));
    let mut outage = Outage::default();
    let (mut is_listing, mut place) = (true, None);
    loop {
        if W::IS_LARGE && is_listing && place.is_none() {
            place = lists.place().await;
        }
        // Cancel-safe: the stream keeps what it has not given, and what was asked for stays asked for.
        let event = tokio::select! {
            event = events.next() => event,
            () = lists.asked(kind), if !is_listing => {
                events.set(watcher::watcher(api.clone(), config.clone()));
                is_listing = true;
                continue;
            }
        };
        let Some(event) = event else { return };
        let mut pause = None;
        let input = match event {
            Ok(event) => input::<W>(event),
            Err(error) => {
                if is_too_old(&error) {
                    events.set(watcher::watcher(api.clone(), config.clone()));
                }
                let failure = outage.fails(&error);
                if let Some(text) = &failure.news {
                    lost::<W>(failure.absent, text);
                }
                pause = Some(failure.pause);
                if failure.absent {
                    Input::Absent(kind)
                } else {
                    metrics.watch_failed(kind);
                    Input::Broke(kind)
                }
            }
        };
        // That a list begins is only an intention.
        if pause.is_none() && !matches!(input, Input::ListBegins(_)) && outage.ends() {
            info!(kind = kind.name(), "Watch follows again");
        }
        match &input {
            Input::ListBegins(_) => is_listing = true,
            Input::ListEnds(_) => (is_listing, place) = (false, None),
            _ => {}
        }
        if inputs.send(input).await.is_err() {
            return;
        }
        if let Some(pause) = pause {
            // Others may list meanwhile.
            place = None;
            tokio::time::sleep(pause).await;
        }
    }
}

fn lost<W: Watchable>(absent: bool, error: &str) {
    let kind = W::KIND.name();
    if absent {
        let definition = format!("{kind}.{}", W::GROUP);
        warn!(
            kind,
            definition, "Kind is not installed, its objects wait; apply the definition (deploy/crds)"
        );
    } else {
        warn!(kind, error, "Watch lost, what it showed stays");
    }
}

fn input<W: Watchable>(event: Event<Watched<W>>) -> Input {
    match event {
        Event::Init => Input::ListBegins(W::KIND),
        Event::InitDone => Input::ListEnds(W::KIND),
        Event::InitApply(object) | Event::Apply(object) => Input::Apply(Box::new(object.into_object())),
        Event::Delete(object) => {
            let meta = object.meta();
            Input::Delete {
                kind: W::KIND,
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
            }
        }
    }
}

#[cfg(test)]
mod tests;
