//! Tasks and results of Harbor, which runs evaluations on many machines.

mod export;
mod import;
mod verifier;

pub use self::export::{ExportedTasks, export_tasks};
pub use self::import::import_job;
