//! The selectors of a set's entry. The API server refuses the whole configuration for one selector that it
//! cannot read, so what it would refuse is found here: that set is left out, and the others stand.

use berth_sidecarset::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::{LEFT_OUT, by_name};
use crate::{admission::sets::SetRules, selector::Selector};

/// Longest name of an object, where it is a part of a DNS name.
const LONGEST_NAME: usize = 63;

/// Namespaces that are not left out.
pub(super) fn elsewhere() -> LabelSelector {
    LabelSelector { match_expressions: Some(vec![by_name("NotIn", &LEFT_OUT)]), match_labels: None }
}

/// Selectors of the set's pods and of their namespaces; or why it has no entry.
pub(super) fn of(name: &str, set: &SetRules) -> Result<(LabelSelector, LabelSelector), String> {
    let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.len() > LONGEST_NAME || !name.bytes().all(letters) {
        return Err("metadata.name has more than 63 letters, or others than a-z, 0-9 and '-'".to_owned());
    }
    if let Some(fault) = &set.fault {
        return Err(fault.clone());
    }
    let pods = set.reach.selector.as_ref().ok_or("spec.selector is missing")?;
    let pods = checked("spec.selector", pods)?;
    if pods == LabelSelector::default() {
        return Err("spec.selector is empty and selects nothing".to_owned());
    }
    let namespaces = match (set.reach.namespace.as_deref(), &set.reach.namespace_selector) {
        (Some(namespace), _) if LEFT_OUT.contains(&namespace) => {
            return Err(format!("spec.namespace: nothing is injected in {namespace}"));
        }
        (Some(namespace), _) if !namespace.is_empty() => {
            if !is_label_value(namespace) {
                return Err(format!("spec.namespace: {namespace:?} is no name of a namespace"));
            }
            LabelSelector { match_expressions: Some(vec![by_name("In", &[namespace])]), match_labels: None }
        }
        (_, Some(selector)) => {
            let mut selector = checked("spec.namespaceSelector", selector)?;
            selector.match_expressions.get_or_insert_default().push(by_name("NotIn", &LEFT_OUT));
            selector
        }
        (_, None) => elsewhere(),
    };
    Ok((pods, no_control_plane(namespaces)))
}

/// The same namespaces without those that have the label of a control plane: OpenKruise's webhook is not
/// asked about their pods either.
fn no_control_plane(mut namespaces: LabelSelector) -> LabelSelector {
    let expression = LabelSelectorRequirement {
        key: names::CONTROL_PLANE.to_owned(),
        operator: "DoesNotExist".to_owned(),
        values: None,
    };
    namespaces.match_expressions.get_or_insert_default().insert(0, expression);
    namespaces
}

/// The same selector as the API server shows it, without empty lists.
pub(super) fn checked(field: &str, selector: &LabelSelector) -> Result<LabelSelector, String> {
    let labels = selector.match_labels.clone().unwrap_or_default();
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    Selector::parse(&labels, expressions).map_err(|error| format!("{field}.{error}"))?;
    let keys = labels.keys().chain(expressions.iter().map(|one| &one.key));
    if let Some(key) = keys.into_iter().find(|key| !is_key(key)) {
        return Err(format!("{field}: {key:?} is no key of a label"));
    }
    let values = expressions.iter().flat_map(|one| one.values.iter().flatten());
    if let Some(value) = labels.values().chain(values).find(|value| !is_label_value(value)) {
        return Err(format!("{field}: {value:?} is no value of a label"));
    }
    let mut expressions = expressions.to_vec();
    for expression in &mut expressions {
        expression.values = expression.values.take().filter(|values| !values.is_empty());
    }
    Ok(LabelSelector {
        match_labels: Some(labels).filter(|labels| !labels.is_empty()),
        match_expressions: Some(expressions).filter(|expressions| !expressions.is_empty()),
    })
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let dns = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(is_dns_label);
    prefix.is_none_or(dns) && !name.is_empty() && is_label_value(name)
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-');
    text.bytes().all(inner) && ends(text.bytes().next()) && ends(text.bytes().last())
}

fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |byte: Option<u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63 && text.bytes().all(inner) && ends(text.bytes().next()) && ends(text.bytes().last())
}
