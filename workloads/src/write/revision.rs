//! ControllerRevisions as they are made.
//!
//! The API server lets nobody change the data of a revision, and compares them byte by byte. When it carries
//! out a patch, it writes texts as Go does: `&`, `<` and `>` by their numbers. Data that have one of them as
//! it is, as in a command of a shell, would then differ from themselves, and the revision could be neither
//! raised nor adopted: nobody could go back to its template. So they are written as Go writes them.

use berth_workloads_policy::revision::Revision;
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Resource, api::Request};
use serde_json::Value;

use super::{CHANGED_BY_CLUSTER, End, Failure, Work, Writer, Wrote, params};

impl Work {
    /// Makes the revision of the set's template. What the API server has just made has that template, or
    /// never will.
    pub(super) async fn make_revision(&mut self, object: &Value) -> End {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let made = match self.writer.create_revision(&self.namespace, object).await {
            Ok(made) => Revision::of(&made),
            Err(Failure::Taken) => return self.name_taken(name).await,
            Err(failure) => return self.failed(failure, "FailedUpdate", End::UpdateFailed).await,
        };
        let is_so = |made: &Revision| made.owner == self.set.uid() && made.has(self.set.template());
        let is_so = made.as_ref().is_some_and(is_so);
        self.wrote.extend(made.map(Wrote::Revision));
        if is_so { End::Done } else { self.revision_changed(name).await }
    }

    /// A revision is not as it was made.
    pub(super) async fn revision_changed(&mut self, name: &str) -> End {
        let text = format!("revision {name}: {CHANGED_BY_CLUSTER}; delete it when these let it be");
        self.failed(Failure::Refused(text), "FailedUpdate", End::UpdateFailed).await
    }
}

impl Writer {
    /// Makes a revision as it is given.
    pub(crate) async fn create_revision(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<ControllerRevision, Failure> {
        let request = Request::new(ControllerRevision::url_path(&(), Some(namespace)));
        let request = request.create(&params::post(), as_go_writes(object).into_bytes());
        let made = async { self.client.request(request.map_err(kube::Error::BuildRequest)?).await };
        self.ask("create", made).await
    }
}

/// JSON in the form in which Go's encoder leaves it as it is. Outside of texts JSON has none of these.
fn as_go_writes(object: &Value) -> String {
    let mut text = object.to_string();
    for (character, number) in [
        ("&", "\\u0026"),
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        if text.contains(character) {
            text = text.replace(character, number);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_written_as_go_writes_it_and_means_the_same() {
        let object = json!({ "a": "x && y <z> \u{2028}\u{2029} \\u0026", "b&": [1, "ä\n"] });
        let text = as_go_writes(&object);
        let expected = r#"{"a":"x \u0026\u0026 y \u003cz\u003e \u2028\u2029 \\u0026","b\u0026":[1,"ä\n"]}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), object);
    }
}
