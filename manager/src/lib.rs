//! Berth's manager: the small centre.
//!
//! It says on which node a request is to be carried out and on which instances of which containers, and ends those that
//! no agent can end. Everything that touches a container happens on its node, by the agent there, and a request that an
//! agent has goes on while no manager runs.
//!
//! [`index`] decides and is pure; [`watch`] and [`wire`] feed it, [`centre`] owns it, [`writer`] carries out what it
//! decided, [`lease`] says who may. [`notices`] says of kinds without a feature behind them that nothing acts on them.
//!
//! What the manager never does: write anything but `status` of Berth's own kinds and its Lease; touch a pod or a node;
//! delete; read a Secret.

pub mod centre;
pub mod config;
pub mod health;
pub mod http;
pub mod index;
pub mod lease;
pub mod metrics;
pub mod notices;
pub mod run;
pub mod telemetry;
pub mod watch;
pub mod wire;
pub mod writer;
