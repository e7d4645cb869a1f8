//! The same CRI calls along two paths, and what each of them answered.
//!
//! A [`Side`] is one of the two paths to a runtime: directly, or through berthd. What happens there is
//! written into a transcript in which everything that differs from run to run (IDs, ports, addresses) has a
//! placeholder, so that the transcripts of both sides can be compared as they are. It speaks HTTP/2 frames
//! itself: what it compares is what arrived, not what a gRPC library made of it.

mod channels;
mod messages;
mod methods;
mod side;
mod transcript;
mod websocket;

pub use self::channels::{Channels, Ended, Opened, RESIZE, STDERR, STDIN, STDOUT};
pub use self::messages::*;
pub use self::methods::Call;
pub use self::side::{PATIENCE, Refused, Side, code};
pub use self::transcript::Transcript;
pub use self::websocket::{Handshake, WebSocket};
