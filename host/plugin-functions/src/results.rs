//! Values of the component model as JSON, in the form that `schema` describes.

use crate::schema::may_be_null;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use wasmtime::component::Val;
use wasmtime::component::types::Type;

/// The largest integer that each reader of JSON reads exactly.
const MAX_EXACT: u64 = 1 << 53;

/// Converts a value of a type.
pub fn to_json(value: &Val, ty: &Type) -> Value {
    match (value, ty) {
        (Val::Bool(value), _) => json!(value),
        (Val::S8(value), _) => json!(value),
        (Val::U8(value), _) => json!(value),
        (Val::S16(value), _) => json!(value),
        (Val::U16(value), _) => json!(value),
        (Val::S32(value), _) => json!(value),
        (Val::U32(value), _) => json!(value),
        (Val::S64(value), _) if value.unsigned_abs() > MAX_EXACT => json!(value.to_string()),
        (Val::S64(value), _) => json!(value),
        (Val::U64(value), _) if *value > MAX_EXACT => json!(value.to_string()),
        (Val::U64(value), _) => json!(value),
        (Val::Float32(value), _) => float(f64::from(*value)),
        (Val::Float64(value), _) => float(*value),
        (Val::Char(value), _) => json!(value),
        (Val::String(text) | Val::Enum(text), _) => json!(text),
        (Val::List(items), Type::List(list)) if list.ty() == Type::U8 => {
            let byte = |item: &Val| if let Val::U8(byte) = item { Some(*byte) } else { None };
            json!(STANDARD.encode(items.iter().filter_map(byte).collect::<Vec<u8>>()))
        }
        (Val::List(items), Type::List(list)) => each(items, std::iter::repeat(list.ty())),
        (Val::FixedLengthList(items), Type::FixedLengthList(list)) => each(items, std::iter::repeat(list.ty())),
        (Val::Tuple(items), Type::Tuple(tuple)) => each(items, tuple.types()),
        (Val::Record(members), Type::Record(record)) => {
            let members = members.iter().zip(record.fields());
            Value::Object(members.map(|((name, value), field)| (name.clone(), to_json(value, &field.ty))).collect())
        }
        (Val::Variant(name, payload), Type::Variant(variant)) => {
            let ty = variant.cases().find(|case| case.name == name).and_then(|case| case.ty);
            case(name, payload.as_deref(), ty.as_ref())
        }
        (Val::Result(Ok(payload)), Type::Result(result)) => case("ok", payload.as_deref(), result.ok().as_ref()),
        (Val::Result(Err(payload)), Type::Result(result)) => case("err", payload.as_deref(), result.err().as_ref()),
        (Val::Option(Some(value)), Type::Option(option)) => {
            let inner = option.ty();
            let json = to_json(value, &inner);
            if may_be_null(&inner) { json!({ "some": json }) } else { json }
        }
        (Val::Flags(names), _) => json!(names),
        // Functions with other types are skipped.
        _ => Value::Null,
    }
}

fn each(items: &[Val], types: impl Iterator<Item = Type>) -> Value {
    items.iter().zip(types).map(|(item, ty)| to_json(item, &ty)).collect()
}

fn case(name: &str, payload: Option<&Val>, ty: Option<&Type>) -> Value {
    let Some((payload, ty)) = payload.zip(ty) else { return json!(name) };
    let mut member = Map::new();
    member.insert(name.to_owned(), to_json(payload, ty));
    Value::Object(member)
}

/// Numbers that JSON lacks become their names.
fn float(number: f64) -> Value {
    match () {
        () if number.is_nan() => json!("NaN"),
        () if number.is_infinite() => json!(if number > 0.0 { "Infinity" } else { "-Infinity" }),
        () => json!(number),
    }
}
