//! The import `wasi:config`: the plugin's section of the config, as pairs of texts.

use crate::bindings::pinion::plugin::settings::Host as _;
use crate::calls::state::State;
use pinion_plugin_journal::linker::Linker;
use pinion_plugin_journal::value::EncodeValue;
use serde_json::Value;
use std::collections::BTreeMap;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lower};

/// The linked interfaces. The packages are drafts, whose versions are compared exactly; their functions are the same.
pub(crate) const INTERFACES: [&str; 4] = [
    "wasi:config/runtime@0.2.0-draft",
    "wasi:config/store@0.2.0-draft",
    "wasi:config/store@0.2.0-draft-2024-09-27",
    "wasi:config/store@0.2.0-rc.1",
];

/// The error of the interface, which this host never returns.
#[derive(ComponentType, Lower)]
#[component(variant)]
enum ConfigError {
    #[component(name = "upstream")]
    #[allow(dead_code, reason = "a case of the interface")]
    Upstream(String),
    #[component(name = "io")]
    #[allow(dead_code, reason = "a case of the interface")]
    Io(String),
}

impl EncodeValue for ConfigError {
    fn encode(&self, out: &mut Vec<u8>) {
        let (Self::Upstream(text) | Self::Io(text)) = self;
        out.push(u8::from(matches!(self, Self::Io(_))));
        text.encode(out);
    }
}

type FoundText = Result<Option<String>, ConfigError>;
type AllTexts = Result<Vec<(String, String)>, ConfigError>;

/// Links the interfaces. They need no grant, as `settings`: a plugin sees its own section alone, which has no secrets.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    for interface in INTERFACES {
        let mut instance = linker.instance(interface)?;
        instance.func_wrap_async("get", |mut store: StoreContextMut<'_, State>, (key,): (String,)| {
            Box::new(async move { Ok((FoundText::Ok(members(store.data_mut()).await?.remove(&key)),)) })
        })?;
        instance.func_wrap_async("get-all", |mut store: StoreContextMut<'_, State>, (): ()| {
            Box::new(async move { Ok((AllTexts::Ok(members(store.data_mut()).await?.into_iter().collect()),)) })
        })?;
    }
    Ok(())
}

async fn members(state: &mut State) -> wasmtime::Result<BTreeMap<String, String>> {
    let config = state.current().await?;
    let mut texts = BTreeMap::new();
    if let Ok(Value::Object(members)) = serde_json::from_str(&config) {
        members.into_iter().for_each(|(name, value)| add(&mut texts, name, value));
    }
    Ok(texts)
}

/// Adds a member: a string as it is, the members of a table with dotted names, any other value as JSON.
fn add(texts: &mut BTreeMap<String, String>, name: String, value: Value) {
    match value {
        Value::Object(members) => {
            members.into_iter().for_each(|(member, value)| add(texts, format!("{name}.{member}"), value));
        }
        Value::String(text) => {
            texts.insert(name, text);
        }
        other => {
            texts.insert(name, other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_tables_have_dotted_names() {
        let mut texts = BTreeMap::new();
        let config = serde_json::json!({ "url": "u", "retry": { "most": 3, "codes": [1, 2], "on": { "idle": true } }, "none": {} });
        config.as_object().unwrap().clone().into_iter().for_each(|(name, value)| add(&mut texts, name, value));
        let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(texts, [("retry.codes", "[1,2]"), ("retry.most", "3"), ("retry.on.idle", "true"), ("url", "u")]);
    }
}
