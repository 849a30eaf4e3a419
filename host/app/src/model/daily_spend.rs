//! The limit on the money that all processes of the user spend in one day.
//!
//! A file for each day has the sum. Before each turn of a run or a sub-agent, the process adds the cost that the ledger
//! of requests has counted since the last addition, and denies the turn if the limit is reached. A day can therefore
//! exceed the limit by the cost of the turns in progress.

use crate::files::private::{create_directory, lock, read_settings, replace};
use crate::model::exchanges::Exchanges;
use crate::workspace_base::Base;
use futures_util::future::BoxFuture;
use pinion_agent::Hooks;
use pinion_agent::hooks::HookVerdict;
use pinion_agent::{Context, Outcome};
use pinion_attribution::RequestLedger;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// The directory of the files, in the directory of the user's data.
pub(super) const DIRECTORY: &str = "spend";

/// Denies turns when the day's limit is reached.
pub(crate) struct DailyLimit {
    /// US dollars.
    limit: f64,
    directory: PathBuf,
    exchanges: Exchanges,
    ledger: Arc<RequestLedger>,
    /// US dollars of this process that are in a file.
    noted: Mutex<f64>,
}

impl DailyLimit {
    /// Returns the limit in the config; `None` if there is none.
    pub(crate) fn from_config(base: &Base) -> Option<Arc<Self>> {
        let limit = base.config.daily_limit?;
        let (directory, exchanges) = (base.paths.data.join(DIRECTORY), base.exchanges.clone());
        Some(Arc::new(Self { limit, directory, exchanges, ledger: base.requests.clone(), noted: Mutex::default() }))
    }

    /// Adds the spend since the last call to the file of today, and returns the sum of today.
    fn settle(&self) -> io::Result<f64> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = self.ledger.spent();
        let sum = add_to_day(&self.directory, &self.exchanges.date().to_string(), spent - *noted)?;
        *noted = spent.max(*noted);
        Ok(sum)
    }
}

/// Adds to the sum of a day, which a file in `directory` has, and returns the sum.
pub(super) fn add_to_day(directory: &Path, date: &str, dollars: f64) -> io::Result<f64> {
    create_directory(directory)?;
    let file = directory.join(date);
    let _held = lock(&directory.join("lock"))?;
    let before = match read_settings(&file)? {
        Some(text) => text.trim().parse::<f64>().map_err(io::Error::other)?,
        None => 0.0,
    };
    let sum = before + dollars.max(0.0);
    if dollars > 0.0 {
        replace(&file, format!("{sum}\n").as_bytes())?;
    }
    Ok(sum)
}

impl Hooks for DailyLimit {
    fn before_turn<'a>(&'a self, _: &'a Context, _: u32, _: &'a CancellationToken) -> BoxFuture<'a, HookVerdict> {
        let verdict = match self.settle() {
            Ok(sum) if sum < self.limit => HookVerdict::Pass,
            Ok(_) => HookVerdict::Deny(format!(
                "reached the limit of {} US dollars a day (`limits.max-cost-per-day`)",
                self.limit
            )),
            Err(error) => HookVerdict::Deny(format!(
                "cannot read or write the money spent today in `{}`: {error}",
                self.directory.display()
            )),
        };
        Box::pin(async { verdict })
    }

    fn after_run<'a>(&'a self, _: &'a Outcome, _: &'a CancellationToken) -> BoxFuture<'a, ()> {
        if let Err(error) = self.settle() {
            tracing::warn!(%error, "the money spent today is not counted");
        }
        Box::pin(async {})
    }
}
