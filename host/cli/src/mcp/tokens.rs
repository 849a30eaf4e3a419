//! The tokens of MCP servers, in a private file beside `auth.toml`.

use crate::files::private::{check, create_directory, lock, open_file, replace, try_lock};
use pinion_agent::secrets::Secrets;
use pinion_mcp::TokenStore;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::PathBuf;

/// Bytes of the file.
const MAX_BYTES: u64 = 4 << 20;
/// Characters of a key in the name of its lock file. Two keys with the same ones would only wait for each other.
const KEY_CHARACTERS: usize = 16;

/// `mcp-auth.json`: an object with one text for each server.
pub(crate) struct TokenFile {
    path: PathBuf,
    /// Tokens that were read or written, which are redacted in all output.
    redacted: Secrets,
}

impl TokenFile {
    pub(crate) fn new(path: PathBuf, redacted: Secrets) -> Self {
        Self { path, redacted }
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
    fn load(&self, key: &str) -> io::Result<Option<SecretString>> {
        let value = self.read()?.remove(key);
        value.iter().for_each(|value| self.keep_out(value));
        Ok(value.map(SecretString::from))
    }

    fn save(&self, key: &str, value: &SecretString) -> io::Result<()> {
        self.keep_out(value.expose_secret());
        self.change(|tokens| {
            tokens.insert(key.to_owned(), value.expose_secret().to_owned());
            true
        })
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.change(|tokens| tokens.remove(key).is_some())
    }

    fn try_lock(&self, key: &str) -> io::Result<Option<Box<dyn Send>>> {
        create_directory(self.path.parent().unwrap_or(std::path::Path::new(".")))?;
        let name: String = key.chars().filter(char::is_ascii_alphanumeric).take(KEY_CHARACTERS).collect();
        let locked = try_lock(&self.path.with_extension(format!("{name}.lock")))?;
        Ok(locked.map(|lock| Box::new(lock) as _))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn tokens_are_kept_privately_and_redacted() {
        let directory = tempfile::tempdir().unwrap();
        let (path, secrets) = (directory.path().join("new/mcp-auth.json"), Secrets::default());
        let file = TokenFile::new(path.clone(), secrets.clone());
        assert!(file.load("a").unwrap().is_none());
        let value = SecretString::from(r#"{"x": [{"access_token": "Zq7Xw3Vb9Nm2Zq7Xw3Vb"}]}"#);
        file.save("a", &value).unwrap();
        file.save("b", &SecretString::from("{}")).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(file.load("a").unwrap().unwrap().expose_secret(), value.expose_secret());
        assert_eq!(secrets.clean("Zq7Xw3Vb9Nm2Zq7Xw3Vb"), "[redacted]");
        file.remove("a").unwrap();
        assert!(file.load("a").unwrap().is_none() && file.load("b").unwrap().is_some());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(file.load("b").unwrap_err().to_string().contains("0600"));
    }

    #[test]
    fn locked_key_is_locked_for_other_processes_and_others_are_free() {
        let directory = tempfile::tempdir().unwrap();
        let file = || TokenFile::new(directory.path().join("mcp-auth.json"), Secrets::default());
        let (mine, theirs) = (file(), file());
        let lock = mine.try_lock("aa").unwrap();
        assert!(lock.is_some() && theirs.try_lock("aa").unwrap().is_none());
        assert!(theirs.try_lock("bb").unwrap().is_some());
        mine.save("aa", &SecretString::from("{}")).unwrap();
        drop(lock);
        assert!(theirs.try_lock("aa").unwrap().is_some());
    }
}
