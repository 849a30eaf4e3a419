//! Models that run in this process: the feature `local-models`.

pub(crate) mod commands;
mod download;

use pinion_app::failure::{Failure, Result};
use pinion_app::model::in_process::{InProcessModel, InProcessModels, InstalledModel};
use pinion_app::workspace_base::Base;
use pinion_local_models::{LocalProvider, ModelHost, ModelStore, StoreError, load_model, read_summary};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// Time after which an unused model is released.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// The models in the store, each loaded once for all runs of the process.
struct StoredModels {
    store: ModelStore,
    hosts: Mutex<BTreeMap<String, Arc<ModelHost>>>,
}

/// Adds the models to the data of a command.
pub(crate) fn attached(base: Base) -> Base {
    static MODELS: OnceLock<Arc<StoredModels>> = OnceLock::new();
    let models = MODELS.get_or_init(|| Arc::new(StoredModels { store: store(&base), hosts: Mutex::default() }));
    Base { in_process: Some(models.clone()), ..base }
}

/// Returns the store of the user's models.
fn store(base: &Base) -> ModelStore {
    ModelStore::new(base.paths.models())
}

impl InProcessModels for StoredModels {
    fn find(&self, name: &str) -> Result<InProcessModel> {
        let path = self.store.find(name).map_err(store_failure)?;
        let summary = read_summary(&path).map_err(|error| Failure::failed("cannot use the model").because(error))?;
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host =
            hosts.entry(name.to_owned()).or_insert_with(|| ModelHost::new(Arc::new(move || load_model(&path)), IDLE));
        let provider = Arc::new(LocalProvider::new(host.clone()));
        Ok(InProcessModel { provider, context_window: summary.window })
    }

    fn list(&self) -> Vec<InstalledModel> {
        let listed = self.store.list().unwrap_or_default().into_iter();
        let usable = listed.filter_map(|model| Some((model.name, model.bytes, model.content.ok()?)));
        usable.map(|(name, bytes, content)| InstalledModel { name, bytes, context_window: content.window }).collect()
    }
}

/// Turns an error of the store into a failure of the command.
fn store_failure(error: StoreError) -> Failure {
    let hint = match &error {
        StoreError::Unknown(_) => {
            "`pinion model list` lists the models of this machine, and `pinion model pull` adds one"
        }
        StoreError::Space(_) => "remove a model with `pinion model remove NAME`, or set PINION_HOME to another disk",
        StoreError::Digest { .. } => "the source sent another file than you named, so it was removed",
        StoreError::Name(_) | StoreError::Model(_) | StoreError::File { .. } => return Failure::failed(error),
    };
    Failure::usage(error).hint(hint)
}
