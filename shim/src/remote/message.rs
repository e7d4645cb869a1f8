//! Messages of the line, as they lie on the wire. Either side may be the newer one: fields are only ever
//! added, and a word that is not known is passed over.

mod answer;
mod event;
mod table;

use prost::{Message, Oneof};

pub(crate) use self::{
    answer::{AnswerTo, Answers, HeldCall, NudgeOf, Nudges, Refused},
    event::{ContainerMade, EventTold, Happened, HookMade, HookOver, Relist, SandboxMade},
    table::{ContainerRow, EnvOf, EnvValue, PodRow, SandboxRow, TableChange},
};

/// A word of the agent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ToShim {
    #[prost(oneof = "Said", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9")]
    pub(crate) said: Option<Said>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Said {
    #[prost(message, tag = "1")]
    Hello(AgentHello),
    #[prost(message, tag = "2")]
    Table(TableChange),
    #[prost(message, tag = "3")]
    Answer(AnswerTo),
    #[prost(message, tag = "4")]
    Held(HeldCall),
    #[prost(message, tag = "5")]
    Pong(Nothing),
    /// The first and only word of whoever wants to know who is there.
    #[prost(message, tag = "6")]
    Look(Nothing),
    /// The first and only word of whoever wants a new process of the program in the place of this one.
    #[prost(message, tag = "7")]
    Upgrade(Nothing),
    /// The first and only word of whoever exports the metrics.
    #[prost(message, tag = "8")]
    Scrape(Nothing),
    /// The first and only word of whoever wants it to end with its last open call.
    #[prost(message, tag = "9")]
    Drain(Nothing),
}

/// A word of the shim.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ToAgent {
    #[prost(oneof = "Told", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")]
    pub(crate) told: Option<Told>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Told {
    #[prost(message, tag = "1")]
    Hello(ShimHello),
    #[prost(message, tag = "2")]
    Question(Question),
    #[prost(uint64, tag = "3")]
    Withdrawn(u64),
    #[prost(message, tag = "4")]
    Passed(CallMade),
    #[prost(message, tag = "5")]
    Event(EventTold),
    #[prost(message, tag = "6")]
    Ping(Nothing),
    #[prost(message, tag = "7")]
    Counts(Counts),
    #[prost(message, tag = "8")]
    CaughtUp(Nothing),
    /// Another process has the sockets now. What is under way here is told here to its end.
    #[prost(message, tag = "9")]
    Succeeded(Nothing),
    #[prost(message, tag = "10")]
    State(ShimState),
    #[prost(message, tag = "11")]
    Stage(UpgradeStage),
    /// OpenMetrics.
    #[prost(string, tag = "12")]
    Metrics(String),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AgentHello {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    #[prost(string, tag = "2")]
    pub(crate) program: String,
    #[prost(fixed64, tag = "3")]
    pub(crate) credential_key_0: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) credential_key_1: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ShimHello {
    #[prost(uint32, tag = "1")]
    pub(crate) version: u32,
    #[prost(string, tag = "2")]
    pub(crate) program: String,
    #[prost(fixed64, tag = "3")]
    pub(crate) process: u64,
    #[prost(uint64, repeated, tag = "4")]
    pub(crate) connections: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Counts {
    #[prost(int64, tag = "1")]
    pub(crate) connections: i64,
    #[prost(int64, tag = "2")]
    pub(crate) kubelet: i64,
    #[prost(int64, tag = "3")]
    pub(crate) held: i64,
}

/// State of a `berth-shim`, as it tells it to people.
#[derive(Clone, PartialEq, Message)]
pub struct ShimState {
    /// Version of the program.
    #[prost(string, tag = "1")]
    pub program: String,
    /// Its process.
    #[prost(uint32, tag = "2")]
    pub pid: u32,
    /// Whether an agent is there, and has said all that it knows.
    #[prost(bool, tag = "3")]
    pub agent: bool,
    /// Version of the last change of its table.
    #[prost(uint64, tag = "4")]
    pub table: u64,
    /// Client connections that are open.
    #[prost(int64, tag = "5")]
    pub connections: i64,
    /// Connections among them that are the kubelet's.
    #[prost(int64, tag = "6")]
    pub kubelet: i64,
    /// Calls that wait.
    #[prost(int64, tag = "7")]
    pub held: i64,
    /// Version of the line.
    #[prost(uint32, tag = "8")]
    pub line: u32,
    /// System calls beyond those that it needs are refused. One that knows no filter does not say.
    #[prost(bool, optional, tag = "9")]
    pub filtered: Option<bool>,
    /// Bytes of data that it may have; 0: as many as there are.
    #[prost(uint64, tag = "10")]
    pub memory_limit: u64,
}

/// Stage of an upgrade of `berth-shim`.
#[derive(Clone, PartialEq, Message)]
pub struct UpgradeStage {
    /// The new process.
    #[prost(uint32, tag = "1")]
    pub pid: u32,
    /// Version that it gives itself.
    #[prost(string, tag = "2")]
    pub version: String,
    /// It serves. The last stage.
    #[prost(bool, tag = "3")]
    pub ready: bool,
    /// The reason why it does not, and the old one goes on. The last stage, too.
    #[prost(string, tag = "4")]
    pub error: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Question {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(oneof = "Asks", tags = "2, 3, 4, 5, 6")]
    pub(crate) asks: Option<Asks>,
    /// Told to an agent whose table wants to know.
    #[prost(message, optional, tag = "7")]
    pub(crate) trace: Option<Trace>,
}

/// The span of a client. An identity of zero is none.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Trace {
    #[prost(fixed64, tag = "1")]
    pub(crate) trace_0: u64,
    #[prost(fixed64, tag = "2")]
    pub(crate) trace_1: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) span: u64,
    #[prost(bool, tag = "4")]
    pub(crate) sampled: bool,
}

#[expect(clippy::large_enum_variant, reason = "nearly every question is about a call")]
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Asks {
    #[prost(message, tag = "2")]
    Call(CallMade),
    #[prost(message, tag = "3")]
    Status(OfContainer),
    #[prost(message, tag = "4")]
    Hook(OfContainer),
    #[prost(uint64, tag = "5")]
    Relist(u64),
    #[prost(message, tag = "6")]
    Pull(PullMade),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OfContainer {
    #[prost(uint64, tag = "1")]
    pub(crate) connection: u64,
    #[prost(string, tag = "2")]
    pub(crate) container: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PullMade {
    #[prost(uint64, tag = "1")]
    pub(crate) call: u64,
    #[prost(string, tag = "2")]
    pub(crate) image: String,
    #[prost(fixed64, tag = "3")]
    pub(crate) credential: u64,
}

/// Times are in nanoseconds from when the message is written.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CallMade {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) connection: u64,
    #[prost(uint64, tag = "3")]
    pub(crate) age_ns: u64,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) left_ns: Option<u64>,
    #[prost(oneof = "Wants", tags = "5, 6")]
    pub(crate) wants: Option<Wants>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Wants {
    #[prost(message, tag = "5")]
    Create(Create),
    #[prost(message, tag = "6")]
    Stop(Stop),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Create {
    #[prost(string, tag = "1")]
    pub(crate) sandbox: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) pod: Option<Pod>,
    #[prost(string, tag = "3")]
    pub(crate) container: String,
    #[prost(uint32, tag = "4")]
    pub(crate) attempt: u32,
    #[prost(message, optional, tag = "5")]
    pub(crate) declared: Option<Declares>,
    #[prost(string, repeated, tag = "6")]
    pub(crate) images: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Stop {
    #[prost(string, tag = "1")]
    pub(crate) container: String,
    #[prost(uint64, tag = "2")]
    pub(crate) timeout_s: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pod {
    #[prost(string, tag = "1")]
    pub(crate) uid: String,
    #[prost(string, tag = "2")]
    pub(crate) namespace: String,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Declares {
    #[prost(oneof = "Plan", tags = "1, 2")]
    pub(crate) plan: Option<Plan>,
    #[prost(bool, tag = "3")]
    pub(crate) hinted: bool,
    #[prost(bool, tag = "4")]
    pub(crate) foreign: bool,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Plan {
    #[prost(message, tag = "1")]
    Entries(PlanEntries),
    #[prost(message, tag = "2")]
    Unreadable(BadOrder),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlanEntries {
    #[prost(message, repeated, tag = "1")]
    pub(crate) entries: Vec<PlanEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlanEntry {
    #[prost(string, tag = "1")]
    pub(crate) container: String,
    #[prost(sint64, tag = "2")]
    pub(crate) priority: i64,
}

/// `kind` is the number of the error.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BadOrder {
    #[prost(uint32, tag = "1")]
    pub(crate) kind: u32,
    #[prost(string, tag = "2")]
    pub(crate) container: String,
    #[prost(string, tag = "3")]
    pub(crate) text: String,
    #[prost(sint64, tag = "4")]
    pub(crate) number: i64,
}
