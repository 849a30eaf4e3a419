//! Values that the host keeps for the plugin, across calls and sessions. Needs the grant `storage`.
//!
//! The functions on bytes are those of the contract. [`get_json`], [`set_json`] and [`update`] store any type that serde
//! knows. Calls of a plugin run concurrently, also in several processes: change a value with [`update`], which loses no
//! change.
//!
//! ```
//! use pinion_plugin_sdk::prelude::*;
//! use pinion_plugin_sdk::storage::{self, Scope};
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Notes {
//!     lines: Vec<String>,
//! }
//!
//! /// Adds a note of this workspace and returns how many there are.
//! fn add(line: &str) -> Result<usize> {
//!     storage::update(Scope::Workspace, "notes", |notes: &mut Notes| {
//!         notes.lines.push(line.to_owned());
//!         Ok(notes.lines.len())
//!     })
//! }
//!
//! assert_eq!((add("milk")?, add("bread")?), (1, 2));
//! let notes: Option<Notes> = storage::get_json(Scope::Workspace, "notes")?;
//! assert_eq!(notes.unwrap_or_default().lines, ["milk", "bread"]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Native tests have a storage in memory, one for each thread; see [`crate::testing::clear_storage`].

use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::bindings::imports::pinion::plugin::storage::{Scope, StorageError, Stored};

/// Attempts of [`update`]. Each fails only because another one succeeded.
const MAX_ATTEMPTS: u32 = 1000;

/// Returns a value and its version, if there is one.
///
/// # Errors
/// `denied` without the grant, `invalid` for an unusable key, `io` if the value cannot be read.
pub fn get(scope: Scope, key: &str) -> Result<Option<Stored>, StorageError> {
    host::get(scope, key)
}

/// Writes a value and returns its version. It is on the disk when the function returns.
///
/// # Errors
/// As [`get`], and `quota-exceeded` if the value does not fit.
pub fn set(scope: Scope, key: &str, value: &[u8]) -> Result<u32, StorageError> {
    host::set(scope, key, value)
}

/// Writes a value that still has the expected version; `None` if there must be no value.
///
/// # Errors
/// As [`set`], and `changed` if it has another version. Nothing is written then.
pub fn replace(scope: Scope, key: &str, expected: Option<u32>, value: &[u8]) -> Result<u32, StorageError> {
    host::replace(scope, key, expected, value)
}

/// Removes a value, if there is one.
///
/// # Errors
/// As [`get`].
pub fn remove(scope: Scope, key: &str) -> Result<(), StorageError> {
    host::remove(scope, key)
}

/// Lists up to `limit` keys (1 to 1,000) that begin with `prefix` and follow `after`, in the order of their bytes.
///
/// # Errors
/// As [`get`], and `invalid` for a limit that is out of range.
pub fn keys(scope: Scope, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, StorageError> {
    host::keys(scope, prefix, after, limit)
}

/// Returns a value that was written as JSON, if there is one.
///
/// # Errors
/// The value cannot be read, or does not match `T`.
pub fn get_json<T: DeserializeOwned>(scope: Scope, key: &str) -> Result<Option<T>> {
    get(scope, key)?.map(|stored| parsed(key, &stored.value)).transpose()
}

/// Writes a value as JSON.
///
/// # Errors
/// The value cannot be serialized or written.
pub fn set_json<T: Serialize + ?Sized>(scope: Scope, key: &str, value: &T) -> Result<()> {
    set(scope, key, &serde_json::to_vec(value)?)?;
    Ok(())
}

/// Changes a value that is stored as JSON, beginning with the default where there is none, and returns the answer of
/// `change`. If another call writes the value in between, `change` runs again on the new one, so it should do nothing but
/// change the value.
///
/// # Errors
/// The error of `change`, which leaves the value as it was; the value cannot be read or written, or does not match `T`.
pub fn update<T, A>(scope: Scope, key: &str, mut change: impl FnMut(&mut T) -> Result<A>) -> Result<A>
where
    T: DeserializeOwned + Serialize + Default,
{
    for _ in 0..MAX_ATTEMPTS {
        let stored = get(scope, key)?;
        let mut value: T = stored.as_ref().map(|stored| parsed(key, &stored.value)).transpose()?.unwrap_or_default();
        let answer = change(&mut value)?;
        match replace(scope, key, stored.map(|stored| stored.version), &serde_json::to_vec(&value)?) {
            Err(StorageError::Changed) => {}
            written => return written.map(|_| answer).map_err(Error::from),
        }
    }
    Err(Error::from(StorageError::Changed).context(format!("`{key}`")))
}

fn parsed<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|error| Error::failed(format!("the stored value `{key}`: {error}")))
}

#[cfg(target_arch = "wasm32")]
use crate::bindings::imports::pinion::plugin::storage as host;
#[cfg(not(target_arch = "wasm32"))]
use memory as host;

/// The storage of native tests.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod memory {
    use super::{Scope, StorageError, Stored};
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    const MAX_KEY: usize = 256;
    const MAX_VALUE: usize = 1024 * 1024;

    #[derive(Default)]
    struct Memory {
        values: BTreeMap<(u8, String), Stored>,
        version: u32,
    }

    thread_local! {
        static MEMORY: RefCell<Memory> = RefCell::default();
    }

    pub(crate) fn clear() {
        MEMORY.set(Memory::default());
    }

    pub(super) fn get(scope: Scope, key: &str) -> Result<Option<Stored>, StorageError> {
        check(key)?;
        Ok(MEMORY.with_borrow(|memory| memory.values.get(&(scope as u8, key.to_owned())).cloned()))
    }

    pub(super) fn set(scope: Scope, key: &str, value: &[u8]) -> Result<u32, StorageError> {
        check(key)?;
        if value.len() > MAX_VALUE {
            return Err(StorageError::Invalid("the value is too large".to_owned()));
        }
        Ok(MEMORY.with_borrow_mut(|memory| {
            memory.version += 1;
            let stored = Stored { value: value.to_vec(), version: memory.version };
            memory.values.insert((scope as u8, key.to_owned()), stored);
            memory.version
        }))
    }

    pub(super) fn replace(scope: Scope, key: &str, expected: Option<u32>, value: &[u8]) -> Result<u32, StorageError> {
        match get(scope, key)?.map(|stored| stored.version) == expected {
            true => set(scope, key, value),
            false => Err(StorageError::Changed),
        }
    }

    pub(super) fn remove(scope: Scope, key: &str) -> Result<(), StorageError> {
        check(key)?;
        MEMORY.with_borrow_mut(|memory| memory.values.remove(&(scope as u8, key.to_owned())));
        Ok(())
    }

    pub(super) fn keys(
        scope: Scope,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<String>, StorageError> {
        if !(1..=1000).contains(&limit) {
            return Err(StorageError::Invalid("the limit is not 1 to 1000".to_owned()));
        }
        Ok(MEMORY.with_borrow(|memory| {
            let own = memory.values.keys().filter(|(of, _)| *of == scope as u8).map(|(_, key)| key);
            let wanted = own.filter(|key| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after));
            wanted.take(limit as usize).cloned().collect()
        }))
    }

    fn check(key: &str) -> Result<(), StorageError> {
        match key.len() {
            1..=MAX_KEY => Ok(()),
            _ => Err(StorageError::Invalid("the key is empty or too long".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_starts_with_the_default_and_keeps_the_value_after_an_error() {
        crate::testing::clear_storage();
        let add = |more: u32| {
            update(Scope::Plugin, "n", move |number: &mut u32| {
                *number += more;
                if *number > 5 { Err(Error::failed("too many")) } else { Ok(*number) }
            })
        };
        assert_eq!((add(2), add(3)), (Ok(2), Ok(5)));
        assert_eq!(add(1), Err(Error::failed("too many")));
        assert_eq!(get_json::<u32>(Scope::Plugin, "n"), Ok(Some(5)));
        assert_eq!(get_json::<u32>(Scope::Session, "n"), Ok(None));
    }

    #[test]
    fn update_runs_again_when_the_value_changed_in_between() {
        crate::testing::clear_storage();
        let mut rounds = 0;
        let answer = update(Scope::Plugin, "n", |number: &mut u32| {
            rounds += 1;
            if rounds == 1 {
                set_json(Scope::Plugin, "n", &10)?;
            }
            *number += 1;
            Ok(*number)
        });
        assert_eq!((answer, rounds), (Ok(11), 2));
    }

    #[test]
    fn value_of_another_type_is_an_error_that_names_the_key() {
        crate::testing::clear_storage();
        set_json(Scope::Plugin, "n", "text").unwrap();
        let error = get_json::<u32>(Scope::Plugin, "n").unwrap_err();
        assert!(matches!(&error, Error::Failed { message, .. } if message.contains("`n`")), "{error:?}");
    }

    #[test]
    fn versions_and_keys_behave_as_on_the_host() {
        crate::testing::clear_storage();
        let first = replace(Scope::Plugin, "b", None, b"1").unwrap();
        assert!(matches!(replace(Scope::Plugin, "b", None, b"2"), Err(StorageError::Changed)));
        replace(Scope::Plugin, "b", Some(first), b"2").unwrap();
        set(Scope::Plugin, "a", b"").unwrap();
        assert_eq!(keys(Scope::Plugin, "", None, 10).unwrap(), ["a", "b"]);
        assert_eq!(keys(Scope::Plugin, "", Some("a"), 10).unwrap(), ["b"]);
        remove(Scope::Plugin, "a").unwrap();
        assert!(get(Scope::Plugin, "a").unwrap().is_none());
        assert!(matches!(get(Scope::Plugin, ""), Err(StorageError::Invalid(_))));
    }
}
