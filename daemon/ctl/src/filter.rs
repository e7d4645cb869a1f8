//! Filter of `pods` and `ps`: which entries to list, and how.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::duration;
use super::output::ListOutputArgs;

/// Flags of a listing.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// Only those whose name contains this
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Only those of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Only those with this label; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Only the one created last
    #[arg(short, long, conflicts_with = "last")]
    pub latest: bool,
    /// Only the N created last
    #[arg(short = 'n', long, value_name = "N")]
    pub last: Option<usize>,
    /// Only the IDs
    #[arg(short, long)]
    pub quiet: bool,
    /// Whole IDs
    #[arg(long)]
    pub no_trunc: bool,
    /// How to show it.
    #[command(flatten)]
    pub output: ListOutputArgs,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not of the form KEY=VALUE")),
    }
}

impl ListArgs {
    /// Tells whether an entry is wanted.
    pub(crate) fn admits(&self, name: &str, namespace: &str, labels: &HashMap<String, String>) -> bool {
        self.name.as_ref().is_none_or(|part| name.contains(part.as_str()))
            && self.namespace.as_ref().is_none_or(|wanted| namespace == wanted)
            && self.label.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Sorts the newest first and cuts the list to what is wanted.
    pub(crate) fn cut<T>(&self, entries: &mut Vec<T>, created_at: impl Fn(&T) -> i64) {
        entries.sort_by_key(|entry| std::cmp::Reverse(created_at(entry)));
        if let Some(count) = if self.latest { Some(1) } else { self.last } {
            entries.truncate(count);
        }
    }
}

/// Returns how long ago something was created (ns since the epoch), in words.
pub(crate) fn age(created_at: i64) -> String {
    let created = UNIX_EPOCH
        .checked_add(Duration::from_nanos(u64::try_from(created_at).unwrap_or(0)))
        .unwrap_or(UNIX_EPOCH);
    duration::ago(SystemTime::now().duration_since(created).unwrap_or_default())
}
