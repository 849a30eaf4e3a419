//! The key that a conversation lacks, which the first-run setup asks for.

use crate::base::Base;
use crate::options::RunOptions;
use pinion_providers::ProviderInfo;

/// A missing key.
#[derive(Debug, Clone, Copy)]
pub enum Lacking {
    /// No provider has a key, and no model is named.
    Any,
    /// The provider of the named model has no key.
    Of(&'static ProviderInfo),
}

impl Base {
    /// Returns the key that [`Base::chosen`] would miss; `None` if it has a key, or fails for another reason.
    pub async fn lacking_key(&self, options: &RunOptions) -> Option<Lacking> {
        if self.exchanges.is_scripted() || self.exchanges.playback().is_some() {
            return None;
        }
        let (registry, models) = (&self.config.registry, self.models().ok()?);
        let info = match (&self.config.model, &self.config.provider) {
            (Some(model), provider) => registry.resolve(provider.as_deref(), model, &models).ok()?.0,
            (None, Some(name)) => registry.provider(name).ok()?,
            (None, None) if options.base_url.is_some() => return None,
            (None, None) => return self.default_model().await.is_err().then_some(Lacking::Any),
        };
        let base_url = self.base_url_of(info, self.base_url_flag(info, &models));
        let lacks = self.lacks_key(info, base_url.as_deref()).await.ok()?;
        (lacks && has_plain_key(info)).then_some(Lacking::Of(info))
    }

    /// Returns the providers that need nothing but a key, each variable's first one.
    pub fn providers_with_plain_keys(&self) -> Vec<&'static ProviderInfo> {
        let mut infos: Vec<&'static ProviderInfo> = Vec::new();
        for info in self.config.registry.iter().filter(|info| has_plain_key(info)) {
            let is_other_name = infos.iter().any(|other| other.key_variable == info.key_variable);
            let has_model = info.default_model(self.base_url_of(info, None).as_deref()).is_some();
            if has_model && !is_other_name {
                infos.push(info);
            }
        }
        infos
    }
}

/// Returns whether a key is all that the provider needs, without a region or a project.
fn has_plain_key(info: &ProviderInfo) -> bool {
    info.key_variable.is_some() && !info.base_url.contains('{')
}
