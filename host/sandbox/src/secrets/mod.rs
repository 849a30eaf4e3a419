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
        let of_lists = IN_HOME.iter().flat_map(|list| list.split_ascii_whitespace());
        let of_system = IN_HOME_OF_SYSTEM.split('|').filter(|path| !path.is_empty());
        let mixed = MIXED.iter().map(|(path, texts)| (home.join(path), texts));
        let mixed = mixed.filter(|(path, texts)| has_text(path, texts)).map(|(path, _)| path);
        let mut names = HomeEntryNames::default();
        let of_lists = of_lists.map(|path| path.replace("\\x20", " ")).filter(|path| names.may_have(home, path));
        let of_lists: Vec<PathBuf> = of_lists.map(|path| home.join(path)).collect();
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
#[derive(Default)]
struct HomeEntryNames(BTreeMap<PathBuf, Option<BTreeSet<String>>>);

impl HomeEntryNames {
    /// Returns whether a path may exist, by its first two parts.
    fn may_have(&mut self, home: &Path, path: &str) -> bool {
        let mut parts = path.splitn(3, '/');
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        self.has(home, first) && second.is_none_or(|second| self.has(&home.join(first), second))
    }

    /// Returns whether a directory may have an entry: one that cannot be listed, or is large, may have any.
    fn has(&mut self, directory: &Path, name: &str) -> bool {
        const MAX_ENTRIES: usize = 4_000;
        let list = || {
            let entries = std::fs::read_dir(directory).ok()?.take(MAX_ENTRIES + 1);
            let names = entries.map(|entry| Some(entry.ok()?.file_name().to_string_lossy().to_lowercase()));
            names.collect::<Option<BTreeSet<String>>>().filter(|names| names.len() <= MAX_ENTRIES)
        };
        let names = self.0.entry(directory.to_owned()).or_insert_with(list);
        names.as_ref().is_none_or(|names| names.contains(&name.to_lowercase()))
    }
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
