//! gRPC on top of frames, as little of it as the fakes need.

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;

/// A message with its five-byte prefix, not compressed.
pub fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(5 + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Trailers (or, in a trailers-only answer, headers) with this status.
pub fn grpc_status(code: u32, message: &str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.into());
    if let Ok(message) = message.parse() {
        trailers.insert("grpc-message", message);
    }
    trailers
}
