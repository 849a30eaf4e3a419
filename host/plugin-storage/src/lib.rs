//! Values that plugins store.
//!
//! The values of a plugin in one scope are one file. [`StorageLocation`] decides on its path, which depends on the
//! [`PluginIdentity`] and never on a name that a plugin chose. `journal` defines its format, [`ValueStore`] reads and
//! changes it, and [`SharedStores`] shares the open ones between calls. [`PluginStorage`] lets the application list, copy,
//! export, import and remove stored values.
//!
//! The crate does not know who may store: the caller checks grants, and passes the quota with each write.

mod contents;
mod journal;
mod place;
mod private;
mod store;
mod transfer;

pub use contents::{PluginStorage, StoredPlugin, StoredScope};
pub use place::{PluginIdentity, StorageLocation};
pub use store::{ExpectedVersion, SharedStores, StoreError, ValueStore};
pub use transfer::{ExportedValues, MAX_EXPORT_BYTES, TransferError};
