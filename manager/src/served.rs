//! An API server that is played, for tests.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response, request::Parts};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::service_fn;

/// Requests that a client has made, in their order.
#[derive(Debug)]
pub(crate) struct Asked(Arc<Mutex<Vec<Parts>>>);

impl Asked {
    /// Gives what is said of each.
    pub(crate) fn each<T>(&self, say: impl Fn(&Parts) -> T) -> Vec<T> {
        self.0.lock().unwrap().iter().map(say).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A client whose requests are answered so, and the requests.
pub(crate) fn client(answer: impl Fn(&Parts) -> Value + Send + 'static) -> (Client, Asked) {
    slow_client(Duration::ZERO, answer)
}

/// The same, and each answer takes so long.
pub(crate) fn slow_client(
    takes: Duration,
    answer: impl Fn(&Parts) -> Value + Send + 'static,
) -> (Client, Asked) {
    answering(takes, move |parts| {
        let answer = answer(parts);
        // A failure has the code that it says.
        let code = if answer["kind"] == "Status" { answer["code"].as_u64().unwrap() } else { 200 };
        (u16::try_from(code).unwrap(), answer.to_string())
    })
}

/// A client whose requests are answered with this text, whatever it is.
pub(crate) fn text_client(text: &'static str) -> Client {
    answering(Duration::ZERO, move |_| (200, text.to_owned())).0
}

fn answering(takes: Duration, answer: impl Fn(&Parts) -> (u16, String) + Send + 'static) -> (Client, Asked) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = asked.clone();
    let service = service_fn(move |request: Request<Body>| {
        let (parts, _) = request.into_parts();
        let (code, text) = answer(&parts);
        told.lock().unwrap().push(parts);
        let answer = Response::builder().status(code).body(Body::from(text.into_bytes())).unwrap();
        async move {
            sleep(takes).await;
            Ok::<_, Infallible>(answer)
        }
    });
    (Client::new(service, "shop"), Asked(asked))
}

/// Answer of an API server that does something not.
pub(crate) fn failure(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "" };
    json!({ "kind": "Status", "status": "Failure", "reason": reason, "code": code, "metadata": {} })
}

/// Value of a parameter in the query of a request.
pub(crate) fn parameter<'a>(request: &'a Parts, name: &str) -> Option<&'a str> {
    let parts = request.uri.query().unwrap_or_default().split('&');
    parts.filter_map(|part| part.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
}
