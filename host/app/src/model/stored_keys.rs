//! Keys that Pinion stores for the user: in the operating system's keyring, or in `auth.toml` next to the config; and the
//! key that a conversation lacks, which the first-run setup asks for.

use crate::failure::{Failure, Result};
use crate::files::private::{create_directory, lock, owner_hint, read_settings, replace};
use crate::files::secret_storage::{self, FileEntry, SecretFileEntry, SecretLocation};
use crate::options::RunOptions;
use crate::workspace_base::Base;
use pinion_providers::{AuthFile, Keyring as _, PlatformKeyring, ProviderInfo};
use secrecy::{ExposeSecret as _, SecretString};
use std::path::Path;
use std::time::Duration;
use toml::{Table, Value};

/// Maximum bytes of a key.
pub const MAX_KEY: usize = 64 << 10;

/// Time for the keyring, which may ask the user to unlock it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The table of a provider in `auth.toml`.
struct AuthTable<'a> {
    base: &'a Base,
    path: &'a Path,
    provider: &'a str,
}

impl FileEntry for AuthTable<'_> {
    type Error = Failure;

    fn path(&self) -> &Path {
        self.path
    }

    fn set(&self, entry: SecretFileEntry<'_>) -> Result<()> {
        let key = match entry {
            SecretFileEntry::Secret(key) => Some(key),
            SecretFileEntry::InKeyring => None,
        };
        self.base.change_file(self.provider, key).map(drop)
    }
}

/// Returns the key in a text that the user entered, without the blanks around it.
///
/// # Errors
/// It is empty, too long, or has characters that no key has.
pub fn key_in(text: &str) -> std::result::Result<SecretString, &'static str> {
    match text.trim() {
        "" => Err("the key is empty"),
        key if key.len() > MAX_KEY => Err("the key is longer than 64 KiB"),
        key if key.chars().any(|c| c.is_control() && c != '\n') => Err("the key has control characters"),
        key => Ok(SecretString::from(key)),
    }
}

impl Base {
    /// Stores the key of a provider, and redacts it from now on: in the keyring if there is one that takes it, and else in
    /// `auth.toml`. A key of the provider that is there already is replaced.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub async fn store_key(&self, provider: &str, key: &SecretString) -> Result<SecretLocation> {
        self.secrets.add(key);
        let table = AuthTable { base: self, path: &self.paths.auth_file(), provider };
        let (place, _) = secret_storage::store(provider, key, &table, Some(PATIENCE)).await?;
        Ok(place)
    }

    /// Removes the stored key of a provider, and returns the places that had one.
    ///
    /// # Errors
    /// The keyring or the file cannot be changed.
    pub async fn remove_key(&self, provider: &str) -> Result<Vec<SecretLocation>> {
        let mut places = Vec::new();
        if PlatformKeyring.remove(provider).await.map_err(Failure::from)? {
            places.push(SecretLocation::Keyring);
        }
        if self.change_file(provider, None)? {
            places.push(SecretLocation::File(self.paths.auth_file()));
        }
        Ok(places)
    }

    /// Returns the names of the providers with stored keys.
    ///
    /// # Errors
    /// The keyring or the file cannot be read.
    pub async fn stored_keys(&self) -> Result<Vec<&'static str>> {
        let file = AuthFile::new(self.paths.auth_file());
        let mut names = Vec::new();
        for info in self.config.registry.iter().filter(|info| !info.is_scripted()) {
            let is_in_file = file.key(info.name).map_err(Failure::from)?.is_some();
            if is_in_file || PlatformKeyring.get(info.name).await.map_err(Failure::from)?.is_some() {
                names.push(info.name);
            }
        }
        Ok(names)
    }

    /// Sets the key of a provider in `auth.toml`, or removes it. Returns whether that changed anything.
    fn change_file(&self, provider: &str, key: Option<&SecretString>) -> Result<bool> {
        let path = self.paths.auth_file();
        let failed = |error: std::io::Error| {
            let failure = Failure::failed(format!("could not write `{}`", path.display())).because(error);
            match owner_hint(&path) {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        };
        if key.is_none() && !path.exists() {
            return Ok(false);
        }
        create_directory(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let _lock = lock(&path.with_extension("lock")).map_err(failed)?;
        // Refuses a file that others can read, or that is invalid.
        AuthFile::new(path.clone()).keys().map_err(Failure::from)?;
        if path.is_symlink() {
            return Err(Failure::failed(format!("`{}` is a link, which is not replaced", path.display()))
                .hint(format!("edit the file itself: its table `[{provider}]` has `key = \"…\"`")));
        }
        let text = read_settings(&path).map_err(failed)?.unwrap_or_default();
        let Some(changed) = with_key(&text, provider, key.map(|key| key.expose_secret())) else { return Ok(false) };
        replace(&path, changed.as_bytes()).map_err(failed)?;
        Ok(true)
    }
}

/// Returns the text of a valid `auth.toml` with another key of a provider, or without one; `None` if this changes
/// nothing. The rest stays as it is; of a file in an unusual form, only the keys remain.
fn with_key(text: &str, provider: &str, key: Option<&str>) -> Option<String> {
    let before: Table = toml::from_str(text).unwrap_or_default();
    let table = |key: &str| Value::Table(Table::from_iter([("key".to_owned(), Value::String(key.to_owned()))]));
    let mut after = before.clone();
    match key {
        Some(key) => drop(after.insert(provider.to_owned(), table(key))),
        None => drop(after.remove(provider)),
    }
    if after == before {
        return None;
    }
    let mut kept = String::new();
    let mut is_kept = true;
    for line in text.lines() {
        let head = line.split('#').next().unwrap_or_default().trim();
        if head.starts_with('[') {
            is_kept = head != format!("[{provider}]");
        }
        if is_kept {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    if let Some(key) = key {
        let section = Table::from_iter([(provider.to_owned(), table(key))]).to_string();
        let gap = if kept.trim().is_empty() || kept.ends_with("\n\n") { "" } else { "\n" };
        kept.push_str(&format!("{gap}{section}"));
    }
    let is_right = toml::from_str::<Table>(&kept).is_ok_and(|found| found == after);
    Some(if is_right { kept } else { after.to_string() })
}

/// A missing key.
#[derive(Debug, Clone, Copy)]
pub enum Lacking {
    /// No provider has a key, and no model is named.
    Any,
    /// The provider of the named model has no key.
    Of(&'static ProviderInfo),
}

impl Base {
    /// Returns the key that [`Base::chosen`] would miss; `None` if it has a key, or fails for another reason.
    pub async fn lacking_key(&self, options: &RunOptions) -> Option<Lacking> {
        if self.exchanges.is_scripted() || self.exchanges.playback().is_some() {
            return None;
        }
        let (registry, models) = (&self.config.registry, self.models().ok()?);
        let info = match (&self.config.model, &self.config.provider) {
            (Some(model), provider) => registry.resolve(provider.as_deref(), model, &models).ok()?.0,
            (None, Some(name)) => registry.provider(name).ok()?,
            (None, None) if options.base_url.is_some() => return None,
            (None, None) => return self.default_model().await.is_err().then_some(Lacking::Any),
        };
        let base_url = self.base_url_of(info, self.base_url_flag(info, &models));
        let lacks = self.lacks_key(info, base_url.as_deref()).await.ok()?;
        (lacks && has_plain_key(info)).then_some(Lacking::Of(info))
    }

    /// Returns the providers that need nothing but a key, each variable's first one.
    pub fn providers_with_plain_keys(&self) -> Vec<&'static ProviderInfo> {
        let mut infos: Vec<&'static ProviderInfo> = Vec::new();
        for info in self.config.registry.iter().filter(|info| has_plain_key(info)) {
            let is_other_name = infos.iter().any(|other| other.key_variable == info.key_variable);
            let has_model = info.default_model(self.base_url_of(info, None).as_deref()).is_some();
            if has_model && !is_other_name {
                infos.push(info);
            }
        }
        infos
    }
}

/// Returns whether a key is all that the provider needs, without a region or a project.
fn has_plain_key(info: &ProviderInfo) -> bool {
    info.key_variable.is_some() && !info.base_url.contains('{')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_added_replaced_and_removed_beside_the_others() {
        let text = "# mine\n[anthropic]\nkey = \"a\" # work\n\n[groq]\nkey = \"g\"\n";
        assert_eq!(with_key(text, "groq", Some("g")), None);
        assert_eq!(with_key(text, "xai", None), None);
        let added = with_key(text, "xai", Some("x\"\\y")).unwrap();
        assert!(added.starts_with(text), "{added}");
        assert_eq!(toml::from_str::<Table>(&added).unwrap()["xai"]["key"].as_str(), Some("x\"\\y"));
        assert_eq!(with_key(&added, "xai", None).unwrap().trim_end(), text.trim_end());
        let replaced = with_key(text, "anthropic", Some("b")).unwrap();
        assert_eq!(replaced, "# mine\n[groq]\nkey = \"g\"\n\n[anthropic]\nkey = \"b\"\n");
        assert_eq!(with_key("", "a-b", Some("k")).unwrap(), "[a-b]\nkey = \"k\"\n");
    }

    #[test]
    fn unusual_form_keeps_all_keys() {
        for text in ["groq = { key = \"g\" }\n", "[\"groq\"]\nkey = \"g\"\n", "groq.key = \"\"\"\n[groq]\n\"\"\"\n"] {
            let before: Table = toml::from_str(text).unwrap();
            let added: Table = toml::from_str(&with_key(text, "xai", Some("x")).unwrap()).unwrap();
            assert_eq!((&added["groq"], added["xai"]["key"].as_str()), (&before["groq"], Some("x")), "{text}");
            let replaced: Table = toml::from_str(&with_key(text, "groq", Some("new")).unwrap()).unwrap();
            assert_eq!((replaced["groq"]["key"].as_str(), replaced.len()), (Some("new"), 1), "{text}");
            let removed = with_key(text, "groq", None).unwrap();
            assert!(toml::from_str::<Table>(&removed).unwrap().is_empty(), "{removed}");
        }
    }

    #[test]
    fn key_is_trimmed_and_checked() {
        assert_eq!(key_in(" sk-1\r\n").unwrap().expose_secret(), "sk-1");
        assert!(key_in(" \n").is_err() && key_in("a\x1bb").is_err() && key_in(&"x".repeat(MAX_KEY + 1)).is_err());
    }
}
