//! Messages of the CRI v1 (`runtime.v1`), as far as Berth reads or writes them.
//!
//! They are a package of their own for the data path: `berth-shim` reads messages, and has no use for the
//! clients, the TLS and the kinds of the API server that `berth-proto` needs. All others have them from
//! there, as `berth_proto::cri`, with the services.

#![allow(missing_docs, clippy::all, clippy::use_self, reason = "generated code")]

include!(concat!(env!("OUT_DIR"), "/runtime.v1.rs"));
