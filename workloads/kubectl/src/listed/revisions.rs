//! Rows of the revisions that a SidecarSet keeps. Pure.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    object::{ago, list, number, text},
    table::Sheet,
};

/// The revisions of a set, the newest first.
pub(super) fn sheet(set: &Value, now: Timestamp) -> Sheet {
    let mut kept: Vec<&Value> = list(set, "/status/revisions").collect();
    kept.sort_by_key(|one| std::cmp::Reverse(number(one, "/revision")));
    let latest = text(set, "/status/latestRevision");
    let asked = &set["spec"]["injectionStrategy"]["revision"];
    let row = |one: &Value| {
        let (name, version) = (text(one, "/name"), text(one, "/customVersion"));
        let is_injected = asked["revisionName"] == name && !name.is_empty()
            || asked["customVersion"] == version && !version.is_empty();
        let notes = [(latest == name, "newest"), (is_injected, "injected into new pods")];
        let notes: Vec<&str> = notes.into_iter().filter_map(|(is, note)| is.then_some(note)).collect();
        vec![
            number(one, "/revision").to_string(),
            name.to_owned(),
            version.to_owned(),
            ago(text(one, "/created"), now),
            notes.join(", "),
            text(one, "/hash").to_owned(),
            text(one, "/hashWithoutImage").to_owned(),
        ]
    };
    Sheet {
        columns: &["REVISION", "NAME", "VERSION", "AGE", "NOTE"],
        wide: &["HASH", "HASH WITHOUT IMAGE"],
        rows: kept.into_iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::ListOutput;

    #[test]
    fn revisions_are_listed_newest_first() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let set = json!({ "spec": { "injectionStrategy": { "revision": { "customVersion": "v1" } } }, "status": {
            "latestRevision": "mesh-b", "revisions": [
                { "name": "mesh-a", "revision": 1, "customVersion": "v1", "created": "2026-01-01T00:00:00Z" },
                { "name": "mesh-b", "revision": 2, "created": "2026-01-01T23:59:00Z", "hash": "h" }] } });
        let expected = "\
REVISION   NAME     VERSION   AGE   NOTE
2          mesh-b   -         60s   newest
1          mesh-a   v1        24h   injected into new pods
";
        assert_eq!(sheet(&set, now).text(ListOutput::Table, "none").unwrap(), expected);
        assert_eq!(sheet(&json!({}), now).text(ListOutput::Table, "none").unwrap(), "none\n");
    }
}
