//! The stores in use, shared by all calls of a process.

use crate::place::StorageLocation;
use crate::store::ValueStore;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Stores that stay open between calls. An open one costs memory for its keys, and no file handle.
const MAX_OPEN: usize = 32;

/// The stores in use, by the path of their file.
#[derive(Default)]
pub struct SharedStores {
    open: Mutex<OpenStores>,
}

#[derive(Default)]
struct OpenStores {
    /// Each with the time of its last use.
    stores: HashMap<PathBuf, (u64, Arc<ValueStore>)>,
    time: u64,
}

impl SharedStores {
    /// Returns the store of a file, the same for all calls that use it at the same time.
    pub fn at(&self, place: StorageLocation) -> Arc<ValueStore> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.time += 1;
        let now = open.time;
        if let Some((used, store)) = open.stores.get_mut(&place.values) {
            *used = now;
            return store.clone();
        }
        if open.stores.len() >= MAX_OPEN {
            open.forget_one();
        }
        let (path, store) = (place.values.clone(), Arc::new(ValueStore::new(place)));
        open.stores.insert(path, (now, store.clone()));
        store
    }
}

impl OpenStores {
    /// Drops the store that no call uses and whose last use is the longest ago.
    fn forget_one(&mut self) {
        let idle = self.stores.iter().filter(|(_, (_, store))| Arc::strong_count(store) == 1);
        if let Some(path) = idle.min_by_key(|(_, (used, _))| *used).map(|(path, _)| path.clone()) {
            self.stores.remove(&path);
        }
    }
}
