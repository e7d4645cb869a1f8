//! The HTTP/2 settings of both sides, in one place because they only make sense together.
//!
//! The peers are the kubelet and the runtime, both root on this node, so h2's guards against floods by
//! strangers are opened wide: a burst of cancelled calls must not cost the kubelet its connection. No side
//! ever sends a keepalive PING (a grpc-go server answers those with GOAWAY), and no window adapts: a unix
//! socket has no delay to measure.

use h2::{client, server};

use crate::bounds::STREAMS;

/// Bytes that a peer may send before we have passed them on: what a client that does not read makes us keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// On one stream. A list of 500 containers is 445 kB.
    stream: u32,
    /// Over all streams of a connection. Streams that nobody reads must not use it up, or all other calls
    /// of the connection stand still with them: grpc-go has no such sum at all, for that reason.
    connection: u32,
}

/// grpc-go's own limit; an error text of a runtime easily exceeds the usual 16 KiB.
const MAX_HEADER_LIST: u32 = 16 << 20;
/// The largest DATA frame we take. Not larger: h2 derives the number of CONTINUATION frames it accepts from
/// this and the header limit, and grpc-go cuts headers at 16 KiB, so that 1 MiB here would break an error
/// text above 320 kB.
const MAX_FRAME: u32 = 64 << 10;
/// Bytes that h2 may queue for one stream before it withholds capacity.
const SEND_BUFFER: usize = 1 << 20;
/// Streams reset before they were looked at. More than one read of the socket can bring.
const PENDING_RESETS: usize = 1 << 16;
/// Streams reset by us that h2 keeps in memory for their late frames. Frames of those it has forgotten are
/// answered with one more reset, which costs less than remembering ten thousand of them.
const REMEMBERED_RESETS: usize = 256;
/// The overhead of small DATA frames that wait for a slow reader; the stream window bounds them as well.
const SMALL_FRAMES: usize = 64 << 20;

// === impl Windows ===

impl Windows {
    /// Windows of a connection for the kubelet, or for another client, of which there may be a thousand.
    pub(crate) fn of(kubelet: bool) -> Self {
        match kubelet {
            true => Self { stream: 4 << 20, connection: 128 << 20 },
            // Sixty-four answers that it does not read.
            false => Self { stream: 512 << 10, connection: 32 << 20 },
        }
    }
}

/// Towards the client.
pub(crate) fn server(windows: Windows) -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_header_list_size(MAX_HEADER_LIST)
        .max_frame_size(MAX_FRAME)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(REMEMBERED_RESETS)
        .max_pending_accept_reset_streams(PENDING_RESETS)
        .max_local_error_reset_streams(None)
        .data_frame_budget(SMALL_FRAMES);
    builder
}

/// Towards the runtime.
pub(crate) fn client(windows: Windows) -> client::Builder {
    let mut builder = client::Builder::new();
    builder
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_header_list_size(MAX_HEADER_LIST)
        .max_frame_size(MAX_FRAME)
        .max_send_buffer_size(SEND_BUFFER)
        .max_concurrent_reset_streams(REMEMBERED_RESETS)
        .max_local_error_reset_streams(None)
        .data_frame_budget(SMALL_FRAMES)
        .enable_push(false);
    builder
}
