//! The watches: what the API server shows, in the index's words. Conversion only; nothing is decided here.

use std::{pin::pin, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event},
};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::{
    metrics::Metrics,
    seen::{Kind, Object},
    telemetry::chain,
    wire::{Watchable, Watched},
};

/// Event of the objects of a kind.
#[derive(Debug)]
pub enum Input {
    /// All of them follow.
    ListBegins(Kind),
    /// One is as given.
    Apply(Object),
    /// One is gone.
    Delete {
        /// Its kind.
        kind: Kind,
        /// Its namespace, empty for nodes.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// That were all.
    ListEnds(Kind),
    /// The API server does not have the kind. It is looked for again.
    Absent(Kind),
    /// The watch broke, and is being tried again.
    Broke(Kind),
}

/// Pauses between attempts to reach the API server; the last one is repeated. Ours and not the watcher's own:
/// that begins anew before every list, so it would never grow while lists fail.
pub(crate) const PAUSES: [Duration; 5] = [
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
];
/// The pause before a kind is looked for again that is not installed: nobody waits for it but who installs
/// it.
pub(crate) const ABSENT_PAUSE: Duration = Duration::from_secs(10);
/// How long one watch request lasts. A connection that died without a word is noticed 5 s after it.
pub(crate) const WATCH_SECONDS: u32 = 60;

/// Watches all objects of a kind, for ever. Ends when nobody receives any more.
pub async fn follow<W>(client: Client, inputs: mpsc::Sender<Input>, metrics: Metrics)
where
    W: Watchable,
    Watched<W>: Resource<DynamicType = ()>,
{
    let kind = W::KIND;
    let api: Api<Watched<W>> = Api::all(client);
    // Lists are read in pages of 500.
    let config = watcher::Config::default().timeout(WATCH_SECONDS);
    let mut events = pin!(watcher::watcher(api, config));
    // Said once for each outage and cause, not once for each attempt.
    let mut broken: Option<String> = None;
    let mut failures = 0;
    while let Some(event) = events.next().await {
        let mut pause = None;
        let input = match event {
            Ok(event) => input::<W>(event),
            Err(error) => {
                let (absent, text) = (is_absent(&error), chain(&error));
                if broken.as_ref() != Some(&text) {
                    lost::<W>(absent, &text);
                    broken = Some(text);
                }
                if absent {
                    pause = Some(ABSENT_PAUSE);
                    Input::Absent(kind)
                } else {
                    metrics.watch_failed(kind);
                    pause = Some(PAUSES[failures.min(PAUSES.len() - 1)]);
                    failures += 1;
                    Input::Broke(kind)
                }
            }
        };
        // That a list begins is only an intention.
        if pause.is_none() && !matches!(input, Input::ListBegins(_)) {
            failures = 0;
            if broken.take().is_some() {
                info!(kind = kind.name(), "Watch follows again");
            }
        }
        if inputs.send(input).await.is_err() {
            return;
        }
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }
}

/// The API server has no such path: the kind's definition is not there, or gone.
pub(crate) fn is_absent(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
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
        Event::InitApply(object) | Event::Apply(object) => Input::Apply(object.into_object()),
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
