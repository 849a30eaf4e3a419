//! Places where people keep credentials, which programs do not see.

mod kinds;
mod list;

use list::{IN_HOME, IN_HOME_OF_SYSTEM, MIXED, OF_MACHINE};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Returns the places of credentials that exist, without links: well-known ones, and files in the home directory that look
/// like credentials, except for those below `open`.
pub fn secret_paths(home: Option<&Path>, open: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = known_secret_paths(home);
    let real = home.and_then(|home| home.canonicalize().ok());
    let by_kind = real.map(|home| kinds::credentials(&home, open)).unwrap_or_default();
    let by_kind = by_kind.into_iter().filter_map(|path| path.canonicalize().ok());
    let by_kind: Vec<PathBuf> = by_kind.filter(|path| !found.iter().any(|known| path.starts_with(known))).collect();
    found.extend(by_kind);
    found.sort();
    found.dedup();
    found
}

/// Returns the well-known places of credentials that exist, without links.
pub fn known_secret_paths(home: Option<&Path>) -> Vec<PathBuf> {
    let in_home = |home: &Path| -> Vec<PathBuf> {
        let mut names = HomeEntryNames::from_home(home);
        let of_lists = IN_HOME.iter().flat_map(|list| list.split_ascii_whitespace());
        let of_lists: Vec<PathBuf> = of_lists.filter_map(|path| names.below_existing(path)).collect();
        let of_system = IN_HOME_OF_SYSTEM.split('|').filter(|path| !path.is_empty());
        let mixed = MIXED.iter().filter_map(|(path, texts)| Some((names.below_existing(path)?, texts)));
        let mixed: Vec<PathBuf> = mixed.filter(|(path, texts)| has_text(path, texts)).map(|(path, _)| path).collect();
        of_lists.into_iter().chain(of_system.map(|path| home.join(path))).chain(mixed).collect()
    };
    let in_home = home.map(in_home).unwrap_or_default().into_iter();
    let all = in_home.chain(OF_MACHINE.iter().map(PathBuf::from));
    // Before each program, and most of them do not exist.
    let existing = all.filter(|path| path.symlink_metadata().is_ok());
    let mut found: Vec<PathBuf> = existing.filter_map(|path| path.canonicalize().ok()).collect();
    found.sort();
    found.dedup();
    found
}

/// Entries of a home directory and of the directories in it, in lower case: most places do not exist, and each would cost a
/// look before each program.
struct HomeEntryNames<'a> {
    home: &'a Path,
    /// `None` of a directory that cannot be listed, or is large.
    entries: Option<BTreeSet<String>>,
    inner: BTreeMap<&'static str, Option<BTreeSet<String>>>,
}

impl<'a> HomeEntryNames<'a> {
    fn from_home(home: &'a Path) -> Self {
        Self { home, entries: listed(home), inner: BTreeMap::new() }
    }

    /// Returns the place of a path of the lists, if it may exist by its first two parts.
    fn below_existing(&mut self, path: &'static str) -> Option<PathBuf> {
        let mut parts = path.splitn(3, '/');
        let first = parts.next().unwrap_or_default();
        if !may_have(self.entries.as_ref(), first) {
            return None;
        }
        let names = |path: &str| path.replace("\\x20", " ");
        if let Some(second) = parts.next() {
            let inner = self.inner.entry(first).or_insert_with(|| listed(&self.home.join(first)));
            if !may_have(inner.as_ref(), &names(second)) {
                return None;
            }
        }
        Some(self.home.join(names(path)))
    }
}

/// Returns the names in a directory.
fn listed(directory: &Path) -> Option<BTreeSet<String>> {
    const MAX_ENTRIES: usize = 4_000;
    let entries = std::fs::read_dir(directory).ok()?.take(MAX_ENTRIES + 1);
    let names = entries.map(|entry| Some(entry.ok()?.file_name().to_string_lossy().to_lowercase()));
    names.collect::<Option<BTreeSet<String>>>().filter(|names| names.len() <= MAX_ENTRIES)
}

/// Returns whether a directory with these names may have an entry.
fn may_have(names: Option<&BTreeSet<String>>, name: &str) -> bool {
    let is_lower = || name.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    names.is_none_or(|names| if is_lower() { names.contains(name) } else { names.contains(&name.to_lowercase()) })
}

/// Returns whether a file contains one of the texts, or is larger than settings are.
fn has_text(path: &Path, texts: &[&str]) -> bool {
    const MAX_SETTINGS: u64 = 256 * 1024;
    let Ok(real) = path.canonicalize() else { return false };
    let content = pinion_git::read_at_most(&real, MAX_SETTINGS);
    content.is_none_or(|content| texts.iter().any(|text| String::from_utf8_lossy(&content).contains(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn secrets_are_found_where_links_lead() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir(root.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", root.join(".ssh")).unwrap();
        fs::write(root.join(".netrc"), "").unwrap();
        let found = secret_paths(Some(&root), &[]);
        assert!(found.contains(&root.join("elsewhere")) && found.contains(&root.join(".netrc")), "{found:?}");
        assert!(!found.contains(&root.join(".aws")));
    }

    #[test]
    fn well_known_places_are_found_and_toolchains_are_not() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let hidden = [
            ".cache/huggingface/token",
            ".config/gcloud/application_default_credentials.json",
            ".oci/config",
            ".config/containers/auth.json",
            ".config/sops/age/keys.txt",
            ".config/Bitwarden CLI/data.json",
            ".config/Code - Insiders/User/globalStorage/state.vscdb",
            ".mylogin.cnf",
            ".config/rclone/rclone.conf",
            ".terraform.d/credentials.tfrc.json",
            ".electrum/wallets/default",
            ".pi/agent/auth.json",
            ".local/share/goose/sessions.db",
            ".local/share/nvim/shada/main.shada",
            ".config/fish/fish_history",
            ".wireguard/wg0.conf",
            ".msmtprc",
            ".local/share/kwalletd/kdewallet.kwl",
            ".dbt/profiles.yml",
            ".wakatime.cfg",
        ];
        let open = [
            ".cargo/config.toml",
            ".cargo/registry/x",
            ".rustup/settings.toml",
            ".npm/_cacache/x",
            ".m2/repository/x",
            ".gradle/caches/x",
            ".nuget/packages/x",
            ".cache/huggingface/hub/x",
            ".cache/pip/x",
            ".config/git/config",
            ".config/fish/config.fish",
            ".pyenv/version",
            ".ollama/models/x",
            ".local/bin/x",
        ];
        for path in hidden.iter().chain(&open).map(|path| root.join(path)) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let mixed = [(".nuget/NuGet/NuGet.Config", "<packageSourceCredentials>"), (".yarnrc.yml", "nodeLinker: pnp")];
        for (path, text) in mixed {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        let found = secret_paths(Some(&root), &[]);
        let is_found = |path: &str| found.iter().any(|found| root.join(path).starts_with(found));
        hidden.iter().for_each(|path| assert!(is_found(path), "{path}"));
        assert!(is_found(mixed[0].0) && !is_found(mixed[1].0));
        open.iter().for_each(|path| assert!(!is_found(path), "{path}"));
    }
}
