//! `berthctl completion` and `berthctl man`: what shells and readers of manuals need, made from the command
//! line as it is.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::cli::Cli;
use super::output;

/// Flags of `completion`.
#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_enum, value_name = "bash|elvish|fish|powershell|zsh", hide_possible_values = true)]
    pub shell: Shell,
}

/// Flags of `man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Directory that gets the pages, such as /usr/local/share/man/man1; it is made where it is not there
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
}

/// Runs `completion`.
pub(crate) fn completion(args: &CompletionArgs) -> Result<()> {
    output::print(&script(args.shell))
}

/// Runs `man`.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    pages(&args.to).with_context(|| format!("write the pages to {}", args.to.display()))
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "berthctl", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn pages(to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    clap_mangen::generate_to(Cli::command(), to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_completes_commands_and_flags() {
        for shell in [Shell::Bash, Shell::Elvish, Shell::Fish, Shell::PowerShell, Shell::Zsh] {
            let script = script(shell);
            for word in ["stop-pod", "explain", "no-trunc", "completion"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("man1");
        pages(&to).unwrap();
        let page = |name: &str| std::fs::read_to_string(to.join(format!("{name}.1"))).unwrap();
        for command in Cli::command().get_subcommands() {
            let page = page(&format!("berthctl-{}", command.get_name()));
            assert!(page.contains(".SH DESCRIPTION"), "{page}");
        }
        assert!(page("berthctl").contains("stop\\-pod"));
        assert!(page("berthctl-get-requests").contains("the oldest first"));
        assert!(!to.join("berthctl-run.1").exists(), "an old name has no page of its own");
    }
}
