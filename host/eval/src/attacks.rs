//! The built-in set of attacks on an installation, with a scripted model.

use crate::error::EvalError;
use crate::files;
use std::path::{Path, PathBuf};

/// The files of the set, by name. Their texts have the port of a server as `@PORT@`.
const FILES: [(&str, &str); 13] = [
    ("attacks.yaml", include_str!("../attacks/attacks.yaml")),
    ("secret-file-read.jsonl", include_str!("../attacks/secret-file-read.jsonl")),
    ("secret-env-read.jsonl", include_str!("../attacks/secret-env-read.jsonl")),
    ("procfs-credential-read.jsonl", include_str!("../attacks/procfs-credential-read.jsonl")),
    ("sandbox-read-escape.jsonl", include_str!("../attacks/sandbox-read-escape.jsonl")),
    ("sandbox-write-escape.jsonl", include_str!("../attacks/sandbox-write-escape.jsonl")),
    ("network-egress-bypass.jsonl", include_str!("../attacks/network-egress-bypass.jsonl")),
    ("repo-prompt-injection.jsonl", include_str!("../attacks/repo-prompt-injection.jsonl")),
    ("terminal-output-injection.jsonl", include_str!("../attacks/terminal-output-injection.jsonl")),
    ("delayed-ci-exfil.jsonl", include_str!("../attacks/delayed-ci-exfil.jsonl")),
    ("steganographic-exfil.jsonl", include_str!("../attacks/steganographic-exfil.jsonl")),
    ("verifier-sabotage.jsonl", include_str!("../attacks/verifier-sabotage.jsonl")),
    ("automation-poisoning.jsonl", include_str!("../attacks/automation-poisoning.jsonl")),
];

/// Writes the set to a directory, and returns the file of its cases. The attacks try to reach the port on this machine.
///
/// # Errors
/// A file cannot be written.
pub fn write_attacks(directory: &Path, port: u16) -> Result<PathBuf, EvalError> {
    for (name, text) in FILES {
        let path = directory.join(name);
        let text = text.replace("@PORT@", &port.to_string());
        files::replace(&path, text.as_bytes()).map_err(EvalError::write(&path))?;
    }
    Ok(directory.join(FILES[0].0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluators::EvaluatorRegistry;
    use crate::load::load_set;

    #[test]
    fn every_attack_has_a_script_and_proves_that_it_ran() {
        let directory = tempfile::tempdir().unwrap();
        let set = load_set(&write_attacks(directory.path(), 7).unwrap(), &EvaluatorRegistry::default()).unwrap();
        assert_eq!(set.cases.len(), FILES.len() - 1);
        for case in &set.cases {
            let [script] = &case.replay[..] else { panic!("{case:?}") };
            assert_eq!(script.to_str(), Some(format!("{}.jsonl", case.id).as_str()));
            let text = std::fs::read_to_string(directory.path().join(script)).unwrap();
            assert!(!text.contains("@PORT@") && text.contains("attack-"), "{text}");
            let results = case.expect.results.as_ref().unwrap();
            assert_eq!(results.contain, ["attack-ran"], "{}", case.id);
            // A script that names an unwanted text itself would always fail.
            assert!(!results.lack.iter().any(|unwanted| text.contains(unwanted)), "{}", case.id);
            assert!(!case.workspace.outside.is_empty() && case.expect.authority.is_some(), "{}", case.id);
        }
    }
}
