//! Servers that answer well, badly, slowly, for ever, or send us away.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn tcp(port: u16) -> ProbeAction {
    ProbeAction::Tcp { port }
}

fn answer(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn from_200_to_399_is_success_and_the_body_is_said() {
    let server = Server::answering(false, |path| match path {
        "/long" => answer(200, &"x".repeat(20_000)),
        "/binary" => answer(200, " \0\u{1b} "),
        path => answer(path[1..].parse().unwrap(), " idle\n"),
    })
    .await;
    let table = [
        ("/200", ProbeResult::Success("idle".to_owned())),
        ("/399", ProbeResult::Success("idle".to_owned())),
        // Without a place to go to.
        ("/302", ProbeResult::Success("idle".to_owned())),
        ("/400", ProbeResult::Failure("the answer is 400 Bad Request".to_owned())),
        ("/503", ProbeResult::Failure("the answer is 503 Service Unavailable".to_owned())),
        ("/199", ProbeResult::Failure("exchange".to_owned())),
        ("/long", ProbeResult::Success("x".repeat(1024))),
        ("/binary", ProbeResult::Success("\u{fffd}\u{fffd}".to_owned())),
    ];
    for (path, expected) in table {
        let (kind, part) = said(&expected);
        expect(&on_loopback(get(server.port, path), PATIENT).await, kind, part);
    }
}

#[tokio::test]
async fn asks_as_the_kubelet_does() {
    let server = Server::answering(false, |_| answer(200, "")).await;
    let ask = |headers: &[(&str, &str)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ProbeAction::Http { port: server.port, path: "ok?a=b".to_owned(), https: false, headers }
    };
    on_loopback(ask(&[("Host", "shop.example"), ("X-Mine", "yes"), ("Accept", "")]), PATIENT).await;
    on_loopback(ask(&[]), PATIENT).await;
    let [named, plain] = &server.seen()[..] else { panic!("not two requests") };
    assert!(named.starts_with("GET /ok?a=b HTTP/1.1\r\n"), "{named}");
    for line in ["x-mine: yes", "host: shop.example", "user-agent: kube-probe/berth", "connection: close"] {
        assert!(named.contains(&format!("\r\n{line}\r\n")), "{line} is missing in\n{named}");
    }
    assert!(!named.contains("accept"), "{named}");
    assert!(plain.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", server.port)), "{plain}");
    assert!(plain.contains("\r\naccept: */*\r\n"), "{plain}");
    // What cannot be sent says nothing of the container.
    let result = on_loopback(ask(&[("X-Token", "secret\n")]), PATIENT).await;
    expect(&result, "unknown", "x-token");
    assert!(!said(&result).1.contains("secret"));
}

#[tokio::test]
async fn a_redirect_leads_nowhere_else() {
    // Another host, another port of this one, and the node's metadata service, all on this machine: whoever
    // dials them is seen.
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = seen.clone();
    let elsewhere = Raw::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::ready(())
    })
    .await;
    let other_host = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let on_other_host = other_host.local_addr().unwrap();
    let table = [
        (format!("http://{on_other_host}/"), format!("redirect to {on_other_host} refused")),
        (format!("//{on_other_host}/"), format!("redirect to {on_other_host} refused")),
        (
            format!("http://127.0.0.1:{}/?token=secret", elsewhere.port),
            format!("redirect to 127.0.0.1:{} refused", elsewhere.port),
        ),
        (
            format!("http://localhost:{}/", elsewhere.port),
            format!("redirect to localhost:{} refused", elsewhere.port),
        ),
        (
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            "redirect to 169.254.169.254 refused".to_owned(),
        ),
        ("https://127.0.0.1/".to_owned(), "redirect to 127.0.0.1 refused".to_owned()),
        ("ftp://127.0.0.1/".to_owned(), "redirect to 127.0.0.1 refused".to_owned()),
    ];
    for (location, expected) in table {
        for status in [301, 302, 303, 307, 308] {
            let location = location.clone();
            let server = Server::answering(false, move |_| {
                format!("HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
            })
            .await;
            let result = on_loopback(get(server.port, "/"), PATIENT).await;
            expect(&result, "failure", &expected);
            assert!(!said(&result).1.contains("secret"), "{result:?}");
            assert_eq!(server.seen().len(), 1);
        }
    }
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    let dialled = tokio::time::timeout(SECOND / 5, other_host.accept()).await;
    assert!(dialled.is_err(), "the other host was dialled");
}

#[tokio::test]
async fn a_redirect_within_the_pod_is_followed_ten_times() {
    let server = Server::answering(false, |path| {
        let next = match path.strip_prefix("/hop").map(|left| left.parse::<u32>().unwrap()) {
            None => "http://shop.example/ok".to_owned(),
            Some(0) => return answer(200, "arrived"),
            Some(left) => format!("/hop{}", left - 1),
        };
        let next = if path == "/name" { "http://shop.example/hop0".to_owned() } else { next };
        format!("HTTP/1.1 302 Found\r\nlocation: {next}\r\n\r\n")
    })
    .await;
    expect(&on_loopback(get(server.port, "/hop10"), PATIENT).await, "success", "arrived");
    expect(&on_loopback(get(server.port, "/hop11"), PATIENT).await, "failure", "more than 10 redirects");
    // By its own name it sends to itself, and it is itself that is asked.
    let headers = vec![("Host".to_owned(), "shop.example".to_owned())];
    let named = ProbeAction::Http { port: server.port, path: "/name".to_owned(), https: false, headers };
    expect(&on_loopback(named, PATIENT).await, "success", "arrived");
    expect(
        &on_loopback(get(server.port, "/name"), PATIENT).await,
        "failure",
        "redirect to shop.example refused",
    );
}

#[tokio::test]
async fn tls_takes_any_certificate_but_no_plain_answer() {
    let https = |port| ProbeAction::Http {
        port,
        path: "/".to_owned(),
        https: true,
        headers: vec![("X-Token".to_owned(), "secret".to_owned())],
    };
    let server = Server::answering(true, |_| answer(200, "safe")).await;
    expect(&on_loopback(https(server.port), PATIENT).await, "success", "safe");
    expect(&on_loopback(get(server.port, "/"), PATIENT).await, "failure", "exchange");
    let plain = Server::answering(false, |_| answer(200, "plain")).await;
    expect(&on_loopback(https(plain.port), PATIENT).await, "failure", "TLS handshake");
    assert!(plain.seen().is_empty(), "asked in the clear");
}

#[tokio::test]
async fn servers_that_never_end_do_not_hold_us() {
    let silent = Server::silent().await;
    for action in [
        get(silent.port, "/"),
        ProbeAction::Http { port: silent.port, path: "/".to_owned(), https: true, headers: vec![] },
        ProbeAction::Grpc { port: silent.port, service: String::new() },
    ] {
        expect(&on_loopback(action, SECOND / 4).await, "failure", "timed out after 250ms");
    }
    let dripping = Raw::new(|mut stream| async move {
        for byte in b"HTTP/1.1 200 OK\r\n\r\nidle".iter().cycle() {
            if stream.write_all(&[*byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(SECOND / 10).await;
        }
    })
    .await;
    expect(&on_loopback(get(dripping.port, "/"), SECOND / 2).await, "failure", "timed out after 500ms");
    let slow_body = Raw::new(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SECOND / 10).await;
        }
    })
    .await;
    expect(&on_loopback(get(slow_body.port, "/"), SECOND / 2).await, "failure", "timed out after 500ms");
    let endless_head = Raw::new(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n").await;
        while stream.write_all(&[b"x-more: ".as_slice(), &[b'x'; 4000], b"\r\n"].concat()).await.is_ok() {}
    })
    .await;
    expect(&on_loopback(get(endless_head.port, "/"), PATIENT).await, "failure", "exchange");
    let gone = Arc::new(AtomicUsize::new(0));
    let counted = gone.clone();
    let endless_body = Raw::new(move |mut stream| {
        let counted = counted.clone();
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {}
            counted.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let result = on_loopback(get(endless_body.port, "/"), PATIENT).await;
    assert_eq!(result, ProbeResult::Success("x".repeat(1024)));
    // And it is told that nobody listens any more.
    let is_gone = async {
        while gone.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(SECOND / 100).await;
        }
    };
    tokio::time::timeout(PATIENT, is_gone).await.unwrap();
}

#[tokio::test]
async fn a_body_that_breaks_off_keeps_its_status() {
    let server =
        Server::answering(false, |_| "HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\nhal".to_owned()).await;
    expect(&on_loopback(get(server.port, "/"), PATIENT).await, "success", "hal");
}

#[tokio::test]
async fn dropped_in_the_middle_the_connection_is_closed() {
    let (tells, mut told) = tokio::sync::mpsc::unbounded_channel();
    let server = Raw::new(move |mut stream| {
        let tells = tells.clone();
        async move {
            let _ = stream.read_u8().await;
            let _ = tells.send("asked");
            let mut sent = Vec::new();
            let _ = stream.read_to_end(&mut sent).await;
            let _ = tells.send("closed");
        }
    })
    .await;
    let played = on_the_host();
    let prober = Prober::new(played.client());
    for action in [get(server.port, "/"), ProbeAction::Grpc { port: server.port, service: String::new() }] {
        let run = run_of(action, 60 * SECOND);
        tokio::select! {
            result = prober.run(&run, Some("127.0.0.1")) => panic!("it ended: {result:?}"),
            asked = told.recv() => assert_eq!(asked, Some("asked")),
        }
        let closed = tokio::time::timeout(PATIENT, told.recv()).await;
        assert_eq!(closed, Ok(Some("closed")));
    }
}

#[tokio::test]
async fn tcp_is_a_connection_and_nothing_more() {
    let server = Server::silent().await;
    expect(&on_loopback(tcp(server.port), PATIENT).await, "success", "");
    let port = server.port;
    drop(server);
    // The port of nobody: closed as soon as its task has ended.
    let result = loop {
        match on_loopback(tcp(port), PATIENT).await {
            ProbeResult::Success(_) => tokio::time::sleep(SECOND / 100).await,
            result => break result,
        }
    };
    expect(&result, "failure", &format!("127.0.0.1:{port} cannot be reached: Connection refused"));
}

#[tokio::test]
async fn without_an_address_nothing_is_known() {
    let played = on_the_host();
    let prober = Prober::new(played.client());
    let run = run_of(tcp(1), PATIENT);
    expect(&prober.run(&run, None).await, "unknown", "the address of the host is not known");
    expect(&prober.run(&run, Some("node.example")).await, "unknown", "\"node.example\"");
    let not_there = Played::new(|_, _| sandbox("", r#"{"pid":1}"#));
    expect(&Prober::new(not_there.client()).run(&run, None).await, "unknown", "the pod has no address");
    let away = Played::new(|_, _| Answer::Error(Code::Unavailable, "away"));
    expect(&Prober::new(away.client()).run(&run, None).await, "unknown", "of the runtime: away");
    let silent = Played::new(|_, _| Answer::Never);
    let run = run_of(tcp(1), SECOND / 5);
    expect(&Prober::new(silent.client()).run(&run, None).await, "unknown", "did not say within 200ms");
}

#[tokio::test]
async fn the_runtime_is_asked_once_while_the_pod_can_be_dialled() {
    let server = Server::silent().await;
    let played = on_the_host();
    let prober = Prober::new(played.client());
    let asked = || played.calls().len();
    let once = async |port, host| {
        prober.run(&run_of(tcp(port), PATIENT), Some(host)).await;
    };
    for _ in 0..3 {
        once(server.port, "127.0.0.1").await;
        // Refused by the pod itself: it is still where it was.
        once(1, "127.0.0.1").await;
    }
    assert_eq!(asked(), 1);
    // An address that no route leads to.
    once(1, "fd00:bad::1").await;
    once(server.port, "127.0.0.1").await;
    assert_eq!(asked(), 2);
    // No answer at all.
    prober.run(&run_of(get(server.port, "/"), SECOND / 5), Some("127.0.0.1")).await;
    once(server.port, "127.0.0.1").await;
    assert_eq!(asked(), 3);
}

#[tokio::test]
async fn of_many_sandboxes_the_oldest_is_forgotten() {
    let played = on_the_host();
    let prober = Prober::new(played.client());
    let once = async |sandbox: usize| {
        let run = ProbeRun { sandbox: sandbox.to_string().as_str().into(), ..run_of(tcp(1), PATIENT) };
        prober.run(&run, Some("127.0.0.1")).await;
    };
    for sandbox in 0..513 {
        once(sandbox).await;
    }
    assert_eq!(played.calls().len(), 513);
    once(1).await;
    once(512).await;
    assert_eq!(played.calls().len(), 513);
    once(0).await;
    assert_eq!(played.calls().len(), 514);
}
