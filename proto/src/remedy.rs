//! Remedies that several programs name, in the same words.

/// For parts of an installation that are missing or old. A part that is applied by itself takes back what
/// components have added to the same objects.
pub const APPLY: &str = "apply your kustomization or chart again, as a whole; docs/packages.md";
