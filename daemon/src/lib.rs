//! placeholder

pub mod ctl;
