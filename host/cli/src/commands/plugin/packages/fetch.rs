//! Reads packages from their sources: completely, within bounds, and without running anything.

use super::remote::{MAX_SMALL, get, get_optional};
use super::search::indexed;
use pinion_app::failure::{Failure, Result};
use pinion_app::plugins::installed::HostReader;
use pinion_app::workspace_base::Base;
use pinion_files::open::read_limited;
use pinion_packages::archive::{is_archive, unpack};
use pinion_packages::{
    Marketplace, MarketplaceEntry, MarketplaceSource, OciManifest, OciReference, Package, PackageFiles, PackageSource,
    is_on_this_machine, sha256_hex, shown_source,
};
use std::path::Path;
use url::Url;

/// Maximum bytes of a file that is a package.
const MAX_FILE: u64 = 128 << 20;
/// Media type of manifests in registries.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A package as its source sent it.
pub(super) struct Fetched {
    pub(super) package: Package,
    /// The source that an update asks again.
    pub(super) source: String,
    /// The address that the source names, where an index or a marketplace is asked.
    pub(super) origin: Option<String>,
    /// Digest that the source names it by.
    pub(super) source_digest: Option<String>,
    /// The signed bytes, if the source has some.
    pub(super) content: Option<Vec<u8>>,
    /// Signature of the content, in the format of minisign.
    pub(super) signature: Option<String>,
    /// Key that the source offers for the first use.
    pub(super) key: Option<String>,
    /// Time of its publication.
    pub(super) published: Option<u64>,
}

/// Bytes from a source, before they are a package.
struct FetchedBytes {
    content: Vec<u8>,
    file_name: String,
    digest: Option<String>,
    signature: Option<String>,
    key: Option<String>,
}

/// Reads a package.
///
/// # Errors
/// The source does not have it, sent other content than it said, or the package breaks the rules.
pub(super) async fn fetch(base: &Base, text: &str) -> Result<Fetched> {
    let parsed = PackageSource::parse(text, &base.workspace);
    let source = parsed.map_err(|error| Failure::usage(format!("invalid source `{text}`")).because(error))?;
    match source {
        PackageSource::Indexed(name, version) => {
            let entry = indexed(base, &name, version.as_deref()).await?;
            let parsed = PackageSource::parse(&entry.source, &base.workspace);
            let located = match parsed.map_err(Failure::failed)? {
                PackageSource::Web(_) | PackageSource::Oci(_) => Box::pin(fetch(base, &entry.source)).await?,
                _ => return Err(Failure::failed(format!("the index names `{}` as a source", entry.source))),
            };
            let digest = located.source_digest.as_deref().unwrap_or_default();
            if digest != format!("sha256:{}", entry.sha256) {
                return Err(Failure::failed(format!("`{}` is not the content that the index names", entry.source)));
            }
            if located.package.name != entry.name || located.package.version != entry.version {
                return Err(Failure::failed(format!("`{}` is another package or version", entry.source)));
            }
            if entry.signer.is_some() && located.signature.is_none() {
                return Err(Failure::failed(format!("`{}` has no signature of the key in the index", entry.source)));
            }
            let (origin, published) = (Some(located.source.clone()), Some(entry.published));
            Ok(Fetched { source: name, origin, published, key: entry.signer, ..located })
        }
        PackageSource::Path(path) if path.is_dir() => {
            let files = PackageFiles::read_directory(&path).map_err(|error| broken(text, error))?;
            let path = path.canonicalize().unwrap_or(path);
            read(files, &path.display().to_string(), &stem(&path), None)
        }
        PackageSource::Path(path) => {
            let content = read_limited(&path, MAX_FILE)
                .map_err(|error| Failure::usage(format!("`{}`", path.display())).because(error))?;
            let beside = |end: &str| {
                let mut name = path.as_os_str().to_owned();
                name.push(end);
                read_limited(Path::new(&name), MAX_SMALL).ok().and_then(|bytes| String::from_utf8(bytes).ok())
            };
            let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (signature, key) = (beside(".minisig"), beside(".pub"));
            let path = path.canonicalize().unwrap_or(path);
            from_bytes(FetchedBytes { content, file_name, digest: None, signature, key }, &path.display().to_string())
        }
        PackageSource::Web(url) => {
            let content = get(url.as_str(), None, None).await?;
            let file_name = url.path_segments().and_then(|mut names| names.next_back()).unwrap_or_default().to_owned();
            let signature = get_optional(beside(&url, ".minisig").as_str()).await?;
            // Some servers answer every address with a page.
            let signature = signature.filter(|text| text.starts_with("untrusted comment:"));
            let key = if signature.is_some() { get_optional(beside(&url, ".pub").as_str()).await? } else { None };
            let digest = Some(format!("sha256:{}", sha256_hex(&content)));
            from_bytes(FetchedBytes { content, file_name, digest, signature, key }, url.as_str())
        }
        PackageSource::Oci(reference) => {
            let (digest, content, signature) = pull(&reference).await?;
            let file_name = reference.name.rsplit('/').next().unwrap_or_default().to_owned();
            let digest = Some(format!("sha256:{digest}"));
            from_bytes(FetchedBytes { content, file_name, digest, signature, key: None }, &format!("oci://{reference}"))
        }
        PackageSource::Marketplace(place, name) => from_marketplace(base, &place, &name).await,
    }
}

/// Returns the address of a file with this ending next to another, with the same query.
fn beside(url: &Url, ending: &str) -> Url {
    let mut beside = url.clone();
    beside.set_path(&format!("{}{ending}", url.path()));
    beside
}

/// Pulls the one layer of an artifact. Returns the digest of its manifest, the layer and its signature.
async fn pull(reference: &OciReference) -> Result<(String, Vec<u8>, Option<String>)> {
    let text = get(&reference.manifest(), Some(MANIFEST), Some(MAX_SMALL)).await?;
    let failed = |error: String| Failure::failed(format!("`oci://{reference}`")).because(error);
    let manifest = OciManifest::parse(&text, reference).map_err(failed)?;
    if manifest.size > MAX_FILE {
        return Err(failed("the artifact is too large".to_owned()));
    }
    let layer = get(&reference.address(&format!("blobs/sha256:{}", manifest.layer)), None, Some(manifest.size)).await?;
    manifest.check_layer(&layer).map_err(failed)?;
    Ok((manifest.digest, layer, manifest.signature))
}

/// Reads an entry of a `marketplace.json`, which is a file, a directory or an address.
async fn from_marketplace(base: &Base, place: &str, name: &str) -> Result<Fetched> {
    let is_remote = place.contains("://");
    let path = base.workspace.join(place);
    let unusable = |error: String| Failure::failed(format!("the marketplace `{place}`")).because(error);
    let (root, text) = match is_remote {
        true => (None, get(place, None, Some(MAX_SMALL)).await?),
        false => {
            let found = Marketplace::FILES.iter().map(|file| (path.clone(), path.join(file)));
            let mut found = found.chain([(path.parent().unwrap_or(&path).to_owned(), path.clone())]);
            let (root, file) =
                found.find(|(_, file)| file.is_file()).ok_or_else(|| unusable("no such file".to_owned()))?;
            // The file may be in its own directory below the root.
            let root = Marketplace::FILES
                .iter()
                .find_map(|name| file.to_str()?.strip_suffix(name))
                .map_or(root, |root| root.into());
            (Some(root), read_limited(&file, MAX_SMALL).map_err(|error| unusable(error.to_string()))?)
        }
    };
    let list = Marketplace::parse(&text).map_err(unusable)?;
    let entry = list.entry(name).ok_or_else(|| {
        let notice = list.notices.iter().find(|notice| notice.contains(&format!("`{name}`"))).cloned();
        unusable(notice.unwrap_or_else(|| format!("it has no entry `{name}`")))
    })?;
    let source = match is_remote {
        true => format!("{place}#{name}"),
        false => format!("{}#{name}", path.canonicalize().unwrap_or(path.clone()).display()),
    };
    let fetched = match (&entry.source, root) {
        (MarketplaceSource::Directory(_), None) => {
            return Err(unusable("its entry is a directory, which an address does not have".to_owned()));
        }
        (MarketplaceSource::Directory(directory), Some(root)) => {
            let files = PackageFiles::read_directory(&root.join(directory)).map_err(|error| broken(&source, error))?;
            read_entry(entry, files, &source, None)?
        }
        (MarketplaceSource::Archive(url, digest), _) => {
            if is_remote && is_on_this_machine(url) && !is_on_this_machine(place) {
                return Err(unusable(format!(
                    "its entry `{name}` is on this machine, where only you can name a source"
                )));
            }
            let content = get(url, None, None).await?;
            let found = sha256_hex(&content);
            if digest.as_ref().is_some_and(|digest| *digest != found) {
                return Err(unusable(format!("`{}` is not the content that it names", shown_source(url))));
            }
            let digest = Some(format!("sha256:{found}"));
            if is_archive(&content) {
                let files = unpack(&content).map_err(|error| broken(&source, error))?;
                let fetched = read_entry(entry, files, &source, digest)?;
                let fetched = Fetched { origin: Some(url.clone()), content: Some(content), ..fetched };
                return check_entry(fetched, name).map_err(unusable);
            }
            let bytes = FetchedBytes { content, file_name: name.to_owned(), digest, signature: None, key: None };
            Fetched { origin: Some(url.clone()), ..from_bytes(bytes, &source)? }
        }
    };
    check_entry(fetched, name).map_err(unusable)
}

/// Checks that an entry of a marketplace is the package of its name.
fn check_entry(fetched: Fetched, name: &str) -> std::result::Result<Fetched, String> {
    match fetched.package.name == name {
        true => Ok(fetched),
        false => Err(format!("its entry `{name}` is a package called `{}`", fetched.package.name)),
    }
}

/// Reads the files of an entry of a marketplace, with the servers and hooks of the entry if the files have no manifest.
fn read_entry(
    entry: &MarketplaceEntry,
    mut files: PackageFiles,
    source: &str,
    source_digest: Option<String>,
) -> Result<Fetched> {
    let notice = entry.complete(&mut files).map_err(|error| broken(source, error))?;
    let mut fetched = read(files, source, &entry.name, source_digest)?;
    fetched.package.notices.extend(notice);
    Ok(fetched)
}

/// Makes a package of a file: a component or an archive.
fn from_bytes(bytes: FetchedBytes, source: &str) -> Result<Fetched> {
    let FetchedBytes { content, file_name, digest, signature, key } = bytes;
    let fallback = file_name.split('.').next().unwrap_or_default().to_owned();
    let files = match is_archive(&content) {
        true => unpack(&content),
        false => PackageFiles::single(
            &format!("{}.wasm", file_name.strip_suffix(".wasm").unwrap_or(&file_name)),
            content.clone(),
        ),
    };
    let files = files.map_err(|error| broken(source, error))?;
    let fetched = read(files, source, &fallback, digest)?;
    Ok(Fetched { content: Some(content), signature, key, ..fetched })
}

fn read(files: PackageFiles, source: &str, fallback: &str, source_digest: Option<String>) -> Result<Fetched> {
    let package = Package::read(files, fallback, &HostReader).map_err(|error| broken(source, error))?;
    Ok(Fetched {
        package,
        source: source.to_owned(),
        origin: None,
        source_digest,
        content: None,
        signature: None,
        key: None,
        published: None,
    })
}

fn broken(source: &str, error: pinion_packages::PackageError) -> Failure {
    Failure::failed(format!("`{}` is not installed", shown_source(source))).because(error)
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
