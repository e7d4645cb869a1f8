//! Collecting a request that is looked at before it goes on, within the memory that calls may take.

use h2::RecvStream;

use crate::{
    bounds::{OutOfMemory, Room},
    frames::{Assembler, TooLarge},
};

/// A request that was not read to its end.
pub(crate) enum Unassembled {
    TooLarge(TooLarge),
    OutOfMemory(OutOfMemory),
    ClientGone,
}

/// Reads a request to its end.
pub(crate) async fn assemble(mut body: RecvStream, room: &mut Room) -> Result<Assembler, Unassembled> {
    let mut assembler = Assembler::default();
    while let Some(frame) = body.data().await {
        let frame = frame.map_err(|_| Unassembled::ClientGone)?;
        // An error means that the stream is gone, and its window with it.
        let _ = body.flow_control().release_capacity(frame.len());
        room.take(frame.len()).map_err(Unassembled::OutOfMemory)?;
        assembler.push(frame).map_err(Unassembled::TooLarge)?;
    }
    Ok(assembler)
}
