//! Places where people keep credentials, which programs do not see.

use std::path::{Path, PathBuf};

/// Below the home directory.
const IN_HOME: &[&str] = &[
    // Keys and credentials.
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/op",
    ".config/rclone",
    ".config/git/credentials",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".s3cfg",
    ".boto",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".password-store",
    ".local/share/keyrings",
    ".1password",
    ".Xauthority",
    // Other agents, which keep keys and conversations.
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/github-copilot",
    ".local/share/opencode",
    // Browsers and mail.
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    // Commands that people typed, sometimes with credentials.
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".local/share/fish/fish_history",
];

/// Below the home directory of macOS.
#[cfg(target_os = "macos")]
const IN_HOME_OF_SYSTEM: &[&str] = &[
    "Library/Keychains",
    "Library/Cookies",
    "Library/Mail",
    "Library/Messages",
    "Library/Safari",
    "Library/Application Support/1Password",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Claude",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Microsoft Edge",
    "Library/Containers/com.apple.Safari",
    "Library/Containers/com.bitwarden.desktop",
    "Library/Group Containers/2BUA8C4S2C.com.1password",
];
#[cfg(not(target_os = "macos"))]
const IN_HOME_OF_SYSTEM: &[&str] = &[];

/// Of the machine. Other users cannot read most of them anyway; root can.
const OF_MACHINE: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/letsencrypt",
    "/etc/kubernetes",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/var/lib/kubelet",
];

/// Returns the places of credentials that exist, without links.
pub fn secret_paths(home: Option<&Path>) -> Vec<PathBuf> {
    let in_home = home.into_iter().flat_map(|home| IN_HOME.iter().chain(IN_HOME_OF_SYSTEM).map(|path| home.join(path)));
    let all = in_home.chain(OF_MACHINE.iter().map(PathBuf::from));
    // Before each program, and most of them do not exist.
    let existing = all.filter(|path| path.symlink_metadata().is_ok());
    let mut found: Vec<PathBuf> = existing.filter_map(|path| path.canonicalize().ok()).collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_where_links_lead() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", root.join(".ssh")).unwrap();
        std::fs::write(root.join(".netrc"), "").unwrap();
        let found = secret_paths(Some(&root));
        assert!(found.contains(&root.join("elsewhere")) && found.contains(&root.join(".netrc")), "{found:?}");
        assert!(!found.contains(&root.join(".aws")));
    }
}
