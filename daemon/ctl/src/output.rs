//! Tables, JSON and YAML, in crictl's looks. What is for people has no control characters: authors of objects
//! and registries have written parts of it.

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use berth_proto::text::{lines, one_line};
use berthd::base::causes::innermost;
use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use serde::Serialize;
use tonic::{Code, Status};

/// The flag of every command that shows something.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct OutputArgs {
    /// How to show it; json and yaml are for programs, and have all there is
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "table|json|yaml",
        hide_possible_values = true
    )]
    pub format: Format,
}

/// The flag of every list that has more to tell than fits.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ListOutputArgs {
    /// How to show it; wide is the table with more columns; json and yaml are for programs, and have all
    /// there is
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        value_name = "table|wide|json|yaml",
        hide_possible_values = true
    )]
    pub format: ListFormat,
}

/// `-o` of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListFormat {
    /// For people.
    #[default]
    Table,
    /// For people with room.
    Wide,
    /// For programs.
    Json,
    /// For programs.
    Yaml,
}

/// Columns of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    /// Columns that are mostly asked for.
    Few,
    /// All of them.
    All,
}

impl ListOutputArgs {
    /// The format without its width.
    pub(crate) fn plain(self) -> Format {
        match self.format {
            ListFormat::Table | ListFormat::Wide => Format::Table,
            ListFormat::Json => Format::Json,
            ListFormat::Yaml => Format::Yaml,
        }
    }

    /// Columns of its table.
    pub(crate) fn columns(self) -> Columns {
        if self.format == ListFormat::Wide { Columns::All } else { Columns::Few }
    }
}

/// `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: CRI and admin types as protobuf's JSON.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How many characters of an ID are shown.
const SHORT_ID: usize = 13;

/// An ID as a table shows it.
pub(crate) fn id(id: &str, no_trunc: bool) -> &str {
    if no_trunc { id } else { id.get(..SHORT_ID).unwrap_or(id) }
}

/// A table without borders.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|cell| one_line(cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.trim_fmt() + "\n"
}

/// A table whose rows have the cells of both headers; those of `more` are for [`Columns::All`].
pub(crate) fn list(
    columns: Columns,
    few: &[&str],
    more: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    match columns {
        Columns::All => table(&[few, more].concat(), rows),
        Columns::Few => table(
            few,
            rows.into_iter().map(|mut row| {
                row.truncate(few.len());
                row
            }),
        ),
    }
}

/// `namespace/name`, of what has one.
pub(crate) fn full_name(namespace: &str, name: &str) -> String {
    if namespace.is_empty() || name.is_empty() { or_dash(name) } else { format!("{namespace}/{name}") }
}

/// A cell with nothing in it.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

/// Prints data to stdout. A reader that has gone away is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("write to stdout"),
    }
}

/// Prints data as JSON or YAML; `table` is asked only if a table is wanted.
pub(crate) fn data(format: Format, data: &impl Serialize, table: impl FnOnce() -> String) -> Result<()> {
    print(&match format {
        Format::Table => lines(&table()),
        Format::Json => serde_json::to_string_pretty(data).context("write JSON")? + "\n",
        Format::Yaml => {
            // Through JSON's data model, so that both show the same fields.
            let value = serde_json::to_value(data).context("write YAML")?;
            serde_saphyr::to_string(&value).context("write YAML")?
        }
    })
}

/// Tells whether stderr takes colours.
pub(crate) fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A progress line on stderr.
pub(crate) fn progress(line: &str) {
    // Nobody reading stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{}", lines(line));
}

/// A gRPC status for people: the message, the code by its name, and the cause where the message says nothing.
pub(crate) fn status(status: &Status) -> String {
    let name = code_name(status.code());
    match std::error::Error::source(status) {
        // Made by our own side of the connection.
        Some(source) => {
            let cause = innermost(source);
            if status.message() == "Timeout expired" || cause == "Timeout expired" {
                return "no answer within the time limit (--timeout)".to_owned();
            }
            format!("{cause} ({name})")
        }
        None if status.message().is_empty() => name.to_owned(),
        None => format!("{} ({name})", status.message()),
    }
}

/// The name in gRPC's documentation.
pub(crate) fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_no_borders_and_no_trailing_blanks() {
        let rows =
            [vec!["0123456789abc".to_owned(), "a".to_owned()], vec!["x".to_owned(), "second".to_owned()]];
        let text = table(&["POD ID", "NAME"], rows);
        assert_eq!(text, "POD ID          NAME\n0123456789abc   a\nx               second\n");
    }

    #[test]
    fn a_cell_is_one_line_that_no_terminal_obeys() {
        let rows = [vec!["web\nforged   Succeeded".to_owned(), "no \u{1b}[2Jwhy".to_owned()]];
        let text = table(&["IMAGE", "MESSAGE"], rows);
        assert_eq!(text, "IMAGE                    MESSAGE\nweb forged   Succeeded   no  [2Jwhy\n");
    }

    #[test]
    fn a_table_of_nothing_is_its_header() {
        assert_eq!(table(&["POD ID", "NAME"], []), "POD ID   NAME\n");
    }

    #[test]
    fn wide_is_the_same_table_with_more_columns() {
        let rows = || [vec!["web".to_owned(), "u-1".to_owned()]];
        assert_eq!(list(Columns::Few, &["NAME"], &["UID"], rows()), "NAME\nweb\n");
        assert_eq!(list(Columns::All, &["NAME"], &["UID"], rows()), "NAME   UID\nweb    u-1\n");
        let args = |format| ListOutputArgs { format };
        assert_eq!(args(ListFormat::Wide).plain(), Format::Table);
        assert_eq!(args(ListFormat::Wide).columns(), Columns::All);
        assert_eq!(args(ListFormat::Json).columns(), Columns::Few);
    }

    #[test]
    fn ids_are_cut_like_crictl_does() {
        assert_eq!(id("0123456789abcdef", false), "0123456789abc");
        assert_eq!(id("0123456789abcdef", true), "0123456789abcdef");
        assert_eq!(id("short", false), "short");
    }

    #[test]
    fn statuses() {
        assert_eq!(status(&Status::not_found("no such pod")), "no such pod (NOT_FOUND)");
        assert_eq!(status(&Status::new(Code::Internal, "")), "INTERNAL");
    }
}
