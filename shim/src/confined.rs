//! Confinement of the data path, for whoever asks: it is told over the line and in the metrics.

/// Confinement of a process of the data path, as it is told to whoever asks how that one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confined {
    /// System calls beyond those that it needs are refused.
    pub filtered: bool,
    /// Bytes of data that it may have.
    pub memory_limit: Option<u64>,
}
