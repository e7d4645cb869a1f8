//! Status of a job whose writes were refused: a condition says why, until a plan is carried out.

use jiff::Timestamp;
use serde_json::{Value, json};

/// The condition.
const CONDITION: &str = "FailedWrite";
/// The most characters of its message.
const LONGEST: usize = 1024;

/// Returns the status with the condition. `before`: the one on file, whose time stays as long as it says the
/// same, so that what fails again and again is written once.
pub(super) fn told(mut status: Value, before: &Value, text: &str, now: Timestamp) -> Value {
    let message: String = text.chars().take(LONGEST).collect();
    let mut known = before["conditions"].as_array().into_iter().flatten();
    let known = known.find(|one| one["type"] == CONDITION && one["message"] == message.as_str());
    let condition = known.cloned().unwrap_or_else(|| {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
        json!({
            "type": CONDITION, "status": "True", "lastTransitionTime": now, "reason": CONDITION,
            "message": message,
        })
    });
    let others = status["conditions"].as_array().into_iter().flatten();
    let mut conditions: Vec<Value> = others.filter(|one| one["type"] != CONDITION).cloned().collect();
    conditions.push(condition);
    if !status.is_object() {
        status = json!({});
    }
    status["conditions"] = conditions.into();
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_once() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let of = |status: &Value| -> Vec<(String, String)> {
            let all = status["conditions"].as_array().unwrap().iter();
            let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
            all.map(|one| (text(one, "type"), text(one, "message"))).collect()
        };
        let counted = json!({ "active": 1, "conditions": [{ "type": "Other" }] });
        let first = told(counted.clone(), &json!({}), "quota", at(10));
        let failed = |text: &str| (CONDITION.to_owned(), text.to_owned());
        assert_eq!(of(&first), [("Other".to_owned(), String::new()), failed("quota")]);
        assert_eq!(first["active"], 1);
        assert_eq!(told(counted.clone(), &first, "quota", at(20)), first, "it says so already");
        let second = told(counted, &first, &"x".repeat(5000), at(30));
        assert_eq!(of(&second)[1].1.len(), LONGEST);
        assert_eq!(of(&told(Value::Null, &Value::Null, "quota", at(1))), [failed("quota")]);
    }
}
