//! What is asked, and what counts as an answer.

use super::*;

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
        let next = from.redirected(&HeaderValue::from_static(location));
        assert!(next == expected, "{location}");
    }
    let six = target(false, "fd00::1", 80, "/");
    assert!(six.redirected(&HeaderValue::from_static("http://[fd00::1]/a")).is_some());
    assert!(six.redirected(&HeaderValue::from_static("http://[fd00::2]/a")).is_none());
}

#[test]
fn the_users_headers_come_first() {
    let headers = user_headers(&pairs(&[("X-Twice", "1"), ("x-twice", "2"), ("Accept", "")])).unwrap();
    assert_eq!(headers.get_all("x-twice").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert!(!headers.contains_key("accept"));
    assert_eq!(headers["user-agent"], AGENT);
    let headers = user_headers(&pairs(&[("User-Agent", "me")])).unwrap();
    assert_eq!(
        (&headers["user-agent"], &headers["accept"]),
        (&"me".parse().unwrap(), &"*/*".parse().unwrap())
    );
}

#[test]
fn a_bad_header_is_named_and_its_value_is_not() {
    let error = user_headers(&pairs(&[("a b", "v")])).unwrap_err();
    assert!(matches!(&error, HttpError::HeaderName { name, .. } if name == "a b"), "{error}");
    let error = user_headers(&pairs(&[("x-token", "secret\n")])).unwrap_err();
    let text = crate::agent::chain(&error);
    assert!(text.contains("x-token") && !text.contains("secret"), "{text}");
}
