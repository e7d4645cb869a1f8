//! An API server of objects in memory, for tests.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, request::Parts};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tower::service_fn;

use crate::{events, lane::pages, metrics::Metrics, write::Writer};

const PATIENCE: Duration = Duration::from_secs(60);

/// Writer whose requests are answered so. Nobody writes its Events.
pub(crate) fn writer(answer: impl Fn(&Method, &str, &Value) -> Value + Send + Sync + 'static) -> Writer {
    writer_at(move |parts, body| answer(&parts.method, parts.uri.path(), body).to_string())
}

/// Writer whose requests are all reads, answered by their path and query.
pub(crate) fn reads(answer: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Writer {
    writer_at(move |parts, _| answer(parts.uri.path(), parts.uri.query().unwrap_or_default()))
}

fn writer_at(answer: impl Fn(&Parts, &Value) -> String + Send + Sync + 'static) -> Writer {
    let answer = Arc::new(answer);
    let service = service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let answer = answer(&parts, &body);
            // A failure has the code that it says.
            let failure = serde_json::from_str(&answer).ok().filter(|one: &Value| one["kind"] == "Status");
            let code = failure.and_then(|one| u16::try_from(one["code"].as_u64()?).ok()).unwrap_or(200);
            let answer = Body::from(answer.into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
        }
    });
    let (events, told) = events::channel();
    drop(told);
    Writer { client: Client::new(service, "ns"), metrics: Metrics::default(), events, pages: pages() }
}

/// Answer of an API server that does something not.
fn failure(code: u16) -> Value {
    json!({
        "kind": "Status", "status": "Failure", "code": code, "metadata": {}, "message": "not this one",
        "reason": "",
    })
}

/// A list in a list, and so on: so many levels.
pub(crate) fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| json!([inner]))
}

/// Objects by the plural names of their kinds, and what was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    asked: Vec<String>,
    version: u64,
    /// Requests that are not carried out: their method, what they are about, and the code of the answer.
    refused: Vec<(Method, String, u16)>,
    /// Change of all that is made or replaced.
    webhook: Option<fn(&mut Value)>,
    /// Field that is kept of no status.
    pruned: Option<&'static str>,
}

impl Served {
    pub(crate) fn put(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.0.lock().unwrap().objects.entry(plural.to_owned()).or_default().insert(name, object.clone());
    }

    /// Refuses requests with this code that are about an object, about one that is for a node or has such a
    /// label, or about all objects of a kind: `pods of ns`.
    pub(crate) fn refuse(&self, method: Method, of: &str, code: u16) {
        self.0.lock().unwrap().refused.push((method, of.to_owned(), code));
    }

    /// Refuses nothing any more.
    pub(crate) fn relent(&self) {
        self.0.lock().unwrap().refused.clear();
    }

    /// Changes all that is made or replaced, as a mutating webhook does.
    pub(crate) fn change(&self, webhook: fn(&mut Value)) {
        self.0.lock().unwrap().webhook = Some(webhook);
    }

    /// Keeps this field of no status, as a definition that does not know it.
    pub(crate) fn prune(&self, field: &'static str) {
        self.0.lock().unwrap().pruned = Some(field);
    }

    /// The object of a kind and name.
    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(plural)?.get(name).cloned()
    }

    /// Names of the objects of a kind.
    pub(crate) fn names(&self, plural: &str) -> Vec<String> {
        self.0.lock().unwrap().objects.get(plural).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    pub(crate) fn writer(&self) -> Writer {
        let served = self.clone();
        writer_at(move |parts, body| {
            let query = parts.uri.query().unwrap_or_default();
            served.0.lock().unwrap().answer(&parts.method, parts.uri.path(), query, body).to_string()
        })
    }

    /// Returns how often this was asked: the method, the plural name, and `one` for a single object.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().asked.iter().filter(|asked| *asked == what).count()
    }

    /// Counts of this request before, between and after those of another kind.
    pub(crate) fn tries(&self, what: &str, between: &str) -> Vec<usize> {
        let asked = &self.0.lock().unwrap().asked;
        let parts = asked.split(|asked| asked == between);
        parts.map(|part| part.iter().filter(|asked| *asked == what).count()).collect()
    }

    /// All requests that were no reads.
    pub(crate) fn writes(&self) -> usize {
        self.0.lock().unwrap().asked.iter().filter(|asked| !asked.starts_with("GET")).count()
    }

    /// Waits until it holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let wait = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, wait).await;
        assert!(ended.is_ok(), "{what}: {:?}", self.0.lock().unwrap().asked);
    }

    /// Waits until nothing was asked for a while.
    pub(crate) async fn rests(&self) {
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            let now = self.0.lock().unwrap().asked.len();
            if std::mem::replace(&mut before, now) == now {
                return;
            }
        }
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> Value {
        let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(1);
        let namespace = parts.next().unwrap_or_default();
        let (plural, name) = (parts.next().unwrap_or_default().to_owned(), parts.next());
        // What is made twice, and what is selected, matters of revisions alone.
        let is_revision = plural == "controllerrevisions";
        let is_pod = plural == "pods";
        self.asked.push(format!("{method} {plural}{}", if name.is_some() { " one" } else { "" }));
        self.version += 1;
        let version = self.version.to_string();
        let kind = format!("{plural} of {namespace}");
        let labels = body["metadata"]["labels"].as_object();
        let is_about = |of: &String| {
            let is_label = || labels.is_some_and(|labels| labels.values().any(|value| value == of));
            name == Some(of) || body["spec"]["nodeName"] == of.as_str() || kind == *of || is_label()
        };
        if let Some((.., code)) = self.refused.iter().find(|(asked, of, _)| asked == method && is_about(of)) {
            return failure(*code);
        }
        let objects = self.objects.entry(plural).or_default();
        match (method, name) {
            (&Method::GET, None) => {
                let is_here = |object: &&Value| {
                    let of = &object["metadata"]["namespace"];
                    of.is_null() || of == namespace
                };
                let is_listed = |object: &&Value| !is_revision || is_selected(query, object);
                let items: Vec<&Value> = objects.values().filter(is_here).filter(is_listed).collect();
                json!({ "metadata": { "resourceVersion": version }, "items": items })
            }
            (&Method::GET, Some(name)) => objects.get(name).cloned().unwrap_or_default(),
            (&Method::POST, _) => {
                let mut object = body.clone();
                let is_taken =
                    object["metadata"]["name"].as_str().is_some_and(|name| objects.contains_key(name));
                if is_revision && is_taken {
                    let mut taken = failure(409);
                    taken["reason"] = "AlreadyExists".into();
                    return taken;
                }
                self.webhook.iter().for_each(|change| change(&mut object));
                object["metadata"]["uid"] = format!("uid-{version}").into();
                object["metadata"]["resourceVersion"] = version.into();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                objects.insert(name, object.clone());
                object
            }
            (&Method::PUT, Some(name)) => {
                let mut object = body.clone();
                self.webhook.iter().for_each(|change| change(&mut object));
                object["metadata"]["resourceVersion"] = version.into();
                objects.insert(name.to_owned(), object.clone());
                object
            }
            (&Method::DELETE, Some(name)) => objects.remove(name).unwrap_or_else(|| failure(404)),
            (_, name) => {
                let Some(object) = name.and_then(|name| objects.get_mut(name)) else { return Value::Null };
                if is_revision {
                    let labels = body["metadata"]["labels"].as_object().into_iter().flatten();
                    labels.for_each(|(key, value)| object["metadata"]["labels"][key] = value.clone());
                    object["revision"] = body.get("revision").unwrap_or(&object["revision"]).clone();
                } else {
                    object["status"] = body["status"].clone();
                    if let Some((status, field)) = object["status"].as_object_mut().zip(self.pruned) {
                        status.remove(field);
                    }
                    let given = body["metadata"]["annotations"].as_object().filter(|_| is_pod);
                    let given = given.into_iter().flatten().filter(|(_, value)| !value.is_null());
                    given.for_each(|(key, value)| object["metadata"]["annotations"][key] = value.clone());
                }
                object["metadata"]["resourceVersion"] = version.into();
                object.clone()
            }
        }
    }
}

/// Tells whether an object has the label that a list asks for, or the label with its value.
fn is_selected(query: &str, object: &Value) -> bool {
    let query = query.replace("%2F", "/").replace("%3D", "=");
    let Some(asked) = query.split('&').find_map(|part| part.strip_prefix("labelSelector=")) else {
        return true;
    };
    let (key, value) = asked.split_once('=').map_or((asked, None), |(key, value)| (key, Some(value)));
    object["metadata"]["labels"][key].as_str().is_some_and(|there| value.is_none_or(|value| value == there))
}
