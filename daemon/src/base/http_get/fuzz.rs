//! Redirects, as the server of a hook or a probe could send them.

use ::http::HeaderValue;

use super::target::{Follow, Target, host_of};

/// None leads to another host, and what is asked for then fits into a request line.
pub fn redirect(data: &[u8]) {
    let Ok(location) = HeaderValue::from_bytes(data) else { return };
    let _ = host_of(&location);
    let asked = Target::new(false, "10.0.0.1".to_owned(), 8080, "/a/b?c");
    for follow in [Follow::AnyPort, Follow::SamePort] {
        let Some(target) = asked.redirected(&location, follow, None) else { continue };
        assert_eq!(target.host, asked.host);
        assert!(follow == Follow::AnyPort || target.port == asked.port);
        assert!(
            target.path.starts_with('/') && target.path.bytes().all(|byte| (b'!'..=b'~').contains(&byte))
        );
        // Followed again, it is the same place.
        let path = HeaderValue::from_str(&target.path).expect("fits into a header");
        if let Some(again) = target.redirected(&path, follow, None) {
            assert_eq!(again.host, target.host);
        }
    }
}
