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

use crate::{events, metrics::Metrics, write::Writer};

const PATIENCE: Duration = Duration::from_secs(20);

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
            let answer = Body::from(answer(&parts, &body).into_bytes());
            Ok::<_, Infallible>(Response::builder().status(200).body(answer).unwrap())
        }
    });
    let (events, told) = events::channel();
    drop(told);
    Writer { client: Client::new(service, "ns"), metrics: Metrics::default(), events }
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
}

impl Served {
    pub(crate) fn put(&self, plural: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.0.lock().unwrap().objects.entry(plural.to_owned()).or_default().insert(name, object.clone());
    }

    pub(crate) fn writer(&self) -> Writer {
        let served = self.clone();
        writer(move |method, path, body| served.0.lock().unwrap().answer(method, path, body))
    }

    /// How often this was asked: the method, the plural name, and `one` for a single object.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.0.lock().unwrap().asked.iter().filter(|asked| *asked == what).count()
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
    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> Value {
        let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
        let (plural, name) = (parts.next().unwrap_or_default().to_owned(), parts.next());
        self.asked.push(format!("{method} {plural}{}", if name.is_some() { " one" } else { "" }));
        self.version += 1;
        let version = self.version.to_string();
        let objects = self.objects.entry(plural).or_default();
        match (method, name) {
            (&Method::GET, None) => {
                let items: Vec<&Value> = objects.values().collect();
                json!({ "metadata": { "resourceVersion": version }, "items": items })
            }
            (&Method::GET, Some(name)) => objects.get(name).cloned().unwrap_or_default(),
            (&Method::POST, _) => {
                let mut object = body.clone();
                object["metadata"]["uid"] = format!("uid-{version}").into();
                object["metadata"]["resourceVersion"] = version.into();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                objects.insert(name, object.clone());
                object
            }
            (_, name) => {
                let Some(object) = name.and_then(|name| objects.get_mut(name)) else { return Value::Null };
                object["status"] = body["status"].clone();
                object["metadata"]["resourceVersion"] = version.into();
                object.clone()
            }
        }
    }
}
