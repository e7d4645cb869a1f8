use std::fs;

use serde_json::{Value, json};

use super::*;

fn token(payload: &Value) -> String {
    format!("head.{}.signature", URL_SAFE_NO_PAD.encode(payload.to_string()))
}

fn claims(iat: i64, exp: i64) -> Claims {
    Claims { iat, exp, sub: String::new(), kubernetes: Kubernetes::default() }
}

#[test]
fn what_a_token_says() {
    let path = Path::new("/t");
    let text = token(&json!({
        "iss": "https://berth.test", "iat": 1000, "nbf": 1000, "exp": 87400, "aud": ["x"],
        "sub": "system:serviceaccount:berth-system:berth-agent",
        "kubernetes.io": { "namespace": "berth-system", "node": { "name": "a", "uid": "n-1" } },
    }));
    let claims = Claims::read(path, &text).unwrap();
    assert_eq!(claims.sub, "system:serviceaccount:berth-system:berth-agent");
    assert_eq!(claims.node(), Some(&Bound { name: "a".to_owned(), uid: "n-1".to_owned() }));
    assert_eq!(claims.expires(), 87400);
    let unbound = token(&json!({ "iat": 1, "exp": 2, "sub": "s" }));
    assert_eq!(Claims::read(path, &unbound).unwrap().node(), None);
    for bad in ["", "x", "a.b.c", "a.!!.c", &token(&json!({ "sub": "s" })), &token(&json!([]))] {
        assert!(matches!(Claims::read(path, bad), Err(TokenError::NoToken(_))), "{bad:?}");
    }
}

#[test]
fn renewed_after_four_fifths_of_its_life() {
    let second = Duration::from_secs;
    let table = [
        (claims(1000, 2000), 1000, Due::In(second(800))),
        (claims(1000, 2000), 1799, Due::In(second(1))),
        (claims(1000, 2000), 1800, Due::Now(second(200))),
        (claims(1000, 2000), 1999, Due::Now(second(1))),
        (claims(1000, 2000), 2000, Due::Expired),
        (claims(1000, 2000), 9000, Due::Expired),
        // The clock of the node is behind.
        (claims(1000, 2000), 900, Due::In(second(900))),
        // So far that it does not tell how old the token is.
        (claims(1000, 2000), 699, Due::Now(second(1301))),
        // Nonsense neither overflows nor is slept through.
        (claims(2000, 1000), 500, Due::Now(second(500))),
        (claims(i64::MIN, i64::MAX), 0, Due::Now(second(i64::MAX as u64))),
        (claims(0, i64::MIN), 0, Due::Expired),
    ];
    for (claims, now, expect) in table {
        assert_eq!(claims.due(now), expect, "{claims:?} at {now}");
    }
}

/// The clock of the node is an hour ahead or behind all the time, or is set by an hour; or the node is
/// suspended. Rows: the wall clock when the token is given, seconds that pass, and the wall clock then.
#[test]
fn a_token_that_was_given_is_as_old_as_it_is() {
    const HOUR: i64 = 3600;
    let table = [
        (1000, 900, 1900, 1900),
        (1000 + HOUR, 900, 1900 + HOUR, 1900),
        (1000 - HOUR, 900, 1900 - HOUR, 1900),
        // Set back.
        (1000, 900, 1900 - HOUR, 1900),
        // Set ahead, or suspended for an hour: an hour too old is better than too young.
        (1000, 900, 1900 + HOUR, 1900 + HOUR),
        (i64::MIN, 0, i64::MAX, i64::MAX),
        (i64::MAX, 5, i64::MIN, 1005),
    ];
    let (given, begun) = (Given::default(), Instant::now());
    let token = claims(1000, 4600);
    for (wall, passed, then, second) in table {
        given.note(&token, Moment { instant: begun, wall });
        let at = Moment { instant: begun + Duration::from_secs(passed), wall: then };
        assert_eq!(given.second(&token, at), second, "{wall} {passed} {then}");
        // Of another one nothing is known.
        assert_eq!(given.second(&claims(1001, 4600), at), then);
    }
}

#[test]
fn tried_again_more_often_when_time_runs_out() {
    let table = [(86400, 300), (4800, 240), (600, 30), (60, 10), (0, 10)];
    for (left, expect) in table {
        assert_eq!(try_again(Duration::from_secs(left)), Duration::from_secs(expect), "{left}");
    }
}

#[test]
fn the_file_is_for_its_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    assert!(matches!(read(&path), Err(TokenError::Missing(_))));
    write(&path, "a.b.c").unwrap();
    assert_eq!(read(&path).unwrap(), "a.b.c");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for mode in [0o640, 0o604, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, TokenError::Open { .. }), "{error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_line_break_is_taken_off_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    write(&path, "a.b.c\n").unwrap();
    assert_eq!(read(&path).unwrap(), "a.b.c");
    assert_eq!(fs::read_to_string(&path).unwrap(), "a.b.c");
}
