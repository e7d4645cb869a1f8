//! The seam between the data path and whoever decides.

use std::future::Future;

use berth_policy::{
    Call, CallId, ConnectionId, ContainerId, CreateContainer, CredentialKey, EnvValues, Event, HookTurn,
    Latch, Nudge, Showing, Verdict,
};
use tokio::sync::watch;

/// Authority that is asked about the calls of the intercept table. Implemented by `berthd` around the pure
/// core.
pub trait Gate: Send + Sync + 'static {
    /// May this call proceed? Never blocks. Asked again with the same call after each change while it is held.
    fn admit(&self, call: &Call) -> Verdict;

    /// Something happened on the way. Never blocks, never fails.
    fn observe(&self, event: Event);

    /// A number that grows with every change that could alter a verdict. Subscribe before asking, so that no change
    /// between the answer and the wait is lost.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Makes a latch durable before its call is forwarded. A failure is logged and counted by the implementation: the
    /// call goes on, because the latch is also in memory.
    fn persist(&self, latch: Latch) -> impl Future<Output = ()> + Send;

    /// The kubelet asks for the status of this container: what is it to see? Anything but the truth only once it is durable
    /// that the kubelet may have seen it. Asked for calls of the kubelet's connection only, and not
    /// waited for any longer when it takes its call back.
    fn shows(
        &self,
        connection: ConnectionId,
        container: &ContainerId,
    ) -> impl Future<Output = Showing> + Send;

    /// Whether [`Showing::Completed`] is what the kubelet sees of this container, wherever its status is told. Asked when the
    /// runtime has answered: the agent may have made up its mind since the question, and the answer may tell what came of that.
    /// Never blocks.
    fn is_completed(&self, container: &ContainerId) -> bool {
        let _ = container;
        false
    }

    /// The kubelet begins a lifecycle hook in this container, by a command without a time limit. The command goes on when
    /// it is durable that it may have begun, where that matters; one that had begun before is answered without it.
    fn hook_begins(
        &self,
        connection: ConnectionId,
        container: &ContainerId,
    ) -> impl Future<Output = HookTurn> + Send;

    /// The env variables whose values are known to be newer than what the kubelet may have; usually none. Asked when the call
    /// of the kubelet goes on.
    fn env(&self, create: &CreateContainer) -> EnvValues {
        let _ = create;
        EnvValues::default()
    }

    /// A client asks for an image: waits while the agent pulls just that with the same credentials, and gives the
    /// `image_ref` it got; `None` at once when it does not, and when its pull fails. Not waited for any longer when the client
    /// takes its call back.
    fn joins(
        &self,
        call: CallId,
        image: &str,
        credential: CredentialKey,
    ) -> impl Future<Output = Option<String>> + Send;

    /// The entries to add to the answer of this relist of the kubelet, usually none. Asked after
    /// [`Event::RelistAsked`]; they count as delivered at [`Event::RelistAnswered`]. Not asked for lists of the kubelet
    /// that look like those of its log rotation or statistics, on which a nudge would be lost.
    fn nudges(&self, relist: CallId) -> Vec<Nudge>;
}
