//! The shim between a fake kubelet and a fake runtime, over unix sockets in a temporary directory, in one
//! process.
//!
//! | Module | Shows |
//! |---|---|
//! | `fidelity` | every method, known or not, passes byte-identical, both ways, whole or in pieces |
//! | `frames` | frames of all kinds pass, and peers that use HTTP/2 to its limits stop nobody |
//! | `endings` | every way a call can end reaches the other side as what it was |
//! | `replay` | what the runtime did not process is sent once more, and nothing else is |
//! | `gate` | held, released, cancelled, refused, changed; and what the policy hears |
//! | `exceptions` | what the kubelet alone is told beyond the runtime's words, and that it is nothing else |
//! | `looks` | looks of others are not the kubelet's, and answers that are edited have no empty frames |
//! | `restart` | a shim that is killed or replaced leaves nothing half-done |
//! | `bounds` | too much of anything is shed and counted, and the kubelet goes on |
//! | `bad_input` | a clear error for each kind of nonsense, and no harm to other calls |
//! | `two_programs` | a `berthd` that is killed, stopped or away costs no call that passes through `berth-shim` |
//! | `canary` | no Secret and no env value in logs, answers or files (a whole `berthd`) |

#![allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should")]
// What a case stands on is as much a test as the case.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod bounds;
mod canary;
mod endings;
mod exceptions;
mod fidelity;
mod frames;
mod gate;
mod looks;
mod pulls;
mod raw;
mod replay;
mod restart;
mod script;
mod two_programs;
mod world;
