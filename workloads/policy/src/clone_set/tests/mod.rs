//! Tables of cases, and histories played at random.

mod back;
mod claims;
mod grace;
mod hooks;
mod in_place;
mod metadata;
mod model;
mod not_up;
mod order;
mod refused;
mod retries;
mod short_lived;
mod surge;
mod worked;
mod world;
