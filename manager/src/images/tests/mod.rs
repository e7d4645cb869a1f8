//! Tables and conversations.
