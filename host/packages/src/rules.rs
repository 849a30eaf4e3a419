//! The user's rules for installations: allowed sources, required signers, a minimum age, and blocked packages.

use serde::Deserialize;
use std::fmt;

/// Seconds of a day.
const DAY: u64 = 86_400;

/// The content of `plugin-rules.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct InstallationRules {
    /// Beginnings of the only sources that may be used, such as `oci://ghcr.io/acme`; without any, all may.
    pub allowed_sources: Vec<String>,
    /// Days since the publication that a release needs before it is installed.
    pub minimum_age_days: u64,
    /// Packages that are never installed.
    pub blocked_names: Vec<String>,
    /// Digests of files or packages that are never installed.
    pub blocked_digests: Vec<String>,
    /// Public keys that no longer count.
    pub revoked_keys: Vec<String>,
    /// Sources whose packages have to be signed.
    #[serde(rename = "signed")]
    pub signed: Vec<SignedSource>,
}

/// A source whose packages have to be signed by one of some keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SignedSource {
    /// Beginning of the source.
    pub source: String,
    /// Public keys.
    pub keys: Vec<String>,
}

/// A package that is about to be installed.
#[derive(Debug, Clone, Copy)]
pub struct InstallationCandidate<'a> {
    /// The source that it came from.
    pub source: &'a str,
    /// The address that an index or a marketplace names for it.
    pub origin: Option<&'a str>,
    /// Name of the package.
    pub name: &'a str,
    /// Digests of the package and of its files, in any form.
    pub digests: &'a [String],
    /// Key that signed it.
    pub signer: Option<&'a str>,
    /// Time of its publication, in seconds since 1970, where a signed index names it.
    pub published: Option<u64>,
    /// The present time.
    pub now: u64,
}

/// A rule that forbids an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleViolation {
    /// The source is not among the allowed ones.
    Source(String),
    /// The name is blocked.
    Name(String),
    /// A digest is blocked.
    Digest(String),
    /// The key that signed it was revoked.
    Revoked(String),
    /// The source needs a signature of a listed key.
    Signer(String),
    /// The release is younger than the rules allow, or its age is unknown.
    Age(u64),
}

impl fmt::Display for RuleViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(source) => write!(f, "`{source}` is not an allowed source"),
            Self::Name(name) => write!(f, "package `{name}` is blocked"),
            Self::Digest(digest) => write!(f, "the content {digest} is blocked"),
            Self::Revoked(key) => write!(f, "the key {key} was revoked"),
            Self::Signer(source) => write!(f, "packages of `{source}` need a signature of a listed key"),
            Self::Age(days) => write!(f, "the release is not known to be {days} days old"),
        }
    }
}

impl std::error::Error for RuleViolation {}

impl InstallationRules {
    /// Parses the file.
    ///
    /// # Errors
    /// It is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    /// Checks a package against all rules.
    ///
    /// # Errors
    /// The first rule that forbids it.
    pub fn check(&self, candidate: &InstallationCandidate<'_>) -> Result<(), RuleViolation> {
        let source = candidate.source;
        if !self.allowed_sources.is_empty() && !self.allowed_sources.iter().any(|start| is_below(source, start)) {
            return Err(RuleViolation::Source(source.to_owned()));
        }
        if self.blocked_names.iter().any(|name| name.eq_ignore_ascii_case(candidate.name)) {
            return Err(RuleViolation::Name(candidate.name.to_owned()));
        }
        let plain = |digest: &str| digest.rsplit(':').next().unwrap_or_default().to_ascii_lowercase();
        let blocked = candidate
            .digests
            .iter()
            .find(|digest| self.blocked_digests.iter().any(|other| plain(other) == plain(digest)));
        if let Some(digest) = blocked {
            return Err(RuleViolation::Digest(digest.clone()));
        }
        if let Some(key) = candidate.signer.filter(|key| self.revoked_keys.iter().any(|revoked| revoked == key)) {
            return Err(RuleViolation::Revoked(key.to_owned()));
        }
        let is_from = |start: &str| is_below(source, start) || candidate.origin.is_some_and(|at| is_below(at, start));
        for signed in self.signed.iter().filter(|signed| is_from(&signed.source)) {
            if !candidate.signer.is_some_and(|key| signed.keys.iter().any(|listed| listed == key)) {
                return Err(RuleViolation::Signer(signed.source.clone()));
            }
        }
        let age = candidate.published.map(|published| candidate.now.saturating_sub(published));
        if self.minimum_age_days > 0 && age.is_none_or(|age| age < self.minimum_age_days.saturating_mul(DAY)) {
            return Err(RuleViolation::Age(self.minimum_age_days));
        }
        Ok(())
    }
}

/// Returns whether a source begins with `start`, up to the end of a name.
fn is_below(source: &str, start: &str) -> bool {
    let rest = source.strip_prefix(start);
    rest.is_some_and(|rest| rest.is_empty() || start.ends_with('/') || rest.starts_with(['/', ':', '@', '#']))
}
