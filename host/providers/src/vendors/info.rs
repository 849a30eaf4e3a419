//! [`ProviderInfo`]: the data about one vendor, and the questions that the data answers.

use super::layout::{Layout, Tail};
use crate::auth::Auth;
use crate::formats::{WireFormat, openai_chat};
use crate::models::ModelSpec;

/// A vendor, before anything is configured or built.
#[derive(Debug)]
pub struct ProviderInfo {
    /// The name in configs and on the command line.
    pub name: &'static str,
    /// The name shown to people.
    pub label: &'static str,
    /// The environment variable that holds its key; `None` when it works without one.
    pub key_variable: Option<&'static str>,
    /// The page where users log in with a browser to get a key; `None` where they create one themselves.
    pub login_page: Option<&'static str>,
    /// The usual base URL, which may contain `{region}`. Empty for `replay`, and where every user has a different URL.
    pub base_url: &'static str,
    /// The region used unless one is configured; `None` when the vendor has no regions or no default.
    pub default_region: Option<&'static str>,
    /// Prefixes of model names that belong to this vendor when no provider is named.
    pub prefixes: &'static [&'static str],
    /// Further names of the vendor that users write before a model.
    pub(super) other_names: &'static [&'static str],
    /// The model to use unless one is named; `None` where every user has different models.
    pub default_model: Option<&'static str>,
    /// Short names of its models, with the names that the vendor knows.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Further variables for its key, read after `key_variable`.
    pub(super) other_key_variables: &'static [&'static str],
    /// Variables for its base URL, in order of precedence.
    pub(super) base_url_variables: &'static [&'static str],
    /// Turns the value of such a variable into a URL.
    pub(super) read_base_url: fn(&str) -> String,
    /// Variables for the region, in order of precedence.
    pub(super) region_variables: &'static [&'static str],
    /// The variable for the project that is billed.
    pub(super) project_variable: Option<&'static str>,
    /// Base URLs of regions that do not follow the pattern of `base_url`.
    pub(super) regional_urls: &'static [(&'static str, &'static str)],
    /// A URL that the user configures is still the vendor's own server, which needs a key and accepts every parameter.
    pub(super) has_tenant_urls: bool,
    /// Model names may begin with another vendor's name, so that a slash in one does not name a provider.
    pub(super) routes: bool,
    /// The name also stands for compatible servers, whose models are any.
    pub(super) serves_any_model: bool,
    pub(crate) auth: Auth,
    /// The wire format; `None` for `replay`, which is built from a script.
    pub(super) format: Option<WireFormat>,
    /// Chat Completions, where the vendor speaks it at some base URLs instead of `format`.
    pub(super) chat: Option<openai_chat::ChatQuirks>,
    /// The version in the path, where it differs from the format's usual one.
    pub(super) version: Option<&'static str>,
    /// The end of the path, where it differs from the format's usual one.
    pub(super) tail: Option<Tail>,
}

impl ProviderInfo {
    /// A row with nothing filled in.
    pub(super) const EMPTY: Self = Self {
        name: "",
        label: "",
        key_variable: None,
        login_page: None,
        base_url: "",
        default_region: None,
        prefixes: &[],
        other_names: &[],
        default_model: None,
        aliases: &[],
        other_key_variables: &[],
        base_url_variables: &[],
        read_base_url: str::to_owned,
        region_variables: &[],
        project_variable: None,
        regional_urls: &[],
        has_tenant_urls: false,
        routes: false,
        serves_any_model: false,
        auth: Auth::Bearer,
        format: None,
        chat: None,
        version: None,
        tail: None,
    };

    /// Returns the environment variables that may hold its key as it is sent, in order of precedence.
    pub fn key_variables(&self) -> impl Iterator<Item = &'static str> {
        self.key_variable.into_iter().chain(self.other_key_variables.iter().copied())
    }

    /// Returns the model that a short name stands for.
    pub(super) fn alias(&self, name: &str) -> Option<&'static str> {
        self.aliases.iter().find(|(alias, _)| *alias == name).map(|(_, model)| *model)
    }

    /// Returns the model to use at `base_url`, or at the usual URL, unless one is named. The user's own server does not
    /// have the vendor's models.
    pub fn default_model(&self, base_url: Option<&str>) -> Option<&'static str> {
        self.default_model.filter(|_| !self.is_elsewhere(base_url))
    }

    /// Returns the model to use at `base_url`, or at the usual URL, when the user names the vendor and no model. A gateway
    /// to the vendor offers the vendor's models.
    pub fn named_default_model(&self, base_url: Option<&str>) -> Option<&'static str> {
        if self.serves_any_model { self.default_model(base_url) } else { self.default_model }
    }

    /// Reads the base URL from the vendor's own variables. `variable` looks one up; empty values count as unset.
    pub fn base_url_from(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        first_of(self.base_url_variables, variable).map(|value| (self.read_base_url)(&value))
    }

    /// Reads the region from the vendor's own variables.
    pub fn region_from(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        first_of(self.region_variables, variable)
    }

    /// Reads the project from the vendor's own variables.
    pub fn project_from(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        first_of(self.project_variable.as_slice(), variable)
    }

    /// Returns whether requests to `base_url`, or to the usual URL, need a key. A server of the user's own may not.
    pub fn needs_key(&self, base_url: Option<&str>) -> bool {
        self.key_variable.is_some() && !self.is_elsewhere(base_url)
    }

    /// Returns whether requests to `base_url`, or to the usual URL, can ask the model to think.
    pub fn takes_thinking(&self, base_url: Option<&str>, model: &ModelSpec) -> bool {
        self.format_at(base_url).is_none_or(|format| format.takes_thinking(model))
    }

    /// Returns whether it plays a script instead of sending requests.
    pub fn is_scripted(&self) -> bool {
        self.format.is_none()
    }

    /// Returns whether `base_url` is a server that the vendor does not run.
    pub(crate) fn is_elsewhere(&self, base_url: Option<&str>) -> bool {
        base_url.is_some() && !self.has_tenant_urls
    }

    /// Returns the format spoken at `base_url`, or at the usual URL; `None` for `replay`.
    pub(crate) fn format_at(&self, base_url: Option<&str>) -> Option<WireFormat> {
        let is_chat = |base: &str| base.contains("/deployments/") || base.contains("/chat/completions");
        let format = match self.chat {
            Some(quirks) if base_url.is_some_and(is_chat) => WireFormat::OpenAiChat(quirks),
            _ => self.format?,
        };
        Some(if self.is_elsewhere(base_url) { format.elsewhere() } else { format })
    }

    /// Returns the structure of its URLs; `None` for `replay`.
    pub(super) fn layout(&self, base_url: Option<&str>) -> Option<Layout> {
        let usual = Layout::for_format(self.format_at(base_url)?);
        Some(Layout { version: self.version.unwrap_or(usual.version), tail: self.tail.unwrap_or(usual.tail), ..usual })
    }
}

fn first_of(names: &[&str], variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))
}
