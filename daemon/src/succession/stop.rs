//! How the agent begins to end, whoever says so: a signal, or `berthctl drain`.

use berth_shim::Shutdown;
use sd_notify::NotifyState;

use crate::succession::{systemd, takeover::RuntimePlace};

/// Tells systemd, gives the runtime its place back where berthd itself is in it, and only then ends the
/// accepting: whoever is sent elsewhere finds the runtime there.
pub(crate) fn begin(shutdown: &Shutdown, place: Option<&RuntimePlace>) {
    systemd::notify(&[NotifyState::Stopping]);
    if let Some(place) = place {
        place.leave();
    }
    shutdown.token.cancel();
}
