//! Recreate, as a conversation between a request, the agent, the kubelet and the runtime.

mod crowd;
mod ended;
mod play;
mod requests;
mod silence;
mod taken_over;
mod unlisted;
