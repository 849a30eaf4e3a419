//! `pinion update`: replaces the programs of an unpacked archive by the ones of a newer release.
//!
//! A release is a directory with archives and one signed list of digests for each target. Nothing is written before the
//! signature and the digest agree, and the old programs stay if the new ones do not start on this machine.

mod installation;
mod replacement;

use self::installation::Installation;
use super::plugin::packages::remote::{MAX_SMALL, get};
use clap::Args;
use pinion_app::failure::{Failure, Result};
use pinion_console::invocation::Invocation;
use pinion_console::output::{Text, print, text};
use pinion_files::open::read_limited;
use pinion_packages::{AuthorKey, SignedRelease, compare_versions, is_on_this_machine, shown_source};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The directory of the project's latest release.
const LATEST: &str = "https://github.com/pinion-agent/pinion/releases/latest/download";
/// The key that signs the project's releases, which the build of a release names.
const RELEASE_KEY: Option<&str> = option_env!("PINION_RELEASE_KEY");
/// The target of this program.
const TARGET: &str = env!("PINION_TARGET");
/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Maximum bytes of an archive.
const MAX_ARCHIVE: u64 = 64 << 20;

/// The arguments of `pinion update`.
#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Report whether there is a newer release, without installing it
    #[arg(long)]
    check: bool,
    /// Directory of the release: an HTTPS address or a path [default: the project's latest release]
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// Public key that must have signed the release, or a file with it [default: the project's key]
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
}

impl UpdateArgs {
    pub(crate) async fn run(self, _: &Invocation) -> Result<()> {
        let program = std::env::current_exe().and_then(|path| path.canonicalize());
        let program = program.map_err(|error| Failure::failed("could not find this program").because(error))?;
        let installation = Installation::for_program(&program, Path::new("/"));
        // Before any request, because nothing could be done with the answer.
        let directory = match (&installation, self.check) {
            (Installation::Managed(_), true) => None,
            (Installation::Managed(manager), false) => {
                let refused = Failure::usage(format!("`{}` comes from {}", program.display(), manager.name));
                return Err(refused.hint(format!("update it with: {}", manager.remedy)));
            }
            (Installation::Unpacked(directory), _) => Some(directory),
        };
        let key = release_key(self.key.as_deref())?;
        let origin = ReleaseOrigin::parse(self.from.as_deref().unwrap_or(LATEST))?;
        let release = origin.release(&key).await?;
        match compare_versions(&release.version, VERSION) {
            Ordering::Equal => return print(&text!("pinion {} is the latest version\n", VERSION)),
            Ordering::Less => {
                let older =
                    format!("`{}` has pinion {}, which is older than {VERSION}", origin.shown(), release.version);
                return Err(Failure::failed(older));
            }
            Ordering::Greater => {}
        }
        if self.check {
            let remedy = match &installation {
                Installation::Managed(manager) => manager.remedy,
                Installation::Unpacked(_) => "pinion update",
            };
            let mut out = Text::default();
            out.line(text!("pinion {} is available; this is {}", release.version.as_str(), VERSION));
            out.line(text!("update with: {}", remedy));
            return print(&out);
        }
        let archive = origin.read(&release.archive, MAX_ARCHIVE).await?;
        let files = release.unpack(&archive).map_err(|error| unusable(&origin).because(error))?;
        if let Some(directory) = directory {
            replacement::replace(directory, &files, &release.version).await?;
        }
        print(&text!("updated pinion {} to {}\n", VERSION, release.version.as_str()))
    }
}

/// Returns the key that the release must be signed with.
fn release_key(argument: Option<&str>) -> Result<AuthorKey> {
    let Some(text) = argument.or(RELEASE_KEY) else {
        return Err(Failure::usage("this build has no key to verify releases with")
            .hint("name a key that you trust with --key"));
    };
    let path = Path::new(text);
    let content = match argument.is_some() && path.is_file() {
        true => read_limited(path, MAX_SMALL).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        false => Ok(text.to_owned()),
    };
    let failed = || Failure::usage(format!("`{text}` is not a public key"));
    let content = content.map_err(|error| failed().because(error))?;
    AuthorKey::parse(&content).map_err(|error| failed().because(error))
}

/// The directory that a release is read from.
enum ReleaseOrigin {
    Web(String),
    Directory(PathBuf),
}

impl ReleaseOrigin {
    fn parse(text: &str) -> Result<Self> {
        match text.contains("://") {
            true if text.starts_with("https://") || (text.starts_with("http://") && is_on_this_machine(text)) => {
                Ok(Self::Web(text.trim_end_matches('/').to_owned()))
            }
            true => Err(Failure::usage(format!("`{}` is not an HTTPS address", shown_source(text)))),
            false => Ok(Self::Directory(PathBuf::from(text))),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Web(address) => shown_source(address).into_owned(),
            Self::Directory(path) => path.display().to_string(),
        }
    }

    /// Reads a file of the release.
    async fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        match self {
            Self::Web(address) => get(&format!("{address}/{name}"), None, Some(limit)).await,
            Self::Directory(path) => {
                let path = path.join(name);
                read_limited(&path, limit)
                    .map_err(|error| Failure::failed(format!("could not read `{}`", path.display())).because(error))
            }
        }
    }

    /// Reads and verifies the list for this target.
    async fn release(&self, key: &AuthorKey) -> Result<SignedRelease> {
        let name = SignedRelease::list_name(TARGET);
        let signature = format!("{name}.minisig");
        let (list, signature) = (self.read(&name, MAX_SMALL).await?, self.read(&signature, MAX_SMALL).await?);
        let (list, signature) = (String::from_utf8_lossy(&list), String::from_utf8_lossy(&signature));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        SignedRelease::read(&list, &signature, key, TARGET, now).map_err(|error| unusable(self).because(error))
    }
}

fn unusable(origin: &ReleaseOrigin) -> Failure {
    Failure::failed(format!("the release in `{}` is not installed", origin.shown()))
}
