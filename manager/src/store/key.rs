//! Names of objects, and how they are kept once although thousands of objects carry them.

use std::{collections::HashSet, fmt, sync::Arc};

/// Names an object of a namespaced kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// An object of a kind without namespaces.
    pub(crate) fn of_cluster(name: &Arc<str>) -> Self {
        Self { namespace: "".into(), name: name.clone() }
    }

    /// An object of the same namespace.
    pub(crate) fn sibling(&self, name: &Arc<str>) -> Self {
        Self { namespace: self.namespace.clone(), name: name.clone() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Keeps one copy of a text that many objects share: namespaces, nodes, containers.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    known: HashSet<Arc<str>>,
    /// Looked through for texts nobody uses any more when there are so many.
    sweep_at: usize,
}

/// Below it a sweep frees nothing worth its time.
const SWEEP_FROM: usize = 1024;

impl Texts {
    pub(crate) fn one(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at.max(SWEEP_FROM) {
            self.known.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.known.len() * 2;
        }
        let text: Arc<str> = text.into();
        self.known.insert(text.clone());
        text
    }

    /// The copy there is, if there is one.
    pub(crate) fn known(&self, text: &str) -> Option<Arc<str>> {
        self.known.get(text).cloned()
    }

    /// The namespace is shared, the name is the object's own.
    pub(crate) fn key(&mut self, namespace: &str, name: &str) -> Key {
        Key { namespace: self.one(namespace), name: name.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let mut texts = Texts::default();
        let kept = texts.one("kept");
        for number in 0..SWEEP_FROM * 3 {
            texts.one(&format!("node-{number}"));
        }
        assert!(texts.known.len() <= SWEEP_FROM);
        assert!(Arc::ptr_eq(&kept, &texts.one("kept")));
    }
}
