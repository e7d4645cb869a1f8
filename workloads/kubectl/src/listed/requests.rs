//! Rows of requests. Pure.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    object::{Sort, age, text},
    request::{self, End},
    table::Sheet,
};

/// Tells whether it has not ended.
pub(super) fn is_open(request: &Value) -> bool {
    request::end(request).is_none()
}

pub(super) fn row(sort: &Sort, request: &Value, now: Timestamp) -> Vec<String> {
    let kind = if *sort == Sort::RECREATE { "recreate" } else { "update" };
    let result = request::end(request).as_ref().map(End::shown).unwrap_or_default();
    vec![
        text(request, "/metadata/namespace").to_owned(),
        text(request, "/metadata/name").to_owned(),
        kind.to_owned(),
        text(request, "/spec/podName").to_owned(),
        text(request, "/status/phase").to_owned(),
        result,
        request::containers(request),
        age(request, now),
        request::message(request),
        text(request, "/status/nodeName").to_owned(),
        text(request, "/status/podUID").to_owned(),
    ]
}

pub(super) fn sheet(rows: Vec<Vec<String>>) -> Sheet {
    Sheet {
        columns: &["NAMESPACE", "NAME", "KIND", "POD", "PHASE", "RESULT", "CONTAINERS", "AGE", "MESSAGE"],
        wide: &["NODE", "POD UID"],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::ListOutput;

    #[test]
    fn a_row_says_what_a_request_waits_for_and_how_it_ended() {
        let now = "2026-01-01T00:10:00Z".parse().unwrap();
        let request = |name: &str, status: Value| {
            json!({ "metadata": { "namespace": "shop", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
                "spec": { "podName": "web", "containers": [{ "name": "app" }] }, "status": status })
        };
        let open = request("a", json!({}));
        let ended = request(
            "b",
            json!({ "phase": "Completed", "nodeName": "n1", "podUID": "u-1", "message": "no such tag", "conditions": [
                { "type": "Failed", "status": "True", "reason": "ImageNotPulled" }] }),
        );
        assert!(is_open(&open) && !is_open(&ended));
        let rows = vec![row(&Sort::RECREATE, &open, now), row(&Sort::UPDATE, &ended, now)];
        let expected = "\
NAMESPACE   NAME   KIND       POD   PHASE       RESULT                    CONTAINERS   AGE   MESSAGE
shop        a      recreate   web   -           -                         app          10m   not assigned to a node yet: berth-manager does it
shop        b      update     web   Completed   Failed (ImageNotPulled)   app          10m   no such tag
";
        assert_eq!(sheet(rows.clone()).text(ListOutput::Table, "").unwrap(), expected);
        let wide = sheet(rows).text(ListOutput::Wide, "").unwrap();
        assert!(wide.contains("NODE   POD UID\n") && wide.ends_with(" n1     u-1\n"), "{wide}");
    }
}
