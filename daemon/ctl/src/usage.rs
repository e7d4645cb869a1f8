//! Words for what went wrong: once each, and with the remedy. Pure.

use clap::{
    CommandFactory,
    error::{ContextKind, ContextValue, ErrorKind},
};

use super::cli::Cli;

/// Takes the tip away to give a flag that is not known as a value, which nobody means, and names the flag of
/// that command whose name ends so. `args`: the command line.
pub(crate) fn mended(mut error: clap::Error, args: impl Iterator<Item = String>) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
        let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
        if let Some(meant) = given.strip_prefix("--").and_then(|name| longer(name, args)) {
            error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{meant}")));
        }
    }
    error
}

/// The one flag of the command that ends in this name: `attempt-timeout` for `timeout`.
fn longer(name: &str, args: impl Iterator<Item = String>) -> Option<String> {
    let root = Cli::command();
    let command = args.skip(1).fold(&root, |command, word| command.find_subcommand(word).unwrap_or(command));
    let end = format!("-{name}");
    let mut found =
        command.get_arguments().filter_map(|flag| flag.get_long()).filter(|flag| flag.ends_with(&end));
    let flag = found.next()?;
    found.next().is_none().then(|| flag.to_owned())
}

/// A number of times.
pub(crate) fn count(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number of times; write one from 0 to {}", u16::MAX))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_flag_that_is_not_known_is_no_value_and_may_be_a_longer_one() {
        let table = [
            (&["pull", "a:1", "--timeout", "5s"][..], Some("--attempt-timeout")),
            (&["stop-pod", "--grace", "5s", "web"], None),
            (&["events", "--pod"], None),
        ];
        for (line, meant) in table {
            let line: Vec<String> = [&["berthctl"], line].concat().into_iter().map(str::to_owned).collect();
            let error = Cli::try_parse_from(&line).unwrap_err();
            let text = mended(error, line.clone().into_iter()).to_string();
            assert!(!text.contains("as a value"), "{text}");
            assert_eq!(text.contains("tip:"), meant.is_some(), "{text}");
            assert!(meant.is_none_or(|meant| text.contains(meant)), "{text}");
        }
    }
}
