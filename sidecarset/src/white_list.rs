//! Which annotations a set may bring into pods, as the installation's administrator says: the ConfigMap
//! `kruise-configuration`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;

use crate::{
    fault::Fault,
    selector::{Labels, Selector},
};

/// Key of the ConfigMap.
pub const WHITE_LIST_KEY: &str = "SidecarSet_PatchPodMetadata_WhiteList";
/// The most bytes that the list is read of; a ConfigMap has at most as many.
const MOST_BYTES: usize = 1 << 20;
/// The most rules, and the most expressions of a rule.
const MOST_RULES: usize = 256;
/// The longest expression, and the most bytes of its program: together with the number of rules they bound
/// what a list costs.
const LONGEST: usize = 1024;
const MOST_PROGRAM: usize = 64 << 10;

/// Annotations that sets may bring into pods.
#[derive(Clone, Debug, Default)]
pub struct WhiteList {
    rules: Vec<Rule>,
    /// Whether a set that no rule is for may bring any.
    open: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    /// The sets it is for; all when left out or empty.
    selector: Option<Selector>,
    keys: Vec<Regex>,
}

#[derive(Deserialize)]
struct Text {
    #[serde(default)]
    rules: Option<Vec<RuleText>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleText {
    #[serde(default)]
    selector: Option<LabelSelector>,
    #[serde(default)]
    allowed_annotation_key_exprs: Option<Vec<String>>,
}

impl WhiteList {
    /// Parses the value of the ConfigMap's key, if there is one. `open` is OpenKruise's feature gate
    /// `SidecarSetPatchPodMetadataDefaultsAllowed`: a set that no rule is for may then bring any annotation.
    pub fn parse(text: Option<&str>, open: bool) -> Result<Self, Fault> {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(Self { rules: Vec::new(), open });
        };
        if text.len() > MOST_BYTES {
            return Err(Fault::new(WHITE_LIST_KEY, format!("has more than {MOST_BYTES} bytes: shorten it")));
        }
        let parsed: Text = serde_json::from_str(text)
            .map_err(|error| Fault::new(WHITE_LIST_KEY, format!("is no JSON object with rules: {error}")))?;
        let given = parsed.rules.unwrap_or_default();
        few(given.len(), "rules")?;
        let mut rules = Vec::new();
        for (at, rule) in given.into_iter().enumerate() {
            let path = format!("rules[{at}]");
            let selector = rule.selector.as_ref();
            let selector =
                selector.map(|given| Selector::parse(given, &format!("{path}.selector"))).transpose()?;
            let selector = selector.filter(|selector| !selector.is_empty());
            let keys = rule.allowed_annotation_key_exprs.unwrap_or_default();
            few(keys.len(), &format!("{path}.allowedAnnotationKeyExprs"))?;
            let keys = keys.iter().map(|expression| compile(expression, &path)).collect::<Result<_, _>>()?;
            rules.push(Rule { selector, keys });
        }
        Ok(Self { rules, open })
    }

    /// Faults of a set with these labels that brings these annotations, which are at these paths.
    pub(crate) fn check<'a>(
        &self,
        labels: &Labels,
        keys: impl Iterator<Item = (String, &'a str)>,
        faults: &mut Vec<Fault>,
    ) {
        let rules = self.rules.iter();
        let rules = rules.filter(|rule| rule.selector.as_ref().is_none_or(|of| of.takes(labels)));
        let allowed: Vec<_> = rules.flat_map(|rule| &rule.keys).collect();
        // As there: rules that list no expression are no rules.
        if allowed.is_empty() && self.open {
            return;
        }
        for (path, key) in keys {
            if allowed.is_empty() {
                let message = format!(
                    "whitelist not found for annotation {key}: add a rule to the key {WHITE_LIST_KEY} of ConfigMap \
                     kruise-configuration"
                );
                faults.push(Fault::new(path, message));
            } else if !allowed.iter().any(|regex| regex.is_match(key)) {
                let message = format!(
                    "annotation {key} is not allowed by the whitelist: add it to a rule, or leave it out"
                );
                faults.push(Fault::new(path, message));
            }
        }
    }
}

fn few(count: usize, field: &str) -> Result<(), Fault> {
    if count > MOST_RULES {
        return Err(Fault::new(field, format!("has {count} entries: give at most {MOST_RULES}")));
    }
    Ok(())
}

fn compile(expression: &str, path: &str) -> Result<Regex, Fault> {
    let field = format!("{path}.allowedAnnotationKeyExprs");
    if expression.len() > LONGEST {
        return Err(Fault::new(field, format!("an expression has more than {LONGEST} bytes: shorten it")));
    }
    let regex = RegexBuilder::new(expression).size_limit(MOST_PROGRAM).dfa_size_limit(MOST_PROGRAM).build();
    regex.map_err(|error| {
        Fault::new(field, format!("{expression:?} is no regular expression that is taken: {error}"))
    })
}
