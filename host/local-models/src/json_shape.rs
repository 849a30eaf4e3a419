//! The values that a tool's schema allows, reduced to the parts that steer a reply: types, names, required properties and
//! choices. The loop validates the complete arguments.

use serde_json::{Map, Value};
use std::sync::Arc;

/// Schemas are read to this depth; deeper values may be any.
const MAX_DEPTH: usize = 8;
/// Alternatives of one choice.
const MAX_CHOICES: usize = 256;

/// The form of a value.
#[derive(Debug)]
pub(crate) enum JsonShape {
    Any,
    Text,
    Number {
        is_integer: bool,
    },
    /// One of these JSON texts.
    Choice(Vec<Vec<u8>>),
    List(Arc<JsonShape>),
    Object(Arc<ObjectShape>),
}

/// The properties of an object. Without any, names are free.
#[derive(Debug, Default)]
pub(crate) struct ObjectShape {
    pub(crate) properties: Vec<PropertyShape>,
}

/// A property that an object may have.
#[derive(Debug)]
pub(crate) struct PropertyShape {
    /// The name as JSON, without quotes.
    pub(crate) name: Vec<u8>,
    pub(crate) is_required: bool,
    pub(crate) shape: Arc<JsonShape>,
}

impl JsonShape {
    /// Reads the schema of a tool's arguments, which are always an object.
    pub(crate) fn of_arguments(schema: &Value) -> Arc<Self> {
        Arc::new(match Self::read(schema, 0) {
            object @ Self::Object(_) => object,
            _ => Self::Object(Arc::default()),
        })
    }

    fn read(schema: &Value, depth: usize) -> Self {
        let Some(schema) = schema.as_object().filter(|_| depth < MAX_DEPTH) else { return Self::Any };
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            return Self::choice(choices);
        }
        if let Some(constant) = schema.get("const") {
            return Self::choice(std::slice::from_ref(constant));
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Self::Text,
            Some("integer") => Self::Number { is_integer: true },
            Some("number") => Self::Number { is_integer: false },
            Some("boolean") => Self::Choice(vec![b"true".to_vec(), b"false".to_vec()]),
            Some("null") => Self::Choice(vec![b"null".to_vec()]),
            Some("array") => {
                Self::List(Arc::new(schema.get("items").map_or(Self::Any, |items| Self::read(items, depth + 1))))
            }
            Some("object") => Self::Object(Arc::new(ObjectShape::read(schema, depth))),
            _ => Self::Any,
        }
    }

    fn choice(choices: &[Value]) -> Self {
        match choices.len() {
            1..=MAX_CHOICES => Self::Choice(choices.iter().map(|choice| choice.to_string().into_bytes()).collect()),
            _ => Self::Any,
        }
    }
}

impl ObjectShape {
    fn read(schema: &Map<String, Value>, depth: usize) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        let listed = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let properties = listed.map(|(name, schema)| PropertyShape {
            name: quoted(name),
            is_required: is_required(name),
            shape: Arc::new(JsonShape::read(schema, depth + 1)),
        });
        Self { properties: properties.collect() }
    }
}

/// Returns a text as JSON without its quotes.
fn quoted(text: &str) -> Vec<u8> {
    let json = Value::from(text).to_string();
    json.as_bytes()[1..json.len() - 1].to_vec()
}
