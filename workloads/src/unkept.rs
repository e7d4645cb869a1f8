//! Statuses that the API server does not keep: a definition of another version prunes fields that it does not
//! know, and a webhook may change others. The status on file then differs from the one that is decided for
//! ever, and each plan would write it again.

use std::time::{Duration, Instant};

use berth_base::time::later;
use berth_workloads_policy::action::Note;
use serde_json::Value;

/// The same status is written again after it: the definition may be the right one by then.
const AGAIN: Duration = Duration::from_secs(600);
/// Reason of the Event of a status that the API server answers otherwise than it was sent.
const STATUS_NOT_KEPT: &str = "StatusNotKept";
/// Times in conditions. Where the API server keeps no condition, each plan has other ones.
const TIMES: [&str; 3] = ["lastTransitionTime", "lastUpdateTime", "lastProbeTime"];

/// Status of a set that was written last and is not kept, and when it is written again.
#[derive(Debug, Default)]
pub(crate) struct Unkept(Option<(Value, Instant)>);

impl Unkept {
    pub(crate) fn add(&mut self, status: Value, now: Instant) {
        self.0 = Some((status, later(now, AGAIN)));
    }

    /// Another status is written, or this one again: the answer says whether it is kept.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Time from which this status may be written; `None`: now.
    pub(crate) fn waits(&self, status: &Value, now: Instant) -> Option<Instant> {
        let (unkept, at) = self.0.as_ref()?;
        (*at > now && is_same(unkept, status)).then_some(*at)
    }
}

/// News of a field that is not kept.
pub(crate) fn note(field: &str) -> Note {
    let text = format!(
        "status.{field} is not kept as it is written: apply the definitions of this version, and see \
         mutating webhooks"
    );
    Note { warning: true, reason: STATUS_NOT_KEPT, text }
}

/// Field of a status that an answer has not as it was sent. What else the answer has is somebody else's.
pub(crate) fn changed(answered: &Value, sent: &Value) -> Option<String> {
    let mut fields = sent.as_object().into_iter().flatten();
    fields.find(|(field, value)| !has(&answered[field.as_str()], value)).map(|(field, _)| field.clone())
}

/// Tells whether a value has all that was sent. An object has more where others write as well; in a merge
/// patch nothing is what is not there.
fn has(answered: &Value, sent: &Value) -> bool {
    match (answered, sent) {
        (Value::Object(answered), Value::Object(sent)) => {
            sent.iter().all(|(key, value)| has(answered.get(key).unwrap_or(&Value::Null), value))
        }
        (Value::Array(answered), Value::Array(sent)) => {
            answered.len() == sent.len()
                && answered.iter().zip(sent).all(|(answered, sent)| has(answered, sent))
        }
        (answered, sent) => answered == sent,
    }
}

/// Tells whether two statuses say the same, whatever the times in their conditions.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, value)| {
                    let is_time = TIMES.contains(&key.as_str());
                    other.get(key).is_some_and(|other| is_time || is_same(value, other))
                })
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Each row: what was answered, what was sent, and the field that is not kept.
    #[test]
    fn what_an_answer_does_not_have_is_not_kept() {
        let condition = |time: &str| json!([{ "type": "FailedScale", "lastTransitionTime": time }]);
        let table = [
            (json!({ "replicas": 3 }), json!({ "replicas": 3 }), None),
            (json!({ "replicas": 3, "other": 1 }), json!({ "replicas": 3 }), None),
            (json!({ "replicas": 3 }), json!({ "replicas": 3, "collisionCount": null }), None),
            (json!({ "replicas": 2 }), json!({ "replicas": 3 }), Some("replicas")),
            (
                json!({ "replicas": 3 }),
                json!({ "replicas": 3, "updatedAvailableReplicas": 0 }),
                Some("updatedAvailableReplicas"),
            ),
            (json!({ "conditions": condition("a") }), json!({ "conditions": condition("a") }), None),
            (
                json!({ "conditions": condition("b") }),
                json!({ "conditions": condition("a") }),
                Some("conditions"),
            ),
            (json!({ "conditions": [{}] }), json!({ "conditions": condition("a") }), Some("conditions")),
            (json!({ "conditions": [{}] }), json!({ "conditions": [] }), Some("conditions")),
            (Value::Null, json!({ "replicas": 3 }), Some("replicas")),
        ];
        for (answered, sent, field) in table {
            assert_eq!(changed(&answered, &sent).as_deref(), field, "{answered} {sent}");
        }
    }

    #[test]
    fn a_status_that_is_not_kept_is_written_again_when_it_changes_or_after_a_while() {
        let (mut unkept, now) = (Unkept::default(), Instant::now());
        let status = |replicas: i32, time: &str| json!({ "replicas": replicas, "conditions": [{ "type": "FailedScale", "lastUpdateTime": time }] });
        assert_eq!(unkept.waits(&status(3, "a"), now), None);
        unkept.add(status(3, "a"), now);
        let at = later(now, AGAIN);
        assert_eq!(unkept.waits(&status(3, "b"), now), Some(at), "the time alone is another one");
        assert_eq!(unkept.waits(&status(2, "a"), now), None);
        assert_eq!(unkept.waits(&status(3, "a"), at), None);
        unkept.forget();
        assert_eq!(unkept.waits(&status(3, "a"), now), None);
    }
}
