//! Small helpers that any room may use and that use none: errors as one line, deadlines and clocks, files
//! that are replaced, quantities, sockets, connections of a server, an HTTP client.

pub use berth_proto::causes;
pub(crate) use berth_proto::text;

pub(crate) mod clock;
pub(crate) mod connections;
pub mod deadline;
pub mod durable;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod extremes;
pub(crate) mod http_get;
pub mod quantity;
pub(crate) mod status;
pub mod unix;
pub mod yaml;
