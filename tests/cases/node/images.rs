//! Images that are on the node before they are needed: real pulls of the real containerd from a real
//! registry.

mod again;
mod berthctl;
mod credentials;
mod faults;
mod files;
mod jobs;
mod joining;
mod node_image;
mod pins;
mod progress;
mod room;
pub(crate) mod scene;
mod seals;
mod trouble;
