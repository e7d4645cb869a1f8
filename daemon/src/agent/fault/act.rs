//! Actions at a fault point.

use std::{ffi::OsString, fs, process};

use nix::{
    sys::signal::{Signal, kill, raise},
    unistd::Pid,
};

use super::Point;

/// Reads the file, and does what it says when it means this point.
pub(super) fn at(point: Point) {
    let Some(file) = std::env::var_os("BERTH_FAULT_FILE") else { return };
    let Ok(text) = fs::read_to_string(&file) else { return };
    let mut words = text.split_whitespace();
    // Of several threads that come here at once, one removes the file.
    if words.next() != Some(point.name()) || fs::remove_file(&file).is_err() {
        return;
    }
    say(file);
    if words.next() == Some("pause") {
        // To this thread, which is the one that may not go a step further; the others stop with it.
        let _ = raise(Signal::SIGSTOP);
        return;
    }
    let _ = kill(Pid::this(), Signal::SIGKILL);
    // The signal is on its way; nothing else may happen before it arrives.
    loop {
        std::thread::park();
    }
}

/// All at once: whoever reads it reads all of it.
fn say(mut file: OsString) {
    let new = {
        let mut new = file.clone();
        new.push(".new");
        new
    };
    file.push(".reached");
    // A driver that hears nothing fails with that.
    let _ = fs::write(&new, process::id().to_string()).and_then(|()| fs::rename(&new, &file));
}
