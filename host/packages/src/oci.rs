//! References to artifacts in registries, and the manifests of components in them.

use crate::digest::sha256_hex;
use crate::json::parse_strict;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use url::Url;

/// Media types of a manifest, and of the layers that this program reads.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const COMPONENT: &str = "application/wasm";
const ARCHIVE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// Media type of the config of components, as `wkg` writes it.
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the config of archives, which have none, and the type of artifact that a manifest with it has to name.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
const PACKAGE: &str = "application/vnd.dev.pinion.package.v1";
/// Time of the creation in the config of components.
const CREATED: &str = "1970-01-01T00:00:00Z";
/// Annotation with a signature in the format of minisign.
const SIGNATURE: &str = "dev.pinion.minisig";

/// An artifact: `HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciReference {
    /// Host, with a port if there is one.
    pub host: String,
    /// Name of the repository.
    pub name: String,
    /// Tag, `latest` by default.
    pub tag: String,
    /// SHA-256 digest of the manifest.
    pub digest: Option<String>,
}

impl OciReference {
    /// Parses a reference.
    ///
    /// # Errors
    /// It is not valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("`oci://{text}` is not a reference such as oci://ghcr.io/acme/tool:1.0");
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => {
                (rest, Some(digest.strip_prefix("sha256:").filter(|hex| is_sha256(hex)).ok_or_else(invalid)?))
            }
            None => (text, None),
        };
        let (host, path) = rest.split_once('/').ok_or_else(invalid)?;
        let (name, tag) = match path.rsplit_once(':') {
            Some((name, tag)) => (name, tag),
            None => (path, "latest"),
        };
        let is_name = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
                && part.trim_matches('.') == part
        };
        let is_tag = !tag.is_empty()
            && tag.len() <= 128
            && !tag.starts_with(['.', '-'])
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let is_host = Url::parse(&format!("https://{host}/"))
            .is_ok_and(|url| url.host_str().is_some() && url.path() == "/" && url.username().is_empty());
        if !is_host || !name.split('/').all(is_name) || !is_tag {
            return Err(invalid());
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            name: name.to_owned(),
            tag: tag.to_owned(),
            digest: digest.map(str::to_owned),
        })
    }

    /// Returns the address of a part of the repository, such as `manifests/latest`. A registry on this machine is asked
    /// over HTTP.
    pub fn address(&self, part: &str) -> String {
        let host = self.host.rsplit_once(':').map_or(self.host.as_str(), |(host, _)| host);
        let scheme = if ["localhost", "127.0.0.1", "[::1]"].contains(&host) { "http" } else { "https" };
        format!("{scheme}://{}/v2/{}/{part}", self.host, self.name)
    }

    /// Returns the address of the manifest.
    pub fn manifest(&self) -> String {
        match &self.digest {
            Some(digest) => self.address(&format!("manifests/sha256:{digest}")),
            None => self.address(&format!("manifests/{}", self.tag)),
        }
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.host, self.name, self.tag)?;
        self.digest.iter().try_for_each(|digest| write!(f, "@sha256:{digest}"))
    }
}

/// The manifest of an artifact with one component or archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciManifest {
    /// SHA-256 digest of the manifest itself.
    pub digest: String,
    /// SHA-256 digest of the layer.
    pub layer: String,
    /// Size of the layer.
    pub size: u64,
    /// Signature of the layer.
    pub signature: Option<String>,
}

impl OciManifest {
    /// Parses a manifest that a registry sent for a reference.
    ///
    /// # Errors
    /// It is not the one with the wanted digest, or not the manifest of one component or archive.
    pub fn parse(text: &[u8], reference: &OciReference) -> Result<Self, String> {
        let digest = sha256_hex(text);
        if reference.digest.as_ref().is_some_and(|wanted| *wanted != digest) {
            return Err(format!("the registry sent a manifest with digest sha256:{digest}"));
        }
        let manifest = parse_strict(text)?;
        if manifest["schemaVersion"] != 2 || manifest.get("mediaType").is_some_and(|kind| kind != MANIFEST) {
            return Err("it is not the manifest of one artifact".to_owned());
        }
        let [layer] = manifest["layers"].as_array().map(Vec::as_slice).unwrap_or_default() else {
            return Err("the artifact does not have exactly one layer".to_owned());
        };
        if layer["mediaType"] != COMPONENT && layer["mediaType"] != ARCHIVE {
            return Err(format!("its layer is {}, not a component or an archive", layer["mediaType"]));
        }
        let hex =
            layer["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).filter(|hex| is_sha256(hex));
        Ok(Self {
            digest,
            layer: hex.ok_or("the digest of its layer is not one of SHA-256")?.to_owned(),
            size: layer["size"].as_u64().ok_or("its layer has no size")?,
            signature: manifest["annotations"][SIGNATURE].as_str().map(str::to_owned),
        })
    }

    /// Checks that a layer is the one that the manifest names.
    ///
    /// # Errors
    /// Its size or digest differs.
    pub fn check_layer(&self, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() as u64 == self.size && sha256_hex(bytes) == self.layer {
            return Ok(());
        }
        Err(format!("the registry sent other content than sha256:{}", self.layer))
    }
}

/// The one layer of an artifact.
#[derive(Debug, Clone, Copy)]
pub enum ArtifactContent<'a> {
    /// A component with the names of its imports and exports.
    Component {
        /// Its bytes.
        bytes: &'a [u8],
        /// Names of its imports.
        imports: &'a BTreeSet<String>,
        /// Names of its exports.
        exports: &'a BTreeSet<String>,
    },
    /// An archive of a package.
    Archive(&'a [u8]),
}

/// Returns the manifest and the config of an artifact, for publishing.
///
/// A component has the layout that `wkg` writes and reads. The time of its creation is always the same, so that the same
/// content is the same artifact.
pub fn artifact_manifest(content: ArtifactContent<'_>, version: &str, signature: Option<&str>) -> (Value, Vec<u8>) {
    let (ArtifactContent::Component { bytes, .. } | ArtifactContent::Archive(bytes)) = content;
    let layer = format!("sha256:{}", sha256_hex(bytes));
    let (kind, config_kind, config) = match content {
        ArtifactContent::Component { imports, exports, .. } => {
            let config = json!({
                "created": CREATED,
                "author": null,
                "architecture": "wasm",
                "os": "wasip2",
                "layerDigests": [layer],
                "component": { "exports": exports, "imports": imports, "target": null },
            });
            (COMPONENT, CONFIG, config)
        }
        ArtifactContent::Archive(_) => (ARCHIVE, EMPTY, json!({})),
    };
    let config = config.to_string().into_bytes();
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": config_kind, "digest": format!("sha256:{}", sha256_hex(&config)), "size": config.len(),
        },
        "layers": [{ "mediaType": kind, "digest": layer, "size": bytes.len() }],
        "annotations": { "org.opencontainers.image.version": version },
    });
    if matches!(content, ArtifactContent::Archive(_)) {
        manifest["artifactType"] = json!(PACKAGE);
    }
    if let Some(signature) = signature {
        manifest["annotations"][SIGNATURE] = json!(signature);
    }
    (manifest, config)
}

fn is_sha256(hex: &str) -> bool {
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
