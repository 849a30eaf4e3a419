//! Conversion between the contract's types and the types of the crate `pinion-plugin-storage`.

use crate::bindings::pinion::plugin::storage::StorageError;
use pinion_plugin_storage::StoreError;

impl From<StoreError> for StorageError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(text) => Self::Invalid(text),
            StoreError::Quota(left) => Self::QuotaExceeded(left),
            StoreError::Changed => Self::Changed,
            StoreError::Io(text) => Self::Io(text),
        }
    }
}
