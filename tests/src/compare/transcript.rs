//! Transcript of one side's answers, call by call, without what differs from run to run.

use anyhow::{Result, bail, ensure};

/// Letters of a SHA-256 in hexadecimal, and of the IDs of containerd.
const ID_LENGTH: usize = 64;

/// Lines, and the values that have to be hidden in them.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    lines: Vec<String>,
    hidden: Vec<(String, String)>,
}

impl Transcript {
    /// One more line.
    pub fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Shows a placeholder wherever this value stands, in the lines so far as well.
    pub fn hide(&mut self, value: &str, placeholder: &str) {
        if !value.is_empty() {
            self.hidden.push((value.to_owned(), format!("<{placeholder}>")));
        }
    }

    /// The lines with their placeholders.
    pub fn lines(&self) -> Vec<String> {
        let mut hidden: Vec<_> = self.hidden.iter().collect();
        // A value may be part of another one.
        hidden.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        let hide = |line: &String| {
            let known = hidden
                .iter()
                .fold(line.clone(), |line, (value, placeholder)| line.replace(value, placeholder));
            without_ids(&known)
        };
        self.lines.iter().map(hide).collect()
    }

    /// Checks that both say the same, and that they say this, in this order: what must be there tells a case
    /// in which both fail alike from one in which both succeed alike.
    pub fn check_same(direct: &Self, berthd: &Self, shows: &[&str]) -> Result<()> {
        let (direct, berthd) = (direct.lines(), berthd.lines());
        let at = direct.iter().zip(&berthd).take_while(|(one, other)| one == other).count();
        ensure!(
            at == direct.len() && at == berthd.len(),
            "different from line {at} on\n  direct: {}\n  berthd: {}\nbefore it: {:#?}",
            direct.get(at).map_or("(ended)", String::as_str),
            berthd.get(at).map_or("(ended)", String::as_str),
            &direct[..at],
        );
        let text = direct.join("\n");
        let mut rest = text.as_str();
        for expected in shows {
            let Some((_, after)) = rest.split_once(expected) else {
                bail!("{expected:?} is not there, or not in this place: {direct:#?}");
            };
            rest = after;
        }
        Ok(())
    }
}

/// Hides what nobody could name before: the runtime's IDs of its own (of a command, a digest) in error
/// messages.
fn without_ids(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(is_hex) {
        let (before, from) = rest.split_at(at);
        let word = from.find(|letter| !is_hex(letter)).unwrap_or(from.len());
        shown += before;
        shown += if word == ID_LENGTH { "<id>" } else { &from[..word] };
        rest = &from[word..];
    }
    shown + rest
}

fn is_hex(letter: char) -> bool {
    matches!(letter, '0'..='9' | 'a'..='f')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript(lines: &[&str], hidden: &[(&str, &str)]) -> Transcript {
        let mut transcript = Transcript::default();
        lines.iter().for_each(|line| transcript.say((*line).to_owned()));
        hidden.iter().for_each(|(value, placeholder)| transcript.hide(value, placeholder));
        transcript
    }

    #[test]
    fn hides_the_longer_value_first() {
        let transcript = transcript(&["ab abc a"], &[("ab", "short"), ("abc", "long"), ("", "nothing")]);
        assert_eq!(transcript.lines(), ["<short> <long> a"]);
    }

    #[test]
    fn hides_ids_that_nobody_named() {
        let id = "0123456789abcdef".repeat(4);
        let table = [
            (format!("exec {id:?} failed"), "exec \"<id>\" failed".to_owned()),
            (format!("sha256:{id}"), "sha256:<id>".to_owned()),
            // Another length is something else.
            (format!("{id}0"), format!("{id}0")),
            (id[1..].to_owned(), id[1..].to_owned()),
            ("füße".to_owned(), "füße".to_owned()),
        ];
        for (line, shown) in table {
            assert_eq!(transcript(&[&line], &[]).lines(), [shown]);
        }
    }

    #[test]
    fn what_differs_is_found() {
        type Lines = &'static [&'static str];
        let table: [(Lines, Lines, Lines, bool); 8] = [
            (&["x 1", "y"], &["x 2", "y"], &["x <id>", "y"], true),
            (&["x 1"], &["x 2"], &["x <id>", "y"], false),
            (&["x 1", "y"], &["x 2"], &[], false),
            (&["x 1"], &["x 2", "y"], &[], false),
            (&["x 3"], &["x 2"], &[], false),
            (&["x 1", "y"], &["x 2", "y"], &["y", "x"], false),
            (&["x 1", "y"], &["x 2", "y"], &["x", "id", "y"], true),
            (&["x 1"], &["x 2"], &["x", "x"], false),
        ];
        for (direct, berthd, shows, same) in table {
            let (one, other) = (transcript(direct, &[("1", "id")]), transcript(berthd, &[("2", "id")]));
            let checked = Transcript::check_same(&one, &other, shows);
            assert_eq!(checked.is_ok(), same, "{direct:?} {berthd:?} {shows:?}: {checked:?}");
        }
    }
}
