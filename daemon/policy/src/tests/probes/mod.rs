//! Probes, as a conversation between those who want them, the agent, the containers and the API server.

mod backlog;
mod budget;
mod marks;
mod memory;
mod model;
mod play;
mod pod_events;
mod refusal;
mod report;
mod rest;
mod schedule;
mod states;
mod truth;
mod writes;
