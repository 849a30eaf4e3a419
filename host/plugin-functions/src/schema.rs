//! JSON Schemas of WIT types.
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, numbers, `string`, `char` | the same; a 64-bit integer may be a string of digits, and is one beyond 2^53 |
//! | `list<u8>` | a string in base64 |
//! | `list`, `tuple` | an array |
//! | `record` | an object; a member whose type is `option` may be missing |
//! | `option` | the value, or `null`; `{"some": value}` around a value that may be `null` itself |
//! | `variant` | a case without payload as its name, others as an object with the case as its only member |
//! | `result` within a value | the same, with the cases `ok` and `err` |
//! | `enum`, `flags` | a name; an array of names |

use serde_json::{Map, Value, json};
use wasmtime::component::types::Type;

/// Types in the parameters and the result of one function.
const MAX_TYPES: usize = 1_000;
/// Levels of types within each other.
const MAX_DEPTH: usize = 12;

/// Builds the schemas of one function's types.
pub(super) struct SchemaBuilder {
    /// Types that may still follow: shared types are written out at each use.
    left: usize,
}

impl SchemaBuilder {
    pub(super) fn new() -> Self {
        Self { left: MAX_TYPES }
    }

    /// Returns the schema of an object with these members; members of type `option` may be missing.
    ///
    /// # Errors
    /// A type has no form in JSON, or is too complex; the text completes "the function …".
    pub(super) fn object<'a>(&mut self, members: impl Iterator<Item = (&'a str, Type)>) -> Result<Value, String> {
        self.object_at(members, 0)
    }

    /// Checks that a type has a form in JSON.
    ///
    /// # Errors
    /// As [`SchemaBuilder::object`].
    pub(super) fn check(&mut self, ty: &Type) -> Result<(), String> {
        self.schema(ty, 0).map(drop)
    }

    fn object_at<'a>(&mut self, members: impl Iterator<Item = (&'a str, Type)>, depth: usize) -> Result<Value, String> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, ty) in members {
            if !matches!(ty, Type::Option(_)) {
                required.push(name.to_owned());
            }
            properties.insert(name.to_owned(), self.schema(&ty, depth + 1)?);
        }
        Ok(json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }))
    }

    fn schema(&mut self, ty: &Type, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err(format!("has types of more than {MAX_DEPTH} levels"));
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("has more than {MAX_TYPES} types"))?;
        Ok(match ty {
            Type::Bool => json!({ "type": "boolean" }),
            Type::S8 => integer(i8::MIN.into(), i8::MAX.into()),
            Type::U8 => integer(0, u8::MAX.into()),
            Type::S16 => integer(i16::MIN.into(), i16::MAX.into()),
            Type::U16 => integer(0, u16::MAX.into()),
            Type::S32 => integer(i32::MIN.into(), i32::MAX.into()),
            Type::U32 => integer(0, u32::MAX.into()),
            Type::S64 | Type::U64 => json!({ "type": ["integer", "string"], "description": "a 64-bit integer" }),
            Type::Float32 | Type::Float64 => json!({ "type": "number" }),
            Type::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
            Type::String => json!({ "type": "string" }),
            Type::List(list) if list.ty() == Type::U8 => json!({ "type": "string", "contentEncoding": "base64" }),
            Type::List(list) => json!({ "type": "array", "items": self.schema(&list.ty(), depth + 1)? }),
            Type::FixedLengthList(list) => {
                let items = self.schema(&list.ty(), depth + 1)?;
                json!({ "type": "array", "items": items, "minItems": list.len(), "maxItems": list.len() })
            }
            Type::Tuple(tuple) => self.tuple(tuple.types().collect(), depth)?,
            Type::Record(record) => self.object_at(record.fields().map(|field| (field.name, field.ty)), depth)?,
            Type::Variant(variant) => self.cases(variant.cases().map(|case| (case.name, case.ty)), depth)?,
            Type::Result(result) => self.cases([("ok", result.ok()), ("err", result.err())].into_iter(), depth)?,
            Type::Enum(names) => json!({ "type": "string", "enum": names.names().collect::<Vec<_>>() }),
            Type::Flags(flags) => {
                let names = json!({ "type": "string", "enum": flags.names().collect::<Vec<_>>() });
                json!({ "type": "array", "items": names, "uniqueItems": true })
            }
            Type::Option(option) => {
                let inner = option.ty();
                let schema = self.schema(&inner, depth + 1)?;
                let some = if may_be_null(&inner) { member("some", schema) } else { schema };
                json!({ "anyOf": [some, { "type": "null" }] })
            }
            Type::Own(_) | Type::Borrow(_) => return Err("has a resource in its types".to_owned()),
            Type::Future(_) | Type::Stream(_) => return Err("has a stream or a future in its types".to_owned()),
            Type::Map(_) | Type::ErrorContext => return Err("has types that JSON cannot express".to_owned()),
        })
    }

    fn tuple(&mut self, types: Vec<Type>, depth: usize) -> Result<Value, String> {
        let items = types.iter().map(|ty| self.schema(ty, depth + 1)).collect::<Result<Vec<_>, _>>()?;
        let length = items.len();
        // `items` is for clients that require it; it never applies.
        Ok(json!({ "type": "array", "prefixItems": items, "items": {}, "minItems": length, "maxItems": length }))
    }

    fn cases<'a>(
        &mut self,
        cases: impl Iterator<Item = (&'a str, Option<Type>)>,
        depth: usize,
    ) -> Result<Value, String> {
        let (mut bare, mut any) = (Vec::new(), Vec::new());
        for (name, ty) in cases {
            match ty {
                None => bare.push(name.to_owned()),
                Some(ty) => any.push(member(name, self.schema(&ty, depth + 1)?)),
            }
        }
        if !bare.is_empty() {
            any.insert(0, json!({ "type": "string", "enum": bare }));
        }
        Ok(json!({ "anyOf": any }))
    }
}

/// Returns whether the JSON of a value of this type may be `null`.
pub(super) fn may_be_null(ty: &Type) -> bool {
    matches!(ty, Type::Option(_))
}

fn integer(minimum: i64, maximum: i64) -> Value {
    json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
}

fn member(name: &str, schema: Value) -> Value {
    let mut properties = Map::new();
    properties.insert(name.to_owned(), schema);
    json!({ "type": "object", "properties": properties, "required": [name], "additionalProperties": false })
}
