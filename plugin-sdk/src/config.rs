//! The plugin's own section of the user's config.

use serde::de::DeserializeOwned;
use std::cell::RefCell;

thread_local! {
    static CONFIG: RefCell<String> = const { RefCell::new(String::new()) };
}

pub(crate) fn store(json: String) {
    CONFIG.set(json);
}

/// The config that the user wrote for this plugin, read as `T`; all that is missing takes `T`'s defaults.
///
/// Only plugins that export `lifecycle` are told their config; for others it is empty.
///
/// # Errors
/// The config does not fit `T`; the text says where.
pub fn config<T: DeserializeOwned>() -> Result<T, String> {
    CONFIG.with_borrow(|json| {
        let json = if json.is_empty() { "{}" } else { json };
        serde_json::from_str(json).map_err(|e| format!("config: {e}"))
    })
}
