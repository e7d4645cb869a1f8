//! Images that are on the node before they are needed: real pulls of the real containerd from a real registry.

mod again;
mod joining;
mod node_image;
mod progress;
mod scene;
mod trouble;
