//! The plugin's section of the user's config.

use serde::de::DeserializeOwned;
use std::cell::RefCell;

thread_local! {
    static CONFIG: RefCell<String> = const { RefCell::new(String::new()) };
}

pub(crate) fn store(json: String) {
    CONFIG.set(json);
}

/// Deserializes the plugin's section of the user's config; missing fields take `T`'s defaults.
///
/// Only plugins that export `lifecycle` receive their config; others read an empty one.
///
/// # Errors
/// A message with the position if the config does not match `T`.
pub fn config<T: DeserializeOwned>() -> Result<T, String> {
    CONFIG.with_borrow(|json| {
        let json = if json.is_empty() { "{}" } else { json };
        serde_json::from_str(json).map_err(|e| format!("config: {e}"))
    })
}
