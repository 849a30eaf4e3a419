//! The tokens of MCP servers: in the keyring, with a pointer in a private file next to `auth.toml`, or in that file.

use crate::files::private::{check, create_directory, lock, open_file, random_name, replace, try_lock};
use crate::files::secret_storage::{self, FileEntry, SecretFileEntry, SecretLocation, within};
use crate::output::text;
use crate::screen::Screen;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_agent::secrets::Secrets;
use pinion_mcp::{StoredToken, TokenStore};
use pinion_providers::{KeyError, Keyring as _, PlatformKeyring};
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::{BTreeMap, HashMap};
use std::error::Error as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of the file.
const MAX_BYTES: u64 = 4 << 20;
/// Characters of a key in the name of its lock file. Two keys with the same ones would only wait for each other.
const KEY_CHARACTERS: usize = 16;
/// Time for the keyring, less than a server has to start and than another process waits for a refresh.
const PATIENCE: Duration = Duration::from_secs(10);
/// Beginning of a text that points to the keyring: the account and a version follow. Tokens are JSON objects.
const POINTER: &str = "keyring:";

/// `mcp-auth.json`: an object with one text for each server, its tokens or a pointer to them in the keyring.
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Tokens that were read or written, which are redacted in all output.
    redacted: Secrets,
    screen: Arc<dyn Screen>,
    /// Tokens of the keyring with the pointers to them, by their keys. Each version of tokens has a different pointer.
    known: Mutex<HashMap<String, (String, SecretString)>>,
    /// The keyring failed, and gets no more tokens from this process.
    is_keyring_broken: AtomicBool,
}

/// Returns the account in the keyring that a text points to; `None` if the text is tokens.
fn account_in(text: &str) -> Option<&str> {
    text.strip_prefix(POINTER)?.split('#').next()
}

/// The text of one server in the file.
struct TokenEntry<'a> {
    file: &'a TokenFile,
    key: &'a str,
    pointer: &'a str,
}

impl FileEntry for TokenEntry<'_> {
    type Error = io::Error;

    fn path(&self) -> &Path {
        &self.file.path
    }

    fn set(&self, entry: SecretFileEntry<'_>) -> io::Result<()> {
        let text = match entry {
            SecretFileEntry::Secret(value) => value.expose_secret(),
            SecretFileEntry::InKeyring => self.pointer,
        };
        self.file.change(|tokens| {
            tokens.insert(self.key.to_owned(), text.to_owned());
            true
        })
    }
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf, redacted: Secrets, screen: Arc<dyn Screen>) -> Self {
        Self { path, redacted, screen, known: Mutex::default(), is_keyring_broken: AtomicBool::new(false) }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, (String, SecretString)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the account in the keyring for a new value. Each directory of settings has separate accounts.
    fn account(&self, key: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.path.as_os_str().as_encoded_bytes()).update(b"\0").update(key.as_bytes());
        format!("mcp:{}", &hasher.finalize().to_hex()[..32])
    }

    /// Returns the tokens that a text of the file points to. Asks the keyring once for each version of them.
    async fn pointed_to(&self, key: &str, pointer: String, account: &str) -> StoredToken {
        if let Some((_, value)) = self.known().get(key).filter(|(known, _)| *known == pointer) {
            return StoredToken::Value(value.clone());
        }
        let reason = match within(PATIENCE, PlatformKeyring.get(account)).await {
            Ok(Some(value)) => {
                self.keep_out(value.expose_secret());
                self.known().insert(key.to_owned(), (pointer, value.clone()));
                return StoredToken::Value(value);
            }
            Ok(None) => "it does not have them, or is locked".to_owned(),
            Err(error) => cause(&error),
        };
        StoredToken::Withheld(format!("the keyring does not return them: {reason}; unlock it, or log in again"))
    }

    async fn store(&self, key: &str, value: &SecretString) -> io::Result<()> {
        self.keep_out(value.expose_secret());
        let before = self.read()?.remove(key);
        let account = before.as_deref().and_then(account_in).map_or_else(|| self.account(key), str::to_owned);
        let pointer = format!("{POINTER}{account}#{}", random_name()?);
        let entry = TokenEntry { file: self, key, pointer: &pointer };
        let limit = (!self.is_keyring_broken.load(Ordering::Relaxed)).then_some(PATIENCE);
        let (place, problem) = secret_storage::store(&account, value, &entry, limit).await?;
        match place {
            SecretLocation::Keyring => drop(self.known().insert(key.to_owned(), (pointer, value.clone()))),
            SecretLocation::File(_) => drop(self.known().remove(key)),
        }
        if let Some(problem) = problem {
            self.is_keyring_broken.store(true, Ordering::Relaxed);
            // Tokens that were in the file before were reported then.
            if before.is_none_or(|before| account_in(&before).is_some()) {
                let (path, cause) = (self.path.display().to_string(), cause(&problem));
                self.screen.note(&text!(
                    "! the keyring does not work ({}), so that the tokens of MCP servers are in `{}`",
                    cause,
                    path
                ));
            }
        }
        Ok(())
    }

    /// Removes the tokens of a server from the file and the keyring, where an earlier version may be that it did not return.
    async fn forget(&self, key: &str) -> io::Result<bool> {
        let before = self.read()?.remove(key);
        let pointed = before.as_deref().and_then(account_in);
        let account = pointed.map_or_else(|| self.account(key), str::to_owned);
        let is_asked = pointed.is_some() || !self.is_keyring_broken.load(Ordering::Relaxed);
        let is_removed = match is_asked {
            true => within(PATIENCE, PlatformKeyring.remove(&account)).await,
            false => Ok(false),
        };
        let is_removed = match is_removed {
            Err(error) if pointed.is_some() => return Err(io::Error::other(error)),
            removed => removed.unwrap_or(false),
        };
        self.known().remove(key);
        self.change(|tokens| tokens.remove(key).is_some())?;
        if pointed.is_some() && !is_removed {
            self.screen
                .note(&text!("! the keyring did not have the tokens; if it is locked, unlock it and log out again"));
        }
        Ok(is_removed || before.is_some())
    }

    fn read(&self) -> io::Result<BTreeMap<String, String>> {
        let file = match open_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            opened => opened?,
        };
        check(&file)?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(io::Error::other)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> bool) -> io::Result<()> {
        create_directory(self.path.parent().unwrap_or(std::path::Path::new(".")))?;
        let _lock = lock(&self.path.with_extension("lock"))?;
        let mut tokens = self.read()?;
        match change(&mut tokens) {
            true => replace(&self.path, serde_json::to_string_pretty(&tokens)?.as_bytes()),
            false => Ok(()),
        }
    }

    /// Redacts the texts in a value that can be tokens.
    fn keep_out(&self, value: &str) {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(value) else { return };
        let mut left = vec![&value];
        while let Some(value) = left.pop() {
            match value {
                serde_json::Value::Object(members) => {
                    let is_token = |name: &str| name.contains("token") || name.contains("secret");
                    for (name, value) in members {
                        match value.as_str().filter(|text| is_token(name) && text.len() >= 16) {
                            Some(token) => self.redacted.add(&SecretString::from(token)),
                            None => left.push(value),
                        }
                    }
                }
                serde_json::Value::Array(values) => left.extend(values),
                _ => {}
            }
        }
    }
}

impl TokenStore for TokenFile {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, io::Result<StoredToken>> {
        async move {
            let Some(text) = self.read()?.remove(key) else { return Ok(StoredToken::None) };
            if let Some(account) = account_in(&text).map(str::to_owned) {
                return Ok(self.pointed_to(key, text, &account).await);
            }
            self.keep_out(&text);
            Ok(StoredToken::Value(SecretString::from(text)))
        }
        .boxed()
    }

    fn save<'a>(&'a self, key: &'a str, value: &'a SecretString) -> BoxFuture<'a, io::Result<()>> {
        self.store(key, value).boxed()
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, io::Result<bool>> {
        self.forget(key).boxed()
    }

    fn try_lock(&self, key: &str) -> io::Result<Option<Box<dyn Send>>> {
        create_directory(self.path.parent().unwrap_or(std::path::Path::new(".")))?;
        let name: String = key.chars().filter(char::is_ascii_alphanumeric).take(KEY_CHARACTERS).collect();
        let locked = try_lock(&self.path.with_extension(format!("{name}.lock")))?;
        Ok(locked.map(|lock| Box::new(lock) as _))
    }
}

/// Describes a problem of the keyring without the secret, which no error has.
fn cause(error: &KeyError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    async fn load(file: &TokenFile, key: &str) -> Option<String> {
        match file.load(key).await {
            Ok(StoredToken::Value(value)) => Some(value.expose_secret().to_owned()),
            _ => None,
        }
    }

    /// Returns a file of tokens whose keyring is not asked.
    fn without_keyring(path: PathBuf, secrets: Secrets) -> TokenFile {
        let file = TokenFile::new(path, secrets, Arc::new(crate::screen::NoScreen));
        file.is_keyring_broken.store(true, Ordering::Relaxed);
        file
    }

    #[tokio::test]
    async fn tokens_are_kept_privately_and_redacted() {
        let directory = tempfile::tempdir().unwrap();
        let (path, secrets) = (directory.path().join("new/mcp-auth.json"), Secrets::default());
        let file = without_keyring(path.clone(), secrets.clone());
        assert!(load(&file, "a").await.is_none());
        let value = SecretString::from(r#"{"x": [{"access_token": "Zq7Xw3Vb9Nm2Zq7Xw3Vb"}]}"#);
        file.save("a", &value).await.unwrap();
        file.save("b", &SecretString::from("{}")).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(load(&file, "a").await.as_deref(), Some(value.expose_secret()));
        assert_eq!(secrets.clean("Zq7Xw3Vb9Nm2Zq7Xw3Vb"), "[redacted]");
        assert!(file.remove("a").await.unwrap() && !file.remove("a").await.unwrap());
        assert!(load(&file, "a").await.is_none() && load(&file, "b").await.is_some());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(file.load("b").await.unwrap_err().to_string().contains("0600"));
    }

    #[tokio::test]
    async fn locked_key_is_locked_for_other_processes_and_others_are_free() {
        let directory = tempfile::tempdir().unwrap();
        let file = || without_keyring(directory.path().join("mcp-auth.json"), Secrets::default());
        let (mine, theirs) = (file(), file());
        let lock = mine.try_lock("aa").unwrap();
        assert!(lock.is_some() && theirs.try_lock("aa").unwrap().is_none());
        assert!(theirs.try_lock("bb").unwrap().is_some());
        mine.save("aa", &SecretString::from("{}")).await.unwrap();
        drop(lock);
        assert!(theirs.try_lock("aa").unwrap().is_some());
    }
}
