//! Tables of lists, as kubectl prints them, and the same rows for programs. Pure.

use anyhow::Context;
use berth_proto::text::one_line;
use comfy_table::{Table, presets};
use serde_json::{Map, Value};

use crate::cli::ListOutput;

/// Space between two columns.
const GAP: u16 = 3;

/// Rows with a cell for each of the columns, those of `wide` last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sheet {
    pub(crate) columns: &'static [&'static str],
    pub(crate) wide: &'static [&'static str],
    pub(crate) rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Text of the rows; `nothing`: what a table says when it has none.
    pub(crate) fn text(&self, output: ListOutput, nothing: &str) -> anyhow::Result<String> {
        Ok(match output {
            ListOutput::Table | ListOutput::Wide if self.rows.is_empty() => format!("{nothing}\n"),
            ListOutput::Table => self.table(self.columns),
            ListOutput::Wide => self.table(&[self.columns, self.wide].concat()),
            ListOutput::Json => serde_json::to_string_pretty(&self.objects()).context("write JSON")? + "\n",
            ListOutput::Yaml => serde_saphyr::to_string(&self.objects()).context("write YAML")?,
        })
    }

    fn table(&self, columns: &[&str]) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(columns.to_vec());
        for row in &self.rows {
            table.add_row(row.iter().take(columns.len()).map(|cell| shown(cell)));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        table.trim_fmt() + "\n"
    }

    /// One object a row, its fields named after the columns.
    fn objects(&self) -> Vec<Value> {
        let names: Vec<String> = self.columns.iter().chain(self.wide).map(|name| camel(name)).collect();
        let object = |row: &Vec<String>| {
            let fields = names.iter().cloned().zip(row.iter().map(|cell| Value::from(cell.as_str())));
            Value::from(fields.collect::<Map<_, _>>())
        };
        self.rows.iter().map(object).collect()
    }
}

/// A cell on one line: what is in an object may be any text.
fn shown(cell: &str) -> String {
    if cell.is_empty() {
        return "-".to_owned();
    }
    one_line(cell)
}

/// `POD UID` as `podUid`.
fn camel(name: &str) -> String {
    let mut words = name.split(' ');
    let mut text = words.next().unwrap_or_default().to_lowercase();
    for word in words {
        let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
        text += first;
        text += &rest.to_lowercase();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_for_people_and_for_programs() {
        let sheet = Sheet {
            columns: &["NAME", "MESSAGE"],
            wide: &["POD UID"],
            rows: vec![
                vec!["web".to_owned(), "a\nb".to_owned(), "u-1".to_owned()],
                vec!["longer".to_owned(), String::new(), "u-2".to_owned()],
            ],
        };
        let text = |output| sheet.text(output, "none").unwrap();
        assert_eq!(text(ListOutput::Table), "NAME     MESSAGE\nweb      a b\nlonger   -\n");
        assert_eq!(
            text(ListOutput::Wide),
            "NAME     MESSAGE   POD UID\nweb      a b       u-1\nlonger   -         u-2\n"
        );
        let json: Value = serde_json::from_str(&text(ListOutput::Json)).unwrap();
        assert_eq!(json[0], serde_json::json!({ "name": "web", "message": "a\nb", "podUid": "u-1" }));
        let yaml: Value = serde_saphyr::from_str(&text(ListOutput::Yaml)).unwrap();
        assert_eq!(yaml, json);
        let empty = Sheet { rows: Vec::new(), ..sheet };
        assert_eq!(empty.text(ListOutput::Wide, "none").unwrap(), "none\n");
        assert_eq!(empty.text(ListOutput::Json, "none").unwrap(), "[]\n");
    }
}
