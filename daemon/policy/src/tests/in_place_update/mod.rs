//! In-place updates: tables, conversations and random ones, against a small simulated pod.

mod asking;
mod backward;
mod bad_images;
mod batches;
mod beside;
mod crashes;
mod failures;
mod model;
mod moment;
mod one_way;
mod owners;
mod record;
mod replaced;
mod request_model;
mod requests;
mod rests;
mod swap;
mod swaps;
mod under_way;
mod updates;
mod world;
