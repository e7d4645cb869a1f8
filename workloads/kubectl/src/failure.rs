//! Words for what went wrong: once each, and with the remedy. Pure.

use berth_proto::{causes, text::lines};
use clap::error::{ContextKind, ErrorKind};

/// A failure as kubectl prints it. Words of objects may be in it.
pub(crate) fn failure(error: &anyhow::Error) -> String {
    let text = match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => {
            let reason =
                if status.reason.is_empty() { String::new() } else { format!(" ({})", status.reason) };
            format!("Error from server{reason}: {}", status.message)
        }
        _ => format!("error: {}", causes::once(error.as_ref())),
    };
    lines(&text)
}

/// Takes the tip away to give a flag that is not known as a value: no object has such a name.
pub(crate) fn mended(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument {
        error.remove(ContextKind::Suggested);
    }
    error
}

/// The cause of all causes: the layers above it say only that they could not go on.
pub(crate) fn innermost(mut error: &(dyn std::error::Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        #[derive(Debug)]
        struct Read(std::io::Error);
        impl std::fmt::Display for Read {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "not read: {}", self.0)
            }
        }
        impl std::error::Error for Read {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = Err::<(), _>(Read(std::io::Error::other("disk on fire"))).context("--kubeconfig a");
        let error = error.unwrap_err();
        assert_eq!(failure(&error), "error: --kubeconfig a: not read: disk on fire");
        assert_eq!(innermost(error.as_ref()), "disk on fire");
    }

    #[test]
    fn a_failure_tells_a_terminal_nothing() {
        let error = anyhow::anyhow!("crr/a failed: no image \u{1b}]0;a\u{7}\nb");
        assert_eq!(failure(&error), "error: crr/a failed: no image  ]0;a \nb");
    }
}
