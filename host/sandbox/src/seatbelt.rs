//! The profile for `sandbox-exec` on macOS.

use crate::policy::{Network, SandboxPolicy, View};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Devices that every program may write to.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/ptmx"];

/// Returns the profile that enforces a policy. Later rules win over earlier ones.
///
/// # Errors
/// A path is not text.
pub fn profile(policy: &SandboxPolicy) -> Result<String, PathBuf> {
    let mut text = String::from("(version 1)\n(allow default)\n(deny file-write*)\n");
    for device in DEVICES {
        rule(&mut text, "allow file-write*", "literal", Path::new(device))?;
    }
    text.push_str("(allow file-write* (regex #\"^/dev/ttys[0-9]+$\"))\n");
    for device in &policy.devices {
        rule(&mut text, "allow file-write*", "subpath", device)?;
    }
    for (path, view) in policy.views().iter() {
        let action = match view {
            View::Hidden => "deny file-read* file-write*",
            View::Visible => "allow file-read*",
            View::Writable => "allow file-read* file-write*",
            View::Excluded => "deny file-read-data file-write*",
        };
        rule(&mut text, action, "subpath", path)?;
    }
    if let Some(path) = &policy.temporary {
        rule(&mut text, "allow file-read* file-write*", "subpath", path)?;
    }
    for path in &policy.read_only {
        rule(&mut text, "deny file-write*", "subpath", path)?;
    }
    // A directory around one of these cannot be renamed, so that it cannot be replaced.
    let kept = policy.read_only.iter().chain(&policy.hidden).chain(&policy.writable);
    let around = kept.flat_map(|path| path.ancestors().skip(1));
    let is_inside = |path: &&Path| policy.writable.iter().any(|root| path.starts_with(root) && path != root);
    for around in around.filter(is_inside).collect::<BTreeSet<_>>() {
        rule(&mut text, "deny file-write-unlink", "literal", around)?;
    }
    for path in &policy.pinned {
        rule(&mut text, "deny file-write-unlink", "literal", path)?;
    }
    // Other programs: no signals, no look into their memory, no requests that start programs elsewhere.
    text.push_str("(deny signal)\n(allow signal (target same-sandbox))\n");
    text.push_str("(deny process-info*)\n(allow process-info* (target same-sandbox))\n");
    text.push_str("(deny mach-priv-task-port)\n(deny appleevent-send)\n(deny lsopen)\n(deny job-creation)\n");
    if policy.network != Network::On {
        text.push_str("(deny network*)\n(allow network* (local ip \"localhost:*\"))\n");
        text.push_str("(allow network-outbound (remote ip \"localhost:*\"))\n");
        text.push_str("(deny mach-lookup (global-name \"com.apple.dnssd.service\"))\n");
    }
    Ok(text)
}

/// Adds a rule for one path as a quoted string.
fn rule(text: &mut String, action: &str, kind: &str, path: &Path) -> Result<(), PathBuf> {
    let name = path.to_str().filter(|name| !name.contains(char::is_control)).ok_or_else(|| path.to_owned())?;
    let name = name.replace('\\', "\\\\").replace('"', "\\\"");
    // Writing to a string does not fail.
    let _ = writeln!(text, "({action} ({kind} \"{name}\"))");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> SandboxPolicy {
        SandboxPolicy {
            writable: vec![PathBuf::from("/w")],
            read_only: vec![PathBuf::from("/w/.git/hooks")],
            hidden: vec![PathBuf::from("/h/.ssh")],
            visible: vec![PathBuf::from("/h/.ssh/known")],
            ..SandboxPolicy::default()
        }
    }

    #[test]
    fn profile_denies_in_an_order_in_which_denials_win() {
        let text = profile(&policy()).unwrap();
        let at = |line: &str| text.find(line).unwrap_or_else(|| panic!("{line} is missing in {text}"));
        assert!(at("(deny file-write*)\n") < at("(allow file-read* file-write* (subpath \"/w\"))"));
        assert!(
            at("(allow file-read* file-write* (subpath \"/w\"))")
                < at("(deny file-write* (subpath \"/w/.git/hooks\"))")
        );
        at("(deny file-write-unlink (literal \"/w/.git\"))");
        assert!(!text.contains("(deny file-write-unlink (literal \"/w\"))"));
        assert!(
            at("(deny file-read* file-write* (subpath \"/h/.ssh\"))")
                < at("(allow file-read* (subpath \"/h/.ssh/known\"))")
        );
        at("(deny network*)");
    }

    #[test]
    fn network_is_open_if_the_policy_allows_it() {
        let text = profile(&SandboxPolicy { network: Network::On, ..policy() }).unwrap();
        assert!(!text.contains("network"));
    }

    #[test]
    fn names_cannot_end_the_string_they_stand_in() {
        let forged =
            SandboxPolicy { writable: vec![PathBuf::from("/w\")) (allow file-write* (subpath \"/")], ..policy() };
        assert!(profile(&forged).unwrap().contains(r#"(subpath "/w\")) (allow file-write* (subpath \"/"))"#));
        let control = SandboxPolicy { writable: vec![PathBuf::from("/w\n(allow default)")], ..policy() };
        assert!(profile(&control).is_err());
    }
}
