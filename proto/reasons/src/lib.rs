//! Reasons for which a request failed: the closed list of words in the condition `Failed`.
//!
//! The manager and the agent each write some of them into requests of both kinds, and read those of the
//! other. The list is a crate of its own so that the pure policy can use it: a crate without dependencies
//! does no I/O.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+) => {
        /// Reason of a request that failed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FailureReason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl FailureReason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The CamelCase word of conditions.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

reasons! {
    /// The request makes no sense.
    InvalidRequest = "InvalidRequest",
    /// The owner of an entry did not ask for it when the node looked: it asks for something else by then.
    NotAskedFor = "NotAskedFor",
    /// The spec contradicts itself or the API.
    InvalidSpec = "InvalidSpec",
    /// The deadline of the request is over.
    DeadlineExceeded = "DeadlineExceeded",

    /// There was no pod of that name.
    PodNotFound = "PodNotFound",
    /// The pod had no node yet.
    PodNotScheduled = "PodNotScheduled",
    /// The pod was being deleted.
    PodTerminating = "PodTerminating",
    /// The pod had run to its end when the request was made.
    PodFinished = "PodFinished",
    /// The pod has run to its end.
    PodEnded = "PodEnded",
    /// The pod is being deleted, or is gone.
    PodGone = "PodGone",
    /// The kubelet replaces a static pod as a whole whenever its manifest changes.
    StaticPod = "StaticPod",
    /// The node of the request is gone.
    NodeGone = "NodeGone",
    /// The agent of the node has not taken the request up.
    AgentSilent = "AgentSilent",

    /// The pod has no container of that name.
    ContainerNotFound = "ContainerNotFound",
    /// The container runs once, before the others; or, for an update, it is any init container.
    InitContainer = "InitContainer",
    /// The container has had no instance yet.
    ContainerNotStarted = "ContainerNotStarted",
    /// A container was not recreated.
    ContainerFailed = "ContainerFailed",
    /// A container that would have to be restarted has ended for good.
    ContainerEnded = "ContainerEnded",

    /// An image could not be pulled.
    ImageNotPulled = "ImageNotPulled",
    /// The API server does not take what is asked for.
    Refused = "Refused",
    /// Crash loop: the wanted version falls over whenever it is started.
    CrashLoop = "CrashLoop",
    /// The new version of a sidecar with twins has not taken over in time.
    MigrationTimeout = "MigrationTimeout",
    /// Newer requests ask for something else of all that it names.
    Replaced = "Replaced",
    /// Another owner, which came before, wants something else of the same container or key.
    Conflict = "Conflict",
    /// An annotation that is to be merged is no JSON object.
    AnnotationNotMergeable = "AnnotationNotMergeable",
    /// The agent's identity may not write to pods.
    NotPermitted = "NotPermitted",

    /// A word that this version does not know.
    Unknown = "Failed",
}

impl FailureReason {
    /// The reason of this word.
    pub fn named(word: &str) -> Self {
        Self::ALL.iter().copied().find(|reason| reason.name() == word).unwrap_or(Self::Unknown)
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_leads_back_to_its_reason() {
        for reason in FailureReason::ALL {
            assert_eq!(FailureReason::named(reason.name()), *reason);
        }
        assert_eq!(FailureReason::named("SomethingNewer"), FailureReason::Unknown);
    }
}
