//! A look into berthd's store, in a copy of it: that nothing stays there which nobody will ever ask for.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use redb::{Builder, ReadableDatabase, ReadableTable, TableDefinition};

/// (request, container) -> (container ID, how far), as berthd has it.
const MARKS: TableDefinition<'_, (&str, &str), (&str, u8)> = TableDefinition::new("marks");

/// The marks of recreates.
pub(super) fn marks(state: &Path) -> Result<Vec<String>> {
    let dir = tempfile::tempdir().context("a folder for the copy")?;
    let copy = dir.path().join("store.redb");
    // A copy of what is written just then may be of no use; whoever asks asks again.
    fs::copy(state.join("store.redb"), &copy).context("copy the store")?;
    let database = Builder::new().open(&copy).context("open the copy of the store")?;
    let table = database.begin_read()?.open_table(MARKS).context("marks")?;
    let mut marks = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        marks.push(format!("{:?} {:?}", key.value(), value.value()));
    }
    Ok(marks)
}
