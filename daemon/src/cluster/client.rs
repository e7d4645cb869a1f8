//! Client of the API server: who the agent is there, and its one connection.
//!
//! The pod watch and everything in [`crate::cluster`] share one client. It is made anew from its files after
//! a failure: the kubelet's client certificate is replaced under its name now and then, and kube reads it
//! only once.

mod call;
mod lanes;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use berth_pace::{Pace, limit_silence};
use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{AuthInfo, InClusterError, KubeConfigOptions, KubeconfigError},
};
use tokio::{
    sync::{Mutex, watch},
    time::Instant,
};
use tracing::warn;

pub use self::call::CallError;
pub(super) use self::call::once;
pub(crate) use self::call::watch_refusal;
pub(crate) use self::lanes::Lane;
use self::{
    call::{patience, slowness, within},
    lanes::Lanes,
};
use super::{
    kubeconfig,
    token::{self, Claims, Due, Given, Moment, TokenError},
};
use crate::{
    base::causes::chain,
    config::{Configuration, ServiceAccount},
};

/// Where the address of the API server and an identity come from.
#[derive(Clone, Debug)]
pub struct Source {
    base: Base,
    /// Takes the place of the identity of `base`.
    account: Option<ServiceAccount>,
    /// Its token that was made last.
    given: Arc<Given>,
}

#[derive(Clone, Debug)]
enum Base {
    Kubeconfig(PathBuf),
    /// Configuration that the kubelet gives every pod that has a service account.
    Pod,
}

/// No client can be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No usable kubeconfig.
    #[error("kubeconfig {path:?}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: Box<KubeconfigError>,
    },
    /// The file is no kubeconfig. What is there is not said: lines of it have tokens.
    #[error("kubeconfig {path:?} is none: line {line}")]
    Form {
        /// The file.
        path: PathBuf,
        /// Where it is wrong; 0 where that is not known.
        line: u64,
    },
    /// The service account of this pod cannot be used.
    #[error("the service account of this pod")]
    Pod(#[source] Box<InClusterError>),
    /// The token of the service account cannot be used.
    #[error("cluster.serviceAccount.tokenFile")]
    Token(#[source] TokenError),
    /// They do not make a client.
    #[error("client of the API server")]
    Client(#[source] Box<kube::Error>),
}

/// The client, shared by all who ask. A clone is the same one.
#[derive(Clone, Debug)]
pub struct Connection {
    source: Arc<Source>,
    current: Arc<Mutex<Option<Session>>>,
    /// Counts the clients that were made.
    made: watch::Sender<u64>,
    /// How slow the API server is.
    slow: Arc<AtomicU32>,
    lanes: Arc<Lanes>,
}

/// A client, and which one it is.
#[derive(Clone)]
pub struct Session {
    /// To ask with.
    pub client: Client,
    number: u64,
}

// === impl Source ===

impl Source {
    /// Reads it from the configuration.
    pub fn of(config: &Configuration) -> Self {
        let base = config.pod_view.kubeconfig.clone().map_or(Base::Pod, Base::Kubeconfig);
        Self { base, account: config.cluster.service_account.clone(), given: Arc::default() }
    }

    /// A kubeconfig, with the identity it has.
    pub fn kubeconfig(path: PathBuf) -> Self {
        Self { base: Base::Kubeconfig(path), account: None, given: Arc::default() }
    }

    /// A client with the agent's identity.
    async fn client(&self) -> Result<Client, ClientError> {
        let mut config = self.base_config().await?;
        if let Some(account) = &self.account {
            // Read here only to find what is wrong with it; kube reads it again every minute.
            match token::read(&account.token_file) {
                Ok(token) if account.bound_to_pod && self.has_ended(account, &token) => {
                    return client(config);
                }
                Err(TokenError::Missing(_)) if account.bound_to_pod => return client(config),
                read => read.map_err(ClientError::Token)?,
            };
            let token_file = Some(account.token_file.display().to_string());
            config.auth_info = AuthInfo { token_file, ..AuthInfo::default() };
        }
        client(config)
    }

    /// Says whether the token is of no use any more. What is no token is told by its first use.
    fn has_ended(&self, account: &ServiceAccount, token: &str) -> bool {
        Claims::read(&account.token_file, token).is_ok_and(|claims| self.due(&claims) == Due::Expired)
    }

    /// Takes note of a token of the account that was made now.
    pub(super) fn was_given(&self, claims: &Claims) {
        self.given.note(claims, Moment::now());
    }

    /// The time by which this token is judged now, in seconds since the epoch.
    pub(super) fn second(&self, claims: &Claims) -> i64 {
        self.given.second(claims, Moment::now())
    }

    /// Returns the next action for this token.
    pub(super) fn due(&self, claims: &Claims) -> Due {
        claims.due(self.second(claims))
    }

    /// A client with the identity the service account takes the place of.
    pub(super) async fn base_client(&self) -> Result<Client, ClientError> {
        client(self.base_config().await?)
    }

    async fn base_config(&self) -> Result<Config, ClientError> {
        match &self.base {
            Base::Kubeconfig(path) => {
                let kubeconfig = kubeconfig::read(path)?;
                let options = KubeConfigOptions::default();
                let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                config.map_err(|source| ClientError::Kubeconfig {
                    path: path.clone(),
                    source: Box::new(source),
                })
            }
            Base::Pod => Config::incluster().map_err(|source| ClientError::Pod(Box::new(source))),
        }
    }
}

fn client(mut config: Config) -> Result<Client, ClientError> {
    // The library would repeat a refused call (429) for minutes: who asks decides on that, and says so.
    config.default_retry = false;
    limit_silence(&mut config);
    let builder = ClientBuilder::try_from(config).map_err(|source| ClientError::Client(Box::new(source)))?;
    Ok(builder.with_layer(&Pace).build())
}

// === impl Connection ===

impl Connection {
    /// A connection that makes its client when it is first needed.
    pub fn new(source: Source) -> Self {
        Self {
            source: Arc::new(source),
            current: Arc::default(),
            made: watch::Sender::new(0),
            slow: Arc::default(),
            lanes: Arc::default(),
        }
    }

    /// Returns where its identity comes from.
    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// A number that grows with every client that is made; its identity may be another one.
    pub(super) fn made(&self) -> watch::Receiver<u64> {
        self.made.subscribe()
    }

    /// The client; made anew if there is none.
    pub async fn session(&self) -> Result<Session, ClientError> {
        let mut current = self.current.lock().await;
        if let Some(session) = &*current {
            return Ok(session.clone());
        }
        let client = self.source.client().await?;
        self.made.send_modify(|made| *made += 1);
        let session = Session { client, number: *self.made.borrow() };
        *current = Some(session.clone());
        Ok(session)
    }

    /// Gives up a client that failed: whoever asks next gets a new one, unless somebody else saw it fail
    /// before.
    pub async fn discard(&self, failed: &Session) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|session| session.number == failed.number) {
            *current = None;
        }
    }

    /// Makes a new client: the identity is another one from now on.
    pub(super) async fn renew(&self) {
        *self.current.lock().await = None;
        if let Err(error) = self.session().await {
            warn!(error = chain(&error), "No client of the API server");
        }
    }

    /// Asks one question within the time such a question may take. One that is given up costs the API server
    /// as much as one that it answers, and a write may be carried out all the same: where it is slow, the
    /// next one is waited for longer.
    pub(crate) async fn ask<T, F>(&self, question: impl FnOnce(Client) -> F) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        self.ask_in(Lane::Agent, question).await
    }

    /// Asks it in the lane of its subject. The time that it may take begins with its turn.
    pub(crate) async fn ask_in<T, F>(
        &self,
        lane: Lane,
        question: impl FnOnce(Client) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let _place = self.lanes.enter(lane).await;
        let session = self.session().await.map_err(CallError::NoClient)?;
        let (slow, begun) = (self.slow.load(Ordering::Relaxed), Instant::now());
        let answer = within(patience(slow), question(session.client.clone())).await;
        let in_time = !matches!(answer, Err(CallError::Silent(_)));
        self.slow.store(slowness(slow, in_time.then(|| begun.elapsed())), Ordering::Relaxed);
        if answer.as_ref().is_err_and(CallError::may_be_the_client) {
            self.discard(&session).await;
        }
        answer
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_is_no_kubeconfig_is_told_without_a_word_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        for text in [
            "users:\n- name: a\n  user:\n    token: hunter2\n   oops\n",
            "users:\n- name: a\n  user: hunter2\n",
            "hunter2",
            "users: [{name: a, user: {token: {hunter2: hunter2}}}]\n",
            "users:\n- name: a\n  user:\n    token: hunter2\nclusters: hunter2\n",
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Source::kubeconfig(path.clone()).base_client().await.err().unwrap();
            let error = chain(&error) + &format!("{error:?}");
            assert!(!error.contains("hunter2") && error.contains("kubeconfig"), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_calls_is_under_way_some_at_a_time() {
        use crate::cluster::fake::{Answer, FakeApi};
        use std::{cell::Cell, time::Duration};

        async fn call(under_way: &Cell<u32>, most: &Cell<u32>) -> kube::Result<()> {
            under_way.set(under_way.get() + 1);
            most.set(most.get().max(under_way.get()));
            tokio::time::sleep(Duration::from_millis(10)).await;
            under_way.set(under_way.get() - 1);
            Ok(())
        }

        let api = FakeApi::new(|_| Answer::Refused(404)).await;
        let (under_way, most) = (Cell::new(0), Cell::new(0));
        let calls = (0..800).map(|_| api.connection.ask_in(Lane::Requests, |_| call(&under_way, &most)));
        let answers = futures::future::join_all(calls).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!((under_way.get(), most.get()), (0, 16));
    }

    /// One object that nobody can read must not cost all others their client, again and again.
    #[tokio::test]
    async fn an_object_that_cannot_be_read_keeps_the_client() {
        use crate::cluster::fake::{Answer, FakeApi};
        use k8s_openapi::api::core::v1::Pod;

        type Answers = fn() -> Answer;
        let unreadable: Answers = || Answer::Object(json!({ "metadata": 7 }));
        // An identity that is too old is another matter.
        let rows: [(Answers, &str, u64); 3] =
            [(unreadable, "web", 1), (unreadable, "", 1), (|| Answer::Refused(401), "web", 3)];
        for (answer, name, clients) in rows {
            let api = FakeApi::new(move |_| answer()).await;
            for _ in 0..3 {
                let get = async |client| kube::Api::<Pod>::default_namespaced(client).get(name).await;
                assert!(api.connection.ask(get).await.is_err());
            }
            assert_eq!(*api.connection.made().borrow(), clients, "{name:?}");
        }
    }
}
