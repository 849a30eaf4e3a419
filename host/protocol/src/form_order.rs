//! The order of a form's fields, because the members of a JSON object are unordered and many libraries sort them.

use serde_json::{Map, Value};

/// The place of a property among the others: an integer in the property, or the names of properties in the schema.
pub(crate) const ORDER: &str = "x-order";

/// Sorts properties by their places; those without one come last, as they are.
pub(crate) fn in_order<'a>(
    properties: &'a Map<String, Value>,
    names: Option<&Value>,
) -> Result<Vec<(&'a String, &'a Value)>, String> {
    let names: Vec<&str> = match names {
        None => Vec::new(),
        Some(names) => {
            let names = names.as_array().and_then(|names| names.iter().map(Value::as_str).collect());
            names.ok_or_else(|| format!("`{ORDER}` of a schema must be the names of its properties"))?
        }
    };
    if let Some(unknown) = names.iter().find(|name| !properties.contains_key(**name)) {
        return Err(format!("`{ORDER}` names the property `{unknown}`, which is not described"));
    }
    let mut placed = Vec::new();
    for (name, schema) in properties {
        let own = match schema.get(ORDER).map(Value::as_i64) {
            Some(None) => return Err(format!("property `{name}`: `{ORDER}` must be an integer")),
            own => own.flatten().unwrap_or(i64::MAX),
        };
        let listed = names.iter().position(|listed| listed == name).unwrap_or(usize::MAX);
        placed.push(((listed, own), (name, schema)));
    }
    placed.sort_by_key(|(place, _)| *place);
    Ok(placed.into_iter().map(|(_, property)| property).collect())
}

/// Returns a property as people and other programs see it.
pub(crate) fn without_order(name: &str, schema: &Value) -> (String, Value) {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove(ORDER);
    }
    (name.to_owned(), schema)
}
