//! `httpGet` against servers that answer line by line, with TLS and without.

use super::*;
use crate::base::http_get::server::{Server, listen};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

async fn ask(hook: &Hook) -> Result<(), HookError> {
    let played = Played::new(|_, _| Answer::Never);
    run_once(&played, &stop(None, SECOND), hook, 10 * SECOND).await
}

#[tokio::test]
async fn asks_as_the_kubelet_does() {
    let server = Server::answering(false, |_| OK.to_owned()).await;
    ask(&server.hook(false, "stop?now", &[("X-Mine", "yes"), ("Host", "shop.example")])).await.unwrap();
    ask(&server.hook(false, "", &[])).await.unwrap();
    let [named, plain] = &server.seen()[..] else { panic!("not two requests") };
    assert!(named.starts_with("GET /stop?now HTTP/1.1\r\n"), "{named}");
    for line in ["x-mine: yes", "host: shop.example", "user-agent: kube-lifecycle/berth", "accept: */*"] {
        assert!(named.contains(&format!("\r\n{line}\r\n")), "{line} is missing in\n{named}");
    }
    assert!(plain.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", server.port)), "{plain}");
}

#[tokio::test]
async fn below_400_is_success() {
    let server = Server::answering(false, |path| format!("HTTP/1.1 {} X\r\n\r\n", &path[1..])).await;
    for (code, good) in
        [(200, true), (204, true), (304, true), (399, true), (400, false), (404, false), (500, false)]
    {
        let result = ask(&server.hook(false, &code.to_string(), &[])).await;
        assert_eq!(result.is_ok(), good, "{code}: {result:?}");
        if let Err(error) = result {
            assert!(chain(&error).starts_with(&format!("the HTTP request failed: the answer is {code}")));
        }
    }
}

#[tokio::test]
async fn follows_nobody_to_another_host() {
    let elsewhere = Server::answering(false, |_| OK.to_owned()).await;
    let away = format!("http://localhost:{}/", elsewhere.port);
    let server = Server::answering(false, move |path| {
        let to = match path {
            "/here" => "/there",
            "/away" => &away,
            "/round" => "/round",
            _ => return OK.to_owned(),
        };
        format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\n\r\n")
    })
    .await;
    ask(&server.hook(false, "/here", &[])).await.unwrap();
    assert_eq!(server.seen().len(), 2);
    ask(&server.hook(false, "/away", &[])).await.unwrap();
    assert!(elsewhere.seen().is_empty());
    server.seen();
    let error = ask(&server.hook(false, "/round", &[])).await.unwrap_err();
    assert!(matches!(error, HookError::Http(HttpError::Redirects)), "{error}");
    assert_eq!(server.seen().len(), 11);
}

#[tokio::test]
async fn takes_any_certificate() {
    let server = Server::answering(true, |_| OK.to_owned()).await;
    ask(&server.hook(true, "/stop", &[("Authorization", "Bearer x")])).await.unwrap();
    let [head] = &server.seen()[..] else { panic!("not one request") };
    assert!(head.contains("\r\nauthorization: Bearer x\r\n"), "{head}");
}

#[tokio::test]
async fn asks_in_plain_http_where_there_is_no_tls() {
    let server = Server::answering(false, |_| OK.to_owned()).await;
    ask(&server.hook(true, "/stop", &[("Authorization", "Bearer x"), ("X-Mine", "yes")])).await.unwrap();
    let [head] = &server.seen()[..] else { panic!("not one request") };
    assert!(head.contains("\r\nx-mine: yes\r\n"), "{head}");
    assert!(!head.contains("Bearer"), "a secret in the clear:\n{head}");
}

#[tokio::test]
async fn neither_tls_nor_http() {
    let server = Server::answering(false, |_| "nonsense".to_owned()).await;
    let error = ask(&server.hook(false, "/secret-path", &[("X-Token", "secret")])).await.unwrap_err();
    assert!(matches!(error, HookError::Http(HttpError::Exchange(_))), "{error}");
    assert!(!chain(&error).contains("secret"), "{}", chain(&error));
    // Closed in the middle of the handshake: not the answer of a plain server.
    let (listener, port) = listen().await;
    let closing = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let hook =
        Hook::Http { host: Some("127.0.0.1".into()), port, path: "/".into(), https: true, headers: vec![] };
    let error = ask(&hook).await.unwrap_err();
    assert!(matches!(error, HookError::Http(HttpError::Tls(_))), "{error}");
    closing.abort();
}
