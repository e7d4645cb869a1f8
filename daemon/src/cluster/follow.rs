//! A watch that is begun anew, with a new client where that may help, whenever it breaks.

use std::{pin::pin, time::Duration};

use futures::{TryStreamExt, future::BoxFuture};
use kube::{
    Api, Client,
    runtime::watcher::{self, Event},
};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{
    client::{self, ClientError, Connection},
    pause,
    raw::{Raw, Untyped},
};
use crate::base::causes::chain;

/// How often a kind is looked for when the API server does not have it, or not for us.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Event of a watch.
#[derive(Debug)]
pub(crate) enum Shown<K> {
    /// All objects that there are.
    Listed(Vec<K>),
    /// An object is new, or changed.
    Applied(K),
    /// An object is gone.
    Deleted(K),
    /// The API server does not have the kind, or not the way it is needed. With the remedy.
    NotInstalled(&'static str),
    /// The API server refuses the watch. With its words.
    Refused(String),
    /// The watch broke, and begins again with a list. With the reason.
    Lost(String),
}

/// Description of a watch.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// For people: `ContainerUpdateRequests`.
    pub(crate) what: &'static str,
    /// Watches one object, which may not exist yet.
    pub(crate) single: bool,
    /// Asks again after a refusal as soon as after any other failure, with another client.
    pub(crate) insists: bool,
    /// Which objects.
    pub(crate) selected: watcher::Config,
}

#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("no client of the API server")]
    Client(#[source] ClientError),
    #[error("first question")]
    Prepared(#[source] kube::Error),
    #[error("there is no Node yet, and the object goes with its Node")]
    NoNode,
    #[error("the object is not there")]
    Absent,
    #[error("watch")]
    Watch(#[source] watcher::Error),
    #[error("an object of the watch")]
    Object(#[source] Untyped),
    #[error("the watch ended")]
    Ended,
}

/// Follows for ever. `read` makes of an object what is shown; where it fails the watch is lost, so in a watch
/// of several objects it must not fail for one of them. `prepare` is asked before each watch; false: there is
/// nothing to watch yet. Cancel-safe: dropping it loses nothing that was shown.
pub(crate) async fn follow<'a, K>(
    connection: &Connection,
    watch: &Watch,
    api: impl Fn(Client) -> Api<Raw>,
    read: impl Fn(Raw) -> Result<K, Untyped>,
    prepare: impl Fn(Client) -> BoxFuture<'a, Result<bool, kube::Error>>,
    mut each: impl FnMut(Shown<K>),
) {
    let (mut attempt, mut told) = (0, None);
    loop {
        let mut followed = false;
        let mut tell = |shown: Shown<K>| {
            followed |= shown.follows(watch.single);
            each(shown);
        };
        let lost = once(connection, watch, &api, &read, &prepare, &mut tell).await;
        let text = chain(&lost);
        // What was followed and is lost again is news.
        if followed || told.as_ref() != Some(&text) {
            warn!(what = watch.what, error = text, "Watch lost, what it showed stays");
            told = Some(text.clone());
        }
        attempt = if followed { 0 } else { attempt + 1 };
        let pause = match lost.refusal(watch) {
            Some(403) => {
                each(Shown::Refused(text));
                LOOK_AGAIN
            }
            Some(400) => {
                each(Shown::NotInstalled(
                    "the kind installed has no selectable field as it is needed: install deploy/crds",
                ));
                LOOK_AGAIN
            }
            Some(_) => {
                each(Shown::NotInstalled("the API server does not know the kind: install deploy/crds"));
                LOOK_AGAIN
            }
            None => {
                each(Shown::Lost(text));
                pause::after(attempt)
            }
        };
        sleep(pause).await;
    }
}

async fn once<'a, K>(
    connection: &Connection,
    watch: &Watch,
    api: &impl Fn(Client) -> Api<Raw>,
    read: &impl Fn(Raw) -> Result<K, Untyped>,
    prepare: &impl Fn(Client) -> BoxFuture<'a, Result<bool, kube::Error>>,
    each: &mut impl FnMut(Shown<K>),
) -> Lost {
    let session = match connection.session().await {
        Ok(session) => session,
        Err(error) => return Lost::Client(error),
    };
    let lost = match prepare(session.client.clone()).await {
        Ok(false) => return Lost::NoNode,
        Ok(true) => follow_in(watch, api(session.client.clone()), read, each).await,
        Err(error) => Lost::Prepared(error),
    };
    // Another client would hear the same.
    if lost.refusal(watch).is_none() && !matches!(lost, Lost::Absent) {
        connection.discard(&session).await;
    }
    lost
}

async fn follow_in<K>(
    watch: &Watch,
    api: Api<Raw>,
    read: &impl Fn(Raw) -> Result<K, Untyped>,
    each: &mut impl FnMut(Shown<K>),
) -> Lost {
    let mut events = pin!(watcher::watcher(api, watch.selected.clone()));
    let mut listed = Vec::new();
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return Lost::Ended,
            Err(error) => return Lost::Watch(error),
        };
        if let Err(lost) = take(watch, event, read, &mut listed, each) {
            return lost;
        }
    }
}

/// Tells what an event shows.
fn take<K>(
    watch: &Watch,
    event: Event<Raw>,
    read: &impl Fn(Raw) -> Result<K, Untyped>,
    listed: &mut Vec<K>,
    each: &mut impl FnMut(Shown<K>),
) -> Result<(), Lost> {
    let absent = match event {
        Event::Init => {
            listed.clear();
            false
        }
        Event::InitApply(object) => {
            listed.push(read(object).map_err(Lost::Object)?);
            false
        }
        Event::InitDone => {
            info!(what = watch.what, objects = listed.len(), "Watch follows");
            let absent = watch.single && listed.is_empty();
            each(Shown::Listed(std::mem::take(listed)));
            absent
        }
        Event::Apply(object) => {
            each(Shown::Applied(read(object).map_err(Lost::Object)?));
            false
        }
        Event::Delete(object) => {
            each(Shown::Deleted(read(object).map_err(Lost::Object)?));
            watch.single
        }
    };
    if absent { Err(Lost::Absent) } else { Ok(()) }
}

impl<K> Shown<K> {
    /// Tells whether the watch follows by this; one of a single object does not while that is missing.
    fn follows(&self, single: bool) -> bool {
        match self {
            Self::Listed(objects) => !(single && objects.is_empty()),
            Self::Applied(_) | Self::Deleted(_) => true,
            Self::NotInstalled(_) | Self::Refused(_) | Self::Lost(_) => false,
        }
    }
}

impl Lost {
    /// Code with which the API server refused it: another client, or haste, would not help.
    fn refusal(&self, watch: &Watch) -> Option<u16> {
        let code = match self {
            Self::Prepared(kube::Error::Api(status)) => Some(status.code),
            Self::Watch(error) => client::watch_refusal(error),
            Self::Client(_)
            | Self::Prepared(_)
            | Self::NoNode
            | Self::Absent
            | Self::Object(_)
            | Self::Ended => None,
        };
        code.filter(|code| !watch.insists && [400, 403, 404].contains(code))
    }
}

#[cfg(test)]
mod tests;
