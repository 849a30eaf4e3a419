//! The plugin's section of the user's config.

use serde::de::DeserializeOwned;
use std::cell::RefCell;

thread_local! {
    static CONFIG: RefCell<String> = const { RefCell::new(String::new()) };
}

pub(crate) fn store(json: String) {
    CONFIG.set(json);
}

/// Deserializes the plugin's section of the user's config as it was when the instance was created; missing fields take
/// `T`'s defaults.
///
/// Only plugins that export `lifecycle` receive their config; others read an empty one, and use [`current_config`].
///
/// # Errors
/// A message with the position if the config does not match `T`.
pub fn config<T: DeserializeOwned>() -> Result<T, String> {
    CONFIG.with_borrow(|json| {
        let json = if json.is_empty() { "{}" } else { json };
        serde_json::from_str(json).map_err(|e| format!("config: {e}"))
    })
}

/// Deserializes the plugin's section of the user's config as it is now, also in plugins that do not export `lifecycle`. Calls
/// the host.
///
/// # Errors
/// A message with the position if the config does not match `T`.
pub fn current_config<T: DeserializeOwned>() -> Result<T, String> {
    #[cfg(target_arch = "wasm32")]
    store(crate::settings::current());
    config()
}
