//! Signing a package, and pushing it to a registry or writing it as an archive.

use super::fetch::fetch;
use super::remote::{MAX_SMALL, send};
use super::review::about;
use pinion_app::failure::{Failure, Result};
use pinion_app::files::private::read_or_create;
use pinion_app::workspace_base::Base;
use pinion_console::output::{json, note, print, text, written};
use pinion_egress::Request;
use pinion_files::AtomicWrite;
use pinion_packages::archive::{is_archive, pack};
use pinion_packages::{ArtifactContent, OciReference, SigningKey, artifact_manifest, sha256_hex};
use pinion_plugin_runtime::Inspection;
use serde_json::json;
use std::path::Path;

/// Publishes a package.
pub(super) async fn publish(
    base: &Base,
    package: &Path,
    to: Option<&str>,
    out: Option<&Path>,
    as_json: bool,
) -> Result<()> {
    let source = package.to_str().ok_or_else(|| Failure::usage("the path is not UTF-8"))?;
    let source = if source.contains('/') { source.to_owned() } else { format!("./{source}") };
    let fetched = fetch(base, &source).await?;
    let package = &fetched.package;
    // A component without a manifest is known by the name of its file, which addresses do not keep.
    let keeps_name = |content: &&Vec<u8>| is_archive(content) || Inspection::from_component(content).is_ok();
    let content = match fetched.content.as_ref().filter(keeps_name) {
        Some(content) => content.clone(),
        None => pack(&package.files).map_err(|error| Failure::failed("could not make the archive").because(error))?,
    };
    let is_archive = is_archive(&content);
    let key_file = base.paths.author_key_file();
    let unusable = |error: String| Failure::failed(format!("could not use `{}`", key_file.display())).because(error);
    let seed = read_or_create::<32>(&key_file).map_err(|error| unusable(error.to_string()))?;
    if seed.repaired.is_some() {
        return Err(unusable("it was damaged and has been replaced: this is a new key".to_owned()));
    }
    let key = SigningKey::from_seed(&seed.bytes).map_err(unusable)?;
    let signature = key.sign(&content, &format!("name:{} version:{}", package.name, package.version));
    let public = key.public();
    note(&text!("Users will be asked:\n{}", about(&fetched, Some(public.as_str()))));
    let place = match (to, out) {
        (Some(to), _) => push(to, &content, is_archive, (&package.version, &signature)).await?,
        (None, Some(out)) => {
            let end = if is_archive { "tar.gz" } else { "wasm" };
            let file = base.workspace.join(out).join(format!("{}-{}.{end}", package.name, package.version));
            let beside = |end: &str| std::path::PathBuf::from(format!("{}{end}", file.display()));
            let parts: [(std::path::PathBuf, &[u8]); 3] = [
                (beside(".pub"), public.as_str().as_bytes()),
                (beside(".minisig"), signature.as_bytes()),
                (file.clone(), &content),
            ];
            if let Some(directory) = file.parent() {
                std::fs::create_dir_all(directory).map_err(|error| {
                    Failure::failed(format!("could not create `{}`", directory.display())).because(error)
                })?;
            }
            for (path, bytes) in parts {
                AtomicWrite::shared()
                    .replace(&path, bytes)
                    .map_err(|error| Failure::failed(format!("could not write `{}`", path.display())).because(error))?;
            }
            file.display().to_string()
        }
        (None, None) => return Err(Failure::usage("no destination").hint("name one with --to or --out")),
    };
    let digest = format!("sha256:{}", sha256_hex(&content));
    if as_json {
        let report = json!({ "name": package.name, "version": package.version, "published": place, "content": digest, "key": public.as_str() });
        return written(json(&report));
    }
    print(&text!("published {}\ncontent {}\nkey {}\n", place, digest, public.as_str()))
}

/// Pushes the content as an artifact. Returns its reference with the digest of its manifest.
async fn push(to: &str, content: &[u8], is_archive: bool, (version, signature): (&str, &str)) -> Result<String> {
    let text = to.strip_prefix("oci://").ok_or_else(|| Failure::usage(format!("`{to}` does not begin with oci://")))?;
    let reference = OciReference::parse(text).map_err(Failure::usage)?;
    let (imports, exports);
    let layer = match is_archive {
        true => ArtifactContent::Archive(content),
        false => {
            let interfaces = Inspection::interfaces(content);
            [imports, exports] = interfaces.map_err(|error| Failure::failed("not a component").because(error))?;
            ArtifactContent::Component { bytes: content, imports: &imports, exports: &exports }
        }
    };
    let (manifest, config) = artifact_manifest(layer, version, Some(signature));
    let manifest = manifest.to_string().into_bytes();
    upload(&reference, &config).await?;
    upload(&reference, content).await?;
    let mut request = Request::new("PUT", reference.address(&format!("manifests/{}", reference.tag)));
    request.headers.push(("content-type".to_owned(), b"application/vnd.oci.image.manifest.v1+json".to_vec()));
    request.body = manifest.clone().into();
    let answer = send(request, Some(MAX_SMALL)).await?;
    match answer.status {
        200..=202 => Ok(format!(
            "oci://{}/{}:{}@sha256:{}",
            reference.host,
            reference.name,
            reference.tag,
            sha256_hex(&manifest)
        )),
        status => Err(Failure::failed(format!("the registry refused the manifest with status {status}"))),
    }
}

/// Uploads a blob in one part.
async fn upload(reference: &OciReference, bytes: &[u8]) -> Result<()> {
    let begun = send(Request::new("POST", reference.address("blobs/uploads/")), Some(MAX_SMALL)).await?;
    let refused = |status: u16| Failure::failed(format!("the registry refused an upload with status {status}"));
    let location = begun.location.filter(|_| begun.status == 202).ok_or_else(|| refused(begun.status))?;
    let base = url::Url::parse(&reference.address("blobs/uploads/"))
        .map_err(|error| Failure::failed("invalid address").because(error))?;
    let mut target = base.join(&location).map_err(|error| Failure::failed("invalid upload address").because(error))?;
    // The upload continues where it began: a location elsewhere would receive the package.
    if target.origin() != base.origin() {
        return Err(Failure::failed(format!(
            "the registry sends uploads to `{}`",
            target.origin().ascii_serialization()
        )));
    }
    target.query_pairs_mut().append_pair("digest", &format!("sha256:{}", sha256_hex(bytes)));
    let mut request = Request::new("PUT", target.as_str());
    request.headers.push(("content-type".to_owned(), b"application/octet-stream".to_vec()));
    request.body = bytes.to_vec().into();
    let done = send(request, Some(MAX_SMALL)).await?;
    if done.status == 201 { Ok(()) } else { Err(refused(done.status)) }
}
