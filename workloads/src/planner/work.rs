//! One plan that is carried out, and how it ends.

use berth_base::sent::Sent;
use berth_workloads_policy::action::Note;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, ObjectMeta, Patch},
};
use serde_json::{Value, json};

use super::{Picture, Plan};
use crate::{
    object::Object,
    unkept::changed,
    write::{Failure, Writer, params},
};

/// End of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// All was read that there is.
    Read,
    /// Something has changed since; decided anew at once.
    Changed,
    /// A revision's name is taken by another one.
    NameTaken,
    Failed {
        text: String,
        /// Name of the object that was not made.
        refused: Option<String>,
    },
    /// Somebody holds a write back for a while.
    Held {
        text: String,
        /// Name of the object that was not made.
        refused: Option<String>,
    },
    /// Nobody knows what was written.
    Unknown(String),
}

/// Report of a plan.
#[derive(Debug)]
pub(super) struct Report<W> {
    pub(super) uid: String,
    pub(super) wrote: Vec<W>,
    /// Names of objects that could not be made, or UIDs of those that could not be written to.
    pub(super) put_off: Vec<String>,
    /// Nobody knows what one of the writes did, though the plan went on.
    pub(super) unread: bool,
    /// One of its objects was made.
    pub(super) made: bool,
    /// Status that the API server answered otherwise, and the field that differs.
    pub(super) unkept: Option<(Value, String)>,
    pub(super) end: End,
}

/// One plan that is carried out.
pub(crate) struct Work<P: Picture> {
    pub(crate) writer: Writer,
    pub(crate) object: P::Object,
    /// Answers of the API server.
    pub(crate) wrote: Vec<P::Wrote>,
    /// Names of objects that could not be made, or UIDs of those that could not be written to: the next plan
    /// tries them last.
    pub(crate) put_off: Vec<String>,
    /// The API server answered a write with an error of its own: all is read before the next plan.
    pub(crate) unread: bool,
    /// One of its objects was made, or was there already.
    pub(crate) made: bool,
    /// Status that the API server answered otherwise, and the field that differs.
    pub(crate) unkept: Option<(Value, String)>,
}

impl End {
    pub(crate) const fn failed(text: String) -> Self {
        Self::Failed { text, refused: None }
    }

    pub(crate) const fn held(text: String) -> Self {
        Self::Held { text, refused: None }
    }
}

/// Carries out a plan.
pub(super) async fn carry_out<P: Picture>(
    writer: Writer,
    object: P::Object,
    plan: Plan<P::Action>,
) -> Report<P::Wrote> {
    let mut work = Work::<P>::new(writer, object);
    let end = P::carry_out(&mut work, plan).await;
    work.report(end)
}

/// Reads an object and what it has made, as whoever wrote before may have left them.
pub(super) async fn read<P: Picture>(writer: Writer, object: P::Object) -> Report<P::Wrote> {
    let mut work = Work::<P>::new(writer, object);
    let end = match P::read(&mut work).await {
        Ok(()) => End::Read,
        Err(Failure::Gone) => End::Changed,
        Err(Failure::Held(text)) => End::held(text),
        Err(failure) => End::failed(failure.text()),
    };
    work.report(end)
}

impl<P: Picture> Work<P> {
    /// One that has written nothing yet.
    pub(crate) const fn new(writer: Writer, object: P::Object) -> Self {
        Self {
            writer,
            object,
            wrote: Vec::new(),
            put_off: Vec::new(),
            unread: false,
            made: false,
            unkept: None,
        }
    }

    fn report(self, end: End) -> Report<P::Wrote> {
        let Self { object, wrote, put_off, unread, made, unkept, .. } = self;
        Report { uid: object.uid().to_owned(), wrote, put_off, unread, made, unkept, end }
    }

    /// Objects of a kind beside the object.
    pub(crate) fn objects(&self, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.writer.client.clone(), self.object.namespace(), resource)
    }

    /// The same, to be listed.
    pub(crate) fn sent(&self, resource: &ApiResource) -> Api<Sent<DynamicObject>> {
        Api::namespaced_with(self.writer.client.clone(), self.object.namespace(), resource)
    }

    /// Writes the status over the one of `before`, on the version that it was decided on. What the API server
    /// has just written is as it was sent, or never will be. The metrics call the request `what`.
    pub(crate) async fn patch_status(
        &mut self,
        what: &'static str,
        resource: &ApiResource,
        before: &Value,
        mut status: Value,
    ) -> Result<DynamicObject, Failure> {
        let decided = status.clone();
        take_out(before, &mut status);
        let meta = self.object.meta();
        let patch = Patch::Merge(json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version },
            "status": status,
        }));
        let (api, params) = (self.objects(resource), params::patch());
        let write = api.patch_status(self.object.name(), &params, &patch);
        let written = self.writer.ask(what, write).await?;
        self.unkept = changed(&written.data["status"], &decided).map(|field| (decided, field));
        Ok(written)
    }

    /// Tells whether the object decides on another one.
    pub(crate) fn owns(&self, meta: &ObjectMeta) -> bool {
        let mut owners = meta.owner_references.iter().flatten();
        owners.any(|owner| owner.controller == Some(true) && owner.uid == self.object.uid())
    }

    /// Tells of what was done, in an Event of the object.
    pub(crate) fn tell(&self, reason: &'static str, text: String) {
        self.writer.events.tell(&self.object, Note { warning: false, reason, text });
    }

    /// Tells of what failed.
    pub(crate) fn warn(&self, reason: &'static str, text: String) {
        self.writer.events.tell(&self.object, Note { warning: true, reason, text });
    }
}

/// Marks fields that were there before and are not any more, so that a merge patch takes them out.
fn take_out(before: &Value, after: &mut Value) {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) else { return };
    for (key, value) in before {
        match after.get_mut(key) {
            Some(now) => take_out(value, now),
            None => {
                after.insert(key.clone(), Value::Null);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merge patch leaves what it does not name.
    #[test]
    fn what_is_not_any_more_is_taken_out_of_maps_too() {
        let before =
            json!({ "subsetReplicas": { "a": 1, "b": 2 }, "collisionCount": 1, "conditions": [1, 2] });
        let mut after = json!({ "subsetReplicas": { "b": 3 }, "conditions": [1] });
        take_out(&before, &mut after);
        assert_eq!(
            after,
            json!({ "subsetReplicas": { "a": null, "b": 3 }, "collisionCount": null, "conditions": [1] })
        );
    }
}
