//! The root of a schema, which vendors allow less.

use super::{MAX_CHAIN, distinct, is_accepted, is_property_letter};
use pinion_plugin_sdk::prelude::*;
use pinion_plugin_sdk::serde_json::Map;
use std::collections::BTreeMap;

/// Merges the definition that the root refers to into the root.
pub(super) fn inline(root: &mut Map<String, Value>) -> Option<()> {
    for _ in 0..MAX_CHAIN {
        let Some(reference) = root.remove("$ref") else { return Some(()) };
        let pointer = reference.as_str()?.strip_prefix("#/")?;
        let (keyword, name) = pointer.split_once('/')?;
        let mut target = root.get(keyword)?.get(name)?.as_object()?.clone();
        if root.contains_key("properties") {
            // The root says nothing about the others' properties, and the other way round.
            root.remove("additionalProperties");
            target.remove("additionalProperties");
        }
        if let Some(Value::Object(properties)) = target.remove("properties") {
            properties.iter().for_each(|(name, schema)| add_property(root, name, schema));
        }
        if let Some(Value::Array(names)) = target.remove("required") {
            let known = root.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            root.insert("required".to_owned(), distinct(&[known, names].concat()));
        }
        for (keyword, value) in target {
            root.entry(keyword).or_insert(value);
        }
    }
    None
}

/// Replaces `allOf`, `anyOf` and `oneOf` of the root by the properties of their parts. What has to be there together is said
/// in words.
pub(super) fn flatten(root: &mut Map<String, Value>, rules: &mut Vec<String>) {
    let defs: Vec<(String, Value)> = ["$defs", "definitions"]
        .iter()
        .filter_map(|keyword| Some(((*keyword).to_owned(), root.get(*keyword)?.clone())))
        .collect();
    for (keyword, rule) in [("allOf", None), ("anyOf", Some("at least one of")), ("oneOf", Some("exactly one of"))] {
        let Some(Value::Array(parts)) = root.remove(keyword) else { continue };
        let mut groups = Vec::new();
        for part in &parts {
            let part = resolved(&defs, part);
            let Some(fields) = part.and_then(Value::as_object) else { continue };
            let properties = fields.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.into_iter().flatten() {
                add_property(root, name, schema);
            }
            let required: Vec<&str> = fields
                .get("required")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if rule.is_none() {
                let mut names: Vec<Value> = root.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
                names.extend(required.iter().map(|name| json!(name)));
                root.insert("required".to_owned(), distinct(&names));
            }
            groups.push(match required.is_empty() {
                true => "other arguments".to_owned(),
                false => required.join(" + "),
            });
        }
        // The properties of the parts would not be among the root's.
        root.remove("additionalProperties");
        rules.extend(rule.map(|rule| format!("{rule}: {}", groups.join(", or "))));
        if rule.is_none() {
            rules.push("the server checks further rules".to_owned());
        }
    }
}

fn resolved<'a>(defs: &'a [(String, Value)], part: &'a Value) -> Option<&'a Value> {
    match part.get("$ref").and_then(Value::as_str) {
        None => Some(part),
        Some(reference) => {
            let (keyword, name) = reference.strip_prefix("#/")?.split_once('/')?;
            defs.iter().find(|(known, _)| known == keyword)?.1.get(name)
        }
    }
}

/// Adds a property to the root. One of the same name may then have either schema.
fn add_property(root: &mut Map<String, Value>, name: &str, schema: &Value) {
    let properties = root.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    match properties.get_mut(name) {
        None => drop(properties.insert(name.to_owned(), schema.clone())),
        Some(known) if known == schema => {}
        Some(known) => {
            let alternatives = known
                .get("anyOf")
                .and_then(Value::as_array)
                .filter(|_| known.as_object().is_some_and(|fields| fields.len() == 1));
            let mut alternatives = alternatives.cloned().unwrap_or_else(|| vec![known.clone()]);
            if !alternatives.contains(schema) && alternatives.len() < 16 {
                alternatives.push(schema.clone());
            }
            *known = json!({ "anyOf": alternatives });
        }
    }
}

/// Gives properties of the root names that every vendor accepts.
pub(super) fn rename(root: &mut Map<String, Value>) -> BTreeMap<String, String> {
    let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) else { return BTreeMap::new() };
    let strange: Vec<String> = properties.keys().filter(|name| !is_accepted(name)).cloned().collect();
    let mut renamed = BTreeMap::new();
    for name in strange {
        let letters: String = name.chars().take(48).map(|c| if is_property_letter(c) { c } else { '_' }).collect();
        let mut candidate = if letters.is_empty() { "_".to_owned() } else { letters.clone() };
        let mut number = 2;
        while properties.contains_key(&candidate) {
            candidate = format!("{letters}_{number}");
            number += 1;
        }
        if let Some(schema) = properties.remove(&name) {
            properties.insert(candidate.clone(), schema);
            renamed.insert(candidate, name);
        }
    }
    if renamed.is_empty() {
        return renamed;
    }
    let shown = |name: &Value| {
        let new = renamed.iter().find(|(_, old)| Some(old.as_str()) == name.as_str());
        new.map_or_else(|| name.clone(), |(new, _)| json!(new))
    };
    if let Some(names) = root.get_mut("required").and_then(Value::as_array_mut) {
        *names = names.iter().map(shown).collect();
    }
    // Other rules about names would need the same change.
    for keyword in
        ["additionalProperties", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas"]
    {
        root.remove(keyword);
    }
    renamed
}
