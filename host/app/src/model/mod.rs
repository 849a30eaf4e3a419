//! Models and providers: the choice for a run, with its key, address and prices.

pub mod browser_login;
mod environment;
pub mod exchanges;
pub mod info;
mod key_check;
mod ollama_lookup;
mod prices;
mod select;
mod served_window;
mod stored_keys;

pub use self::environment::proxies_or;
pub use self::key_check::KeyVerdict;
pub use self::select::Chosen;
pub use self::stored_keys::{Lacking, MAX_KEY, key_in};
pub use crate::files::secret_storage::SecretLocation;
