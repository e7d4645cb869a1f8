//! Images, as a conversation between the sources of wishes, the agent, the kubelet and the runtime.

mod attempts;
mod joining;
mod kubelet;
mod let_go;
mod model;
mod pins;
mod play;
mod preemption;
mod sharing;
mod slots;
mod truth;
mod wishes;
