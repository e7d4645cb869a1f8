//! A picture of when the containers of a pod started or stopped: one row each, on a common axis.
//!
//! Only drawing: what happened when is handed in as rows, in the order they are to be shown.

use std::fmt::Write;

/// One container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its name.
    pub name: String,
    /// Its launch priority, where an order is declared.
    pub priority: Option<i32>,
    /// Its phases, one after another, in milliseconds.
    pub phases: Vec<(u64, u64, Phase)>,
    /// Text of the last column.
    pub note: String,
}

/// Phase of a container; the order is that of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Its image is looked for or pulled.
    Pull,
    /// It is not created yet.
    Wait,
    /// It is created, not started.
    Create,
    /// It runs, and is not ready.
    Start,
    /// It is ready.
    Ready,
    /// It runs on after the pod was told to stop.
    Stop,
}

impl Phase {
    fn glyph(self, ascii: bool) -> char {
        let (plain, block) = match self {
            Self::Pull => ('v', '░'),
            Self::Wait => ('.', '·'),
            Self::Create => ('+', '▒'),
            Self::Start => ('=', '▓'),
            Self::Ready | Self::Stop => ('#', '█'),
        };
        if ascii { plain } else { block }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Pull => "image",
            Self::Wait => "waiting",
            Self::Create => "created",
            Self::Start => "started",
            Self::Ready => "ready",
            Self::Stop => "running",
        }
    }
}

/// Columns that a terminal has at least.
pub(crate) const LINE: usize = 79;

/// Draws the rows; `total` is the end of the axis in milliseconds, `line` the width of the whole in
/// characters, `note` the header of the last column.
pub(crate) fn draw(rows: &[Row], total: u64, line: usize, note: &str, ascii: bool) -> String {
    let total = total.max(1);
    let name_width =
        rows.iter().map(|row| row.name.chars().count()).chain(["CONTAINER".len()]).max().unwrap_or(0);
    let ordered = rows.iter().any(|row| row.priority.is_some());
    let priority_of = |row: &Row| row.priority.map_or("-".to_owned(), |priority| priority.to_string());
    let priority_width = match ordered {
        true => {
            rows.iter().map(|row| priority_of(row).len()).chain(["PRIORITY".len()]).max().unwrap_or(0) + 3
        }
        false => 0,
    };
    let note_width = rows.iter().map(|row| row.note.chars().count()).chain([note.len()]).max().unwrap_or(0);

    let beside = name_width + priority_width + note_width + 6;
    let width = line.saturating_sub(beside).clamp(10, 60);

    let mut out = String::new();
    let priority_head = if ordered { "PRIORITY" } else { "" };
    let axis = axis(total, width);
    let _ = writeln!(
        out,
        "{:<name_width$}{priority_head:>priority_width$}   {axis:<width$}   {note:>note_width$}",
        "CONTAINER"
    );
    let mut drawn = String::new();
    for row in rows {
        let priority = if ordered { priority_of(row) } else { String::new() };
        let bar = bar(&row.phases, total, width, ascii);
        drawn += &bar;
        let _ = writeln!(
            out,
            "{:<name_width$}{priority:>priority_width$}   {bar:<width$}   {:>note_width$}",
            row.name, row.note
        );
    }
    let mut used: Vec<Phase> =
        rows.iter().flat_map(|row| row.phases.iter().map(|(_, _, phase)| *phase)).collect();
    used.sort_unstable();
    used.dedup();
    // What later phases have hidden altogether needs no explanation.
    used.retain(|phase| drawn.contains(phase.glyph(ascii)));
    let legend: Vec<String> =
        used.iter().map(|phase| format!("{} {}", phase.glyph(ascii), phase.words())).collect();
    let _ = writeln!(out, "{:indent$}{}", "", legend.join("   "), indent = name_width + priority_width + 3);
    out
}

/// The bar of one row. A phase too short for a character still gets one where nothing else would be hidden
/// for it.
fn bar(phases: &[(u64, u64, Phase)], total: u64, width: usize, ascii: bool) -> String {
    let column = |at: u64| {
        usize::try_from(u128::from(at) * width as u128 / u128::from(total)).unwrap_or(width).min(width)
    };
    let mut cells = vec![' '; width];
    for &(from, to, phase) in phases {
        let first = column(from).min(width - 1);
        let last = column(to).max(first + 1).min(width);
        // A later phase that begins in the same character takes it over.
        cells[first..last].fill(phase.glyph(ascii));
    }
    cells.into_iter().collect::<String>().trim_end().to_owned()
}

/// Ticks at round numbers, `|` where they are.
fn axis(total: u64, width: usize) -> String {
    let step = (0..12)
        .flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)))
        .find(|step| total / step <= 5)
        .unwrap_or(total);
    let mut text = String::new();
    for tick in (0..).map(|count| count * step).take_while(|tick| *tick < total) {
        let column = usize::try_from(u128::from(tick) * width as u128 / u128::from(total)).unwrap_or(0);
        let label = format!("|{tick}");
        if column + label.len() <= width {
            let _ = write!(text, "{:pad$}{label}", "", pad = column.saturating_sub(text.len()));
        }
    }
    if text.len() + 3 <= width {
        text += " ms";
    }
    text
}

/// Tells whether the locale says that only ASCII can be shown. Nothing said means a terminal of today.
pub(crate) fn ascii_only() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    locale.into_iter().find(|value| !value.is_empty()).is_some_and(|value| {
        let value = value.to_ascii_lowercase();
        !value.contains("utf-8") && !value.contains("utf8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, priority: Option<i32>, phases: &[(u64, u64, Phase)], note: &str) -> Row {
        Row { name: name.into(), priority, phases: phases.to_vec(), note: note.into() }
    }

    #[test]
    fn a_launch() {
        use Phase::{Create, Pull, Ready, Start, Wait};
        let rows = [
            row(
                "db",
                Some(10),
                &[(0, 10, Pull), (10, 20, Create), (20, 50, Start), (50, 100, Ready)],
                "50 ms",
            ),
            row(
                "web-server",
                Some(0),
                &[(0, 10, Pull), (10, 60, Wait), (60, 90, Start), (90, 100, Ready)],
                "90 ms",
            ),
        ];
        let expected = "\
CONTAINER    PRIORITY   |0  |20 |40 |60 |80    READY
db                 10   vv++======##########   50 ms
web-server          0   vv..........======##   90 ms
                        v image   . waiting   + created   = started   # ready
";
        assert_eq!(draw(&rows, 100, 52, "READY", true), expected);
        let blocks = draw(&rows, 100, 52, "READY", false);
        assert!(blocks.contains("░░··········▓▓▓▓▓▓██   90 ms"), "{blocks}");
    }

    #[test]
    fn without_an_order_there_is_no_priority() {
        let text = draw(&[row("a", None, &[(0, 5, Phase::Stop)], "5 ms")], 10, 30, "ENDED", true);
        assert!(!text.contains("PRIORITY"), "{text}");
        assert!(text.contains("a           #####         5 ms"), "{text}");
    }

    #[test]
    fn nothing_breaks_at_the_edges() {
        for total in [0, 1, 7, 1_000_000_000, u64::MAX] {
            for width in [1, 40, 200] {
                let phases = [(0, total, Phase::Pull), (total, total, Phase::Ready)];
                let text = draw(&[row("a", Some(i32::MIN + 1), &phases, "")], total, width, "READY", true);
                assert_eq!(text.lines().count(), 3, "{total} {width}");
            }
        }
        assert!(!draw(&[], 10, 30, "READY", true).is_empty());
    }
}
