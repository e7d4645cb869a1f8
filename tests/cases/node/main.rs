//! The node suite.
