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
    let in_home = home.into_iter().flat_map(|home| IN_HOME.iter().map(|path| home.join(path)));
    let all = in_home.chain(OF_MACHINE.iter().map(PathBuf::from));
    let mut found: Vec<PathBuf> = all.filter_map(|path| path.canonicalize().ok()).collect();
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
