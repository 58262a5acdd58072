//! The store: runs and their records in one SQLite file.
//!
//! A record is written once, in one transaction with its trial, and never changes. Nothing is written outside an
//! explicit call, and nothing but the one file remains: a rollback journal exists only while a transaction runs.

mod checksum;
mod error;
mod experiments;
mod place;
mod read;
mod resolve;
mod schema;
mod store;
pub mod transfer;
mod views;

pub use error::StoreError;
pub use experiments::StoredPlan;
pub use place::default_path;
pub use read::{Filter, RunState, RunSummary, StoredRun};
pub use schema::FORMAT;
pub use store::{Store, Writer};
