//! Probes, as a conversation between those who want them, the agent, the containers and the API server.

mod budget;
mod marks;
mod memory;
mod model;
mod play;
mod report;
mod rest;
mod schedule;
mod states;
mod strain;
mod tell;
mod truth;
mod writes;
