//! Requests as they are sent, and answers that count.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{target::encoded, *};

const AGENT: HeaderValue = HeaderValue::from_static("somebody/1");

fn target(https: bool, host: &str, port: u16, path: &str) -> Target {
    Target::new(https, host.to_owned(), port, path)
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_path_can_stand_in_a_request_line() {
    let table = [
        ("", "/"),
        ("/", "/"),
        ("stop", "/stop"),
        ("/stop?now=1&why=a%20b", "/stop?now=1&why=a%20b"),
        ("/a b\"c", "/a%20b%22c"),
        ("/ü", "/%C3%BC"),
        ("/stop#part", "/stop"),
        ("/x\r\nHost: evil", "/x%0D%0AHost:%20evil"),
    ];
    for (path, expected) in table {
        assert_eq!(encoded(path), expected, "{path:?}");
        assert!(Request::get(encoded(path)).body(()).is_ok(), "{path:?}");
    }
}

#[test]
fn the_host_stands_with_its_port() {
    assert_eq!(target(false, "10.0.0.1", 80, "").authority(), "10.0.0.1:80");
    assert_eq!(target(false, "fd00::1", 8080, "").authority(), "[fd00::1]:8080");
}

#[test]
fn a_redirect_is_followed_on_the_same_host_only() {
    let from = target(false, "10.0.0.1", 8080, "/dir/stop?x=1");
    let table = [
        ("/other?y=2", Some(target(false, "10.0.0.1", 8080, "/other?y=2"))),
        ("other", Some(target(false, "10.0.0.1", 8080, "/dir/other"))),
        ("sub/other?y", Some(target(false, "10.0.0.1", 8080, "/dir/sub/other?y"))),
        ("http://10.0.0.1/a", Some(target(false, "10.0.0.1", 80, "/a"))),
        ("https://10.0.0.1/a", Some(target(true, "10.0.0.1", 443, "/a"))),
        ("http://10.0.0.1:9/a#b", Some(target(false, "10.0.0.1", 9, "/a"))),
        ("http://10.0.0.2:8080/a", None),
        ("//10.0.0.2/a", None),
        ("ftp://10.0.0.1/a", None),
    ];
    for (location, expected) in table {
        let next = from.redirected(&HeaderValue::from_static(location), Follow::AnyPort, None);
        assert!(next == expected, "{location}");
    }
    let six = target(false, "fd00::1", 80, "/");
    let next = |location| six.redirected(&HeaderValue::from_static(location), Follow::AnyPort, None);
    assert!(next("http://[fd00::1]/a").is_some());
    assert!(next("http://[fd00::2]/a").is_none());
}

#[test]
fn a_pinned_redirect_stays_at_its_port() {
    let from = target(false, "10.0.0.1", 8080, "/dir/stop");
    let there = |https| Some(target(https, "10.0.0.1", 8080, "/a"));
    let table = [
        // location, Host: where it leads
        ("/a", "", there(false)),
        ("http://10.0.0.1:8080/a", "", there(false)),
        ("https://10.0.0.1:8080/a", "", there(true)),
        ("http://10.0.0.1/a", "", None),
        ("https://10.0.0.1/a", "", None),
        ("http://10.0.0.1:9/a", "", None),
        ("http://shop.example/a", "", None),
        // Its own name; what is dialled stays the same.
        ("http://shop.example/a", "shop.example", there(false)),
        ("http://SHOP.example:80/a", "shop.example", there(false)),
        ("http://shop.example:8080/a", "shop.example:8080", there(false)),
        ("http://shop.example:8080/a", "shop.example", None),
        ("https://shop.example/a", "shop.example", None),
        ("http://169.254.169.254/a", "shop.example", None),
        // The name leads nobody anywhere, whatever it is.
        ("http://169.254.169.254/a", "169.254.169.254", there(false)),
        ("http://10.0.0.1:8080@169.254.169.254/a", "", None),
    ];
    for (location, named, expected) in table {
        let named = Some(HeaderValue::from_static(named)).filter(|named| !named.is_empty());
        let next = from.redirected(&HeaderValue::from_static(location), Follow::SamePort, named.as_ref());
        assert!(next == expected, "{location} of {named:?}");
    }
}

#[test]
fn of_a_redirect_the_host_is_shown() {
    let table = [
        ("http://169.254.169.254/latest?token=secret", Some("169.254.169.254")),
        ("https://user:secret@shop.example:8443/a", Some("shop.example:8443")),
        ("//10.0.0.2/a", Some("10.0.0.2")),
        ("/a", None),
    ];
    for (location, expected) in table {
        let host = target::host_of(&HeaderValue::from_static(location));
        assert_eq!(host.as_deref(), expected, "{location}");
    }
}

#[test]
fn the_users_headers_come_first() {
    let headers =
        user_headers(&pairs(&[("X-Twice", "1"), ("x-twice", "2"), ("Accept", "")]), &AGENT).unwrap();
    assert_eq!(headers.get_all("x-twice").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert!(!headers.contains_key("accept"));
    assert_eq!(headers["user-agent"], AGENT);
    let headers = user_headers(&pairs(&[("User-Agent", "me")]), &AGENT).unwrap();
    assert_eq!(
        (&headers["user-agent"], &headers["accept"]),
        (&"me".parse().unwrap(), &"*/*".parse().unwrap())
    );
}

#[test]
fn a_bad_header_is_named_and_its_value_is_not() {
    let error = user_headers(&pairs(&[("a b", "v")]), &AGENT).unwrap_err();
    assert!(matches!(&error, HttpError::HeaderName { name, .. } if name == "a b"), "{error}");
    let error = user_headers(&pairs(&[("x-token", "secret\n")]), &AGENT).unwrap_err();
    let text = crate::base::causes::chain(&error);
    assert!(text.contains("x-token") && !text.contains("secret"), "{text}");
}

#[tokio::test]
async fn an_answer_may_be_there_before_the_question() {
    // What `printf ... | nc -l` does.
    let (near, mut far) = tokio::io::duplex(1024);
    far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello").await.unwrap();
    let answer = exchange(near, &target(false, "10.0.0.1", 80, "/"), HeaderMap::new()).await.unwrap();
    assert_eq!((answer.status(), answer.body().as_slice()), (StatusCode::OK, b"hello".as_slice()));
    let mut asked = String::new();
    far.read_to_string(&mut asked).await.unwrap();
    assert!(asked.starts_with("GET / HTTP/1.1\r\n"), "{asked}");
}
