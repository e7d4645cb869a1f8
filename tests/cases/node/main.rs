//! The node suite: a real kubelet, API server and containerd, with berthd between them.
//!
//! One node serves all tests of the binary; each test has a namespace of its own. What a test claims about an
//! order it reads from the runtime (`berth_tests::observe`). Tests that disturb the node (`faults`) run while
//! no other does.

mod admission;
mod api_server;
mod bad_input;
mod baseline;
mod broadcast_and_cron_jobs;
mod case;
mod clone_sets;
mod cluster_mode;
mod cri;
mod deployed;
mod distribution;
mod documented;
mod early_readiness;
mod exit_order;
mod fault_matrix;
mod faults;
mod full_disk;
mod handover;
mod held_back;
mod hostile;
mod images;
mod install;
mod jobs;
mod kinds;
mod launch_order;
mod manager;
mod node_labels;
mod openkruise;
mod played;
mod policies;
mod policies_missing;
mod probes;
mod recreate;
mod releases;
mod samples;
mod scraped;
mod sidecarsets;
mod slots;
mod spreads;
mod standalone;
mod standalone_requests;
mod stolen_token;
mod swaps;
mod takeover;
mod two_programs;
mod update;
mod waiting;
mod workloads;
