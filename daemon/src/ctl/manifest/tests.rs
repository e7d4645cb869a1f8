//! Tables of manifests and what becomes of them.
