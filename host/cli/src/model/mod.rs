//! Models and providers: which one a run uses, with which key, at which address, at which prices.

pub(crate) mod browser_login;
mod environment;
pub(crate) mod exchanges;
pub(crate) mod info;
mod lacking;
mod prices;
mod select;
mod served_window;
mod stored_keys;
mod unlisted;

pub(crate) use self::environment::proxies_or;
pub(crate) use self::lacking::Lacking;
pub(crate) use self::select::Chosen;
pub(crate) use self::stored_keys::{MAX_KEY, key_in};
pub(crate) use crate::files::secret_place::Place;
