//! HTTP interfaces as tools, for applications: the bridge of `plugins/openapi`, embedded, with its settings and grants.
//!
//! Needs the feature `openapi`. The methods of [`RuntimeConfig`] add interfaces one by one, each with the grants that it needs:
//! requests to its server, and its document. [`OpenApi::source`] is the plugin that offers them.
//!
//! ```no_run
//! use pinion_plugin_runtime::{OpenApi, Runtime, RuntimeConfig};
//!
//! async fn load(config: RuntimeConfig) -> Result<Runtime, Box<dyn std::error::Error>> {
//!     let pets = OpenApi::new("pets", "https://pets.example/v1").path_prefix("/pets");
//!     let shop = OpenApi::new("shop", "https://shop.example");
//!     let config = config
//!         .with_openapi_file(pets, "pets.yaml")?
//!         .with_openapi_url(shop, "https://shop.example/openapi.json")?;
//!     let runtime = Runtime::new(config, |_notice| {})?;
//!     runtime.begin_offers();
//!     runtime.add(vec![OpenApi::source()]).await;
//!     runtime.offers_settled().await;
//!     Ok(runtime)
//! }
//! ```

use crate::capability::table::Grants;
use crate::load_error::LoadError;
use crate::loading::source::PluginSource;
use crate::policy::{Ceiling, Component, PluginPolicy, PluginSettings};
use crate::runtime_shared::RuntimeConfig;
use pinion_egress::{InvalidRule, Policy};
use pinion_files::open::open_file;
use pinion_workspace::grants::access::FileAccess;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// The component of `plugins/openapi`. A static, because its address identifies it.
static COMPONENT: &[u8] = include_bytes!("../components/openapi.wasm");
/// The name in its manifest.
const NAME: &str = "openapi";
/// The name of a document in its directory.
const DOCUMENT: &str = "document";

/// An HTTP interface whose operations become tools.
#[derive(Debug, Clone)]
pub struct OpenApi {
    name: String,
    server: String,
    section: Map<String, Value>,
}

/// An interface cannot be added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenApiError {
    /// An address is not a URL that can receive granted requests.
    #[error("`{url}` cannot be the address of an interface")]
    Address {
        /// The address.
        url: String,
        /// The reason.
        #[source]
        source: InvalidRule,
    },
    /// The document cannot be found or stored.
    #[error("the document of `{name}` cannot be used")]
    Document {
        /// The name of the interface.
        name: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl OpenApi {
    /// An interface at a server, such as `https://pets.example/v1`, which begins the addresses of all its requests,
    /// regardless of its document. The names of its tools begin with `name`.
    pub fn new(name: impl Into<String>, server: impl Into<String>) -> Self {
        let (name, server) = (name.into(), server.into());
        let section = Map::from_iter([("base-url".to_owned(), json!(server))]);
        Self { name, server, section }
    }

    /// Offers only these operations, by their `operationId`.
    #[must_use]
    pub fn operations<T: Into<String>>(self, ids: impl IntoIterator<Item = T>) -> Self {
        let ids: Vec<String> = ids.into_iter().map(Into::into).collect();
        self.with("operations", json!(ids))
    }

    /// Offers only operations with one of these tags.
    #[must_use]
    pub fn tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        let tags: Vec<String> = tags.into_iter().map(Into::into).collect();
        self.with("tags", json!(tags))
    }

    /// Offers only operations whose path begins like this.
    #[must_use]
    pub fn path_prefix(self, prefix: impl Into<String>) -> Self {
        self.with("path-prefix", json!(prefix.into()))
    }

    /// Sends these header fields with each request. They are not a place for secrets, because the plugin sees them.
    #[must_use]
    pub fn headers(self, headers: BTreeMap<String, String>) -> Self {
        self.with("headers", json!(headers))
    }

    /// Has the host insert a secret into each request. The settings of the plugin `openapi` in the application's policy must grant
    /// it ([`Grants::secrets`]).
    #[must_use]
    pub fn credential(self, secret: impl Into<String>) -> Self {
        self.with("credential", json!(secret.into()))
    }

    /// The plugin, for [`Runtime::add`](crate::Runtime::add). Its tools appear once the runtime asks for offers
    /// ([`Runtime::begin_offers`](crate::Runtime::begin_offers)).
    pub fn source() -> PluginSource {
        PluginSource::BuiltIn { name: NAME, bytes: COMPONENT, digest: None, description: None }
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.section.insert(key.to_owned(), value);
        self
    }

    fn unusable(&self, source: io::Error) -> OpenApiError {
        OpenApiError::Document { name: self.name.clone(), source }
    }
}

impl RuntimeConfig {
    /// Adds an interface that a file describes, in JSON or YAML. Reads the file now, because a grant of its directory would show the
    /// plugin more. Needs the feature `openapi`.
    ///
    /// # Errors
    /// The file cannot be read, or the address of the server is invalid.
    pub fn with_openapi_file(self, api: OpenApi, document: impl AsRef<Path>) -> Result<Self, OpenApiError> {
        let document =
            open_file(document.as_ref()).and_then(std::io::read_to_string).map_err(|error| api.unusable(error))?;
        self.with_openapi_spec(api, &document)
    }

    /// Adds an interface that a document at a URL describes. The plugin keeps the document if the application grants it storage
    /// ([`Grants::storage`]), and otherwise gets it at each start. Needs the feature `openapi`.
    ///
    /// # Errors
    /// The URL, or the address of the server, is invalid.
    pub fn with_openapi_url(self, api: OpenApi, url: &str) -> Result<Self, OpenApiError> {
        let place = url.split(['?', '#']).next().unwrap_or_default();
        self.with_openapi(api, url, vec![format!("GET {place}")], None)
    }

    /// Adds an interface that a text describes, in JSON or YAML. The policy keeps it in a temporary directory, which the plugin may
    /// read. Needs the feature `openapi`.
    ///
    /// # Errors
    /// The address of the server is invalid, or the document cannot be stored.
    pub fn with_openapi_spec(self, api: OpenApi, document: &str) -> Result<Self, OpenApiError> {
        let directory = written(document).map_err(|error| api.unusable(error))?;
        let spec = directory.path().join(DOCUMENT).to_string_lossy().into_owned();
        self.with_openapi(api, &spec, Vec::new(), Some(directory))
    }

    fn with_openapi(
        self,
        api: OpenApi,
        spec: &str,
        mut requests: Vec<String>,
        document: Option<TempDir>,
    ) -> Result<Self, OpenApiError> {
        let OpenApi { name, server, mut section } = api;
        section.insert("spec".to_owned(), json!(spec));
        requests.push(server);
        let rule = |url: String| url.parse().map_err(|source| OpenApiError::Address { url, source });
        let rules = requests.into_iter().map(rule).collect::<Result<_, _>>()?;
        let files = document.iter().map(|directory| (directory.path().to_owned(), FileAccess::Read)).collect();
        let grants = Grants { files, http: Policy::new(rules), ..Grants::default() };
        let policy = WithOpenApi { policy: self.policy, name, section, grants, _document: document };
        Ok(Self { policy: Arc::new(policy), ..self })
    }
}

/// Writes a document to a directory that only this user can read.
fn written(document: &str) -> io::Result<TempDir> {
    let directory = tempfile::tempdir()?;
    std::fs::write(directory.path().join(DOCUMENT), document)?;
    Ok(directory)
}

/// A policy that adds one interface to the settings of the embedded bridge, and leaves all other plugins alone.
struct WithOpenApi {
    policy: Arc<dyn PluginPolicy>,
    name: String,
    section: Map<String, Value>,
    grants: Grants,
    /// The directory of the document, as long as it is needed.
    _document: Option<TempDir>,
}

impl WithOpenApi {
    fn added(&self, component: &Component<'_>, mut settings: PluginSettings) -> PluginSettings {
        let is_bridge =
            matches!(component.source, PluginSource::BuiltIn { bytes, .. } if std::ptr::eq(*bytes, COMPONENT));
        if !is_bridge {
            return settings;
        }
        let apis = members(members(&mut settings.config).entry("apis").or_insert(Value::Null));
        apis.insert(self.name.clone(), Value::Object(self.section.clone()));
        settings.grants.files.extend(self.grants.files.clone());
        let rules = settings.grants.http.rules().iter().chain(self.grants.http.rules()).cloned().collect();
        settings.grants.http = Policy::new(rules);
        settings
    }
}

/// Returns the members of an object; anything else becomes an empty one.
fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("it was made an object"),
    }
}

impl PluginPolicy for WithOpenApi {
    fn settings(&self, component: &Component<'_>) -> Result<PluginSettings, LoadError> {
        Ok(self.added(component, self.policy.settings(component)?))
    }

    fn settings_of_all(&self, components: &[Component<'_>]) -> Vec<Result<PluginSettings, LoadError>> {
        let settings = self.policy.settings_of_all(components);
        components.iter().zip(settings).map(|(component, settings)| Ok(self.added(component, settings?))).collect()
    }

    fn loaded(&self, component: &Component<'_>, offered: &Ceiling) -> Result<(), LoadError> {
        self.policy.loaded(component, offered)
    }

    fn files(&self) -> Vec<PathBuf> {
        self.policy.files()
    }
}
