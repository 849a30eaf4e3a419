//! The providers of the config: settings of known ones, and servers of the user's own.

use crate::config::file::FileProvider;
use crate::failure::{Failure, Result};
use pinion_providers::{CustomProvider, CustomQuirks, ModelTable, Registry, provider};
use std::collections::BTreeMap;

/// Returns the known providers with those that the config adds: sections with a `format`.
///
/// # Errors
/// A section names no known provider and has no `format` or no `base-url`, or its settings do not fit.
pub(super) fn registry(sections: &BTreeMap<String, FileProvider>) -> Result<Registry> {
    let mut registry = Registry::default();
    for (name, said) in sections {
        let Some(format) = said.format else {
            known(name, said)?;
            continue;
        };
        let base_url = said.base_url.clone().ok_or_else(|| {
            Failure::usage(format!("`[providers.{name}]` has no `base-url`")).hint("set it to the URL of the server")
        })?;
        let custom = CustomProvider {
            name: name.clone(),
            format,
            base_url,
            key_variable: said.key_variable.clone(),
            default_model: said.default_model.clone(),
            quirks: said.quirks.clone(),
        };
        registry.add(custom).map_err(Failure::from)?;
    }
    Ok(registry)
}

/// Checks a section without a `format`, which belongs to a known provider.
fn known(name: &str, said: &FileProvider) -> Result<()> {
    provider(name).map_err(|error| {
        let failure = Failure::usage(format!("`[providers.{name}]`: {error}"));
        let own = "for a server of your own, add `format = \"openai-chat\"` and `base-url`";
        failure.hint(error.hint().map_or_else(|| own.to_owned(), |hint| format!("{hint}; {own}")))
    })?;
    let own = [
        ("key-variable", said.key_variable.is_some()),
        ("default-model", said.default_model.is_some()),
        ("quirks", said.quirks != CustomQuirks::default()),
    ];
    match own.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(Failure::usage(format!("`{key}` of `[providers.{name}]` needs a `format`"))
            .hint("only a provider of your own, under another name, has this setting")),
        None => Ok(()),
    }
}

/// The pattern for all models of a provider.
const ALL: &str = "*";

/// Returns whether a section says something about models.
pub fn has_models(said: &FileProvider) -> bool {
    !said.models.is_empty() || said.context_window.is_some()
}

/// Returns the models that the sections list.
///
/// # Errors
/// A model has an unknown or invalid field.
pub fn models(sections: &BTreeMap<String, FileProvider>) -> Result<ModelTable> {
    let mut all = ModelTable::default();
    for (name, said) in sections {
        let listed = said.models.len();
        for (number, model) in with_window(said).into_iter().enumerate() {
            let models = toml::Value::Array(vec![toml::Value::Table(model)]);
            let provider = toml::Value::Table(toml::Table::from_iter([("models".to_owned(), models)]));
            let table = toml::Table::from_iter([(name.clone(), provider)]).to_string();
            let table = ModelTable::read(&table).map_err(|error| {
                let place = match number < listed {
                    true => format!("entry {} of `[[providers.{name}.models]]`", number + 1),
                    false => format!("`context-window` of `[providers.{name}]`"),
                };
                let failure = Failure::usage(format!("{place}: {}", error.problem().trim()));
                failure.hint("begin each model with `[[providers.NAME.models]]`, followed by its `id`")
            })?;
            all = all.with(&table);
        }
    }
    Ok(all)
}

/// Returns the models of a section. Those without a context window get the section's, as do all others.
fn with_window(said: &FileProvider) -> Vec<toml::Table> {
    let mut models = said.models.clone();
    if let Some(window) = said.context_window {
        let window = toml::Value::Integer(i64::try_from(window).unwrap_or(i64::MAX));
        let has_all = models.iter().any(|model| model.get("id").and_then(toml::Value::as_str) == Some(ALL));
        models.extend((!has_all).then(|| toml::Table::from_iter([("id".to_owned(), ALL.into())])));
        // A model that is listed takes nothing from the pattern.
        for model in models.iter_mut().filter(|model| !model.contains_key("like")) {
            model.entry("context-window").or_insert(window.clone());
        }
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::File;

    fn sections(text: &str) -> BTreeMap<String, FileProvider> {
        toml::from_str::<File>(text).unwrap().providers
    }

    #[test]
    fn servers_of_the_user_have_names_quirks_and_models() {
        let text = "[providers.box]\nformat = \"openai-chat\"\nbase-url = \"http://box:8000/v1\"\n\
                    key-variable = \"BOX_KEY\"\ndefault-model = \"qwen\"\nquirks = { thinking = \"object\" }\n\
                    [[providers.box.models]]\nid = \"qwen\"\ncontext-window = 32_768\n\
                    [providers.second]\nformat = \"anthropic\"\nbase-url = \"http://second\"\n\
                    [providers.openai]\nidle-timeout-seconds = 3\n";
        let sections = sections(text);
        let table = models(&sections).unwrap();
        let (info, model) = registry(&sections).unwrap().resolve(None, "box", &table).unwrap();
        assert_eq!((info.name, model.as_str(), info.key_variable), ("box", "qwen", Some("BOX_KEY")));
        assert_eq!(table.find("box", "qwen").context_window, 32_768);
        assert!(registry(&sections).unwrap().provider("second").is_ok());
    }

    #[test]
    fn window_of_a_provider_is_that_of_its_models_unless_they_have_another() {
        let text = "[providers.box]\nformat = \"openai-chat\"\nbase-url = \"http://box:8000/v1\"\ncontext-window = 40_000\n\
                    [[providers.box.models]]\nid = \"small\"\ncontext-window = 8_000\n\
                    [[providers.box.models]]\nid = \"plain\"\n\
                    [providers.groq]\ncontext-window = 50_000\n";
        let table = models(&sections(text)).unwrap();
        let window = |provider, model| table.find(provider, model).request_limit();
        assert_eq!(window("box", "any"), Some(40_000));
        assert_eq!((window("box", "small"), window("box", "plain")), (Some(8_000), Some(40_000)));
        assert_eq!(window("groq", "new"), Some(50_000));
        assert_eq!(window("xai", "new"), None);
    }

    #[test]
    fn mistaken_sections_are_refused_with_a_remedy() {
        for (text, part) in [
            ("[providers.anthropc]\nbase-url = \"http://h\"", "did you mean `anthropic`"),
            ("[providers.box]\nbase-url = \"http://h\"", "format = \"openai-chat\""),
            ("[providers.box]\nformat = \"openai-chat\"", "has no `base-url`"),
            ("[providers.gemini]\nformat = \"gemini\"\nbase-url = \"http://h\"", "cannot be named `gemini`"),
            ("[providers.groq]\nquirks = { store = true }", "`quirks` of `[providers.groq]` needs a `format`"),
        ] {
            let error = registry(&sections(text)).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("hint:"), "{error}");
        }
        let text = "[[providers.groq.models]]\nid = \"x\"\n[[providers.groq.models]]\nid = \"y\"\nprise = 3\n";
        let error = models(&sections(text)).unwrap_err().to_string();
        assert!(error.contains("entry 2 of `[[providers.groq.models]]`: unknown field `prise`"), "{error}");
    }
}
