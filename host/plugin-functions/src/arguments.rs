//! JSON as values of the component model.

use crate::schema::may_be_null;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinion_protocol::text::one_line;
use serde_json::{Map, Value};
use wasmtime::component::Val;
use wasmtime::component::types::Type;

/// Characters of a wrong value that an error shows.
const MAX_SHOWN: usize = 60;

/// Converts the arguments of a call, in the order of the parameters.
///
/// # Errors
/// A value is missing or does not fit its type; the text names its path, such as `` `points[2].x` ``.
pub fn arguments(parameters: &[(String, Type)], input: &Value) -> Result<Vec<Val>, String> {
    let Value::Object(members) = input else { return Err(mismatch("", "an object with the arguments", input)) };
    let mut path = String::new();
    let types = parameters.iter().map(|(name, ty)| (name.as_str(), ty.clone()));
    Ok(members_of(members, types, &mut path)?.into_iter().map(|(_, value)| value).collect())
}

fn members_of<'a>(
    members: &Map<String, Value>,
    types: impl Iterator<Item = (&'a str, Type)>,
    path: &mut String,
) -> Result<Vec<(String, Val)>, String> {
    let mut values: Vec<(String, Val)> = Vec::new();
    for (name, ty) in types {
        let value = match (members.get(name), &ty) {
            (Some(member), _) => within(path, name, |path| value(&ty, member, path))?,
            (None, Type::Option(_)) => Val::Option(None),
            (None, _) => return Err(within(path, name, |path| format!("`{path}` is missing"))),
        };
        values.push((name.to_owned(), value));
    }
    let unknown = members.keys().find(|name| !values.iter().any(|(known, _)| known == *name));
    match unknown {
        Some(name) => Err(within(path, &one_line(name, MAX_SHOWN), |path| format!("`{path}` is not known"))),
        None => Ok(values),
    }
}

/// Runs `step` with the path of a member.
fn within<R>(path: &mut String, member: &str, step: impl FnOnce(&mut String) -> R) -> R {
    let length = path.len();
    if length > 0 {
        path.push('.');
    }
    path.push_str(member);
    let result = step(path);
    path.truncate(length);
    result
}

/// Runs `step` with the path of an item.
fn at<R>(path: &mut String, index: usize, step: impl FnOnce(&mut String) -> R) -> R {
    let length = path.len();
    path.push_str(&format!("[{index}]"));
    let result = step(path);
    path.truncate(length);
    result
}

fn mismatch(path: &str, expected: &str, found: &Value) -> String {
    let shown = one_line(&found.to_string(), MAX_SHOWN);
    match path.is_empty() {
        true => format!("expected {expected}, found {shown}"),
        false => format!("`{path}`: expected {expected}, found {shown}"),
    }
}

fn value(ty: &Type, json: &Value, path: &mut String) -> Result<Val, String> {
    let wrong = |path: &str, expected: &str| Err(mismatch(path, expected, json));
    Ok(match ty {
        Type::Bool => match json {
            Value::Bool(value) => Val::Bool(*value),
            _ => return wrong(path, "true or false"),
        },
        Type::S8 => Val::S8(integer(json, path)?),
        Type::U8 => Val::U8(integer(json, path)?),
        Type::S16 => Val::S16(integer(json, path)?),
        Type::U16 => Val::U16(integer(json, path)?),
        Type::S32 => Val::S32(integer(json, path)?),
        Type::U32 => Val::U32(integer(json, path)?),
        Type::S64 => Val::S64(integer(json, path)?),
        Type::U64 => Val::U64(integer(json, path)?),
        #[allow(clippy::cast_possible_truncation, reason = "a number of single precision was asked for")]
        Type::Float32 => match json.as_f64() {
            Some(number) => Val::Float32(number as f32),
            None => return wrong(path, "a number"),
        },
        Type::Float64 => match json.as_f64() {
            Some(number) => Val::Float64(number),
            None => return wrong(path, "a number"),
        },
        Type::Char => {
            let mut characters = json.as_str().unwrap_or_default().chars();
            match (characters.next(), characters.next()) {
                (Some(character), None) => Val::Char(character),
                _ => return wrong(path, "a string of one character"),
            }
        }
        Type::String => match json {
            Value::String(text) => Val::String(text.clone()),
            _ => return wrong(path, "a string"),
        },
        Type::List(list) if list.ty() == Type::U8 => Val::List(bytes(json, path)?),
        Type::List(list) => Val::List(items(json, path, |_| Some(list.ty()), None)?),
        Type::FixedLengthList(list) => {
            let length = usize::try_from(list.len()).unwrap_or(usize::MAX);
            Val::FixedLengthList(items(json, path, |_| Some(list.ty()), Some(length))?)
        }
        Type::Tuple(tuple) => {
            let types: Vec<Type> = tuple.types().collect();
            Val::Tuple(items(json, path, |index| types.get(index).cloned(), Some(types.len()))?)
        }
        Type::Record(record) => match json {
            Value::Object(members) => {
                Val::Record(members_of(members, record.fields().map(|field| (field.name, field.ty)), path)?)
            }
            _ => return wrong(path, "an object"),
        },
        Type::Variant(variant) => {
            let cases: Vec<(&str, Option<Type>)> = variant.cases().map(|case| (case.name, case.ty)).collect();
            let (name, payload) = case(&cases, json, path)?;
            Val::Variant(name, payload)
        }
        Type::Result(result) => {
            let (name, payload) = case(&[("ok", result.ok()), ("err", result.err())], json, path)?;
            Val::Result(if name == "ok" { Ok(payload) } else { Err(payload) })
        }
        Type::Enum(names) => match json.as_str().filter(|name| names.names().any(|known| known == *name)) {
            Some(name) => Val::Enum(name.to_owned()),
            None => return wrong(path, &one_of(names.names())),
        },
        Type::Flags(flags) => {
            let known = |name: &str| flags.names().any(|known| known == name);
            let names: Option<Vec<String>> = json.as_array().and_then(|names| {
                names.iter().map(|name| name.as_str().filter(|name| known(name)).map(str::to_owned)).collect()
            });
            match names {
                Some(names) => Val::Flags(names),
                None => return wrong(path, &format!("an array with any of {}", one_of(flags.names()))),
            }
        }
        Type::Option(option) => match (json, option.ty()) {
            (Value::Null, _) => Val::Option(None),
            (Value::Object(members), inner) if may_be_null(&inner) && members.len() == 1 => match members.get("some") {
                Some(some) => Val::Option(Some(Box::new(within(path, "some", |path| value(&inner, some, path))?))),
                None => return wrong(path, "null or an object with the member `some`"),
            },
            (_, inner) if may_be_null(&inner) => return wrong(path, "null or an object with the member `some`"),
            (_, inner) => Val::Option(Some(Box::new(value(&inner, json, path)?))),
        },
        // Functions with these are skipped.
        Type::Map(_) | Type::Own(_) | Type::Borrow(_) | Type::Future(_) | Type::Stream(_) | Type::ErrorContext => {
            return wrong(path, "a value that JSON can express");
        }
    })
}

/// Converts a number, a string of digits for numbers that JSON readers round, or a number such as `2.0`.
fn integer<N: TryFrom<i128> + Bounded>(json: &Value, path: &str) -> Result<N, String> {
    let number = match json {
        Value::Number(number) => {
            number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| {
                let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < MAX_EXACT);
                #[allow(clippy::cast_possible_truncation, reason = "the number is whole and small")]
                float.map(|float| float as i128)
            })
        }
        Value::String(digits) if N::IS_LONG => digits.parse::<i128>().ok(),
        _ => None,
    };
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| mismatch(path, &format!("an integer from {} to {}", N::LEAST, N::MOST), json))
}

/// The first whole number that a float cannot distinguish from its neighbour.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The bounds of a type of integers.
trait Bounded {
    const LEAST: i128;
    const MOST: i128;
    const IS_LONG: bool;
}

macro_rules! bounded {
    ($($integer:ty),+) => {
        $(impl Bounded for $integer {
            const LEAST: i128 = <$integer>::MIN as i128;
            const MOST: i128 = <$integer>::MAX as i128;
            const IS_LONG: bool = <$integer>::BITS == 64;
        })+
    };
}
bounded!(i8, u8, i16, u16, i32, u32, i64, u64);

/// Decodes base64, or an array of numbers.
fn bytes(json: &Value, path: &mut String) -> Result<Vec<Val>, String> {
    match json {
        Value::String(text) => match STANDARD.decode(text) {
            Ok(bytes) => Ok(bytes.into_iter().map(Val::U8).collect()),
            Err(_) => Err(mismatch(path, "bytes in base64", json)),
        },
        Value::Array(_) => items(json, path, |_| Some(Type::U8), None),
        _ => Err(mismatch(path, "bytes in base64", json)),
    }
}

fn items(
    json: &Value,
    path: &mut String,
    ty: impl Fn(usize) -> Option<Type>,
    length: Option<usize>,
) -> Result<Vec<Val>, String> {
    let Some(array) = json.as_array().filter(|array| length.is_none_or(|length| array.len() == length)) else {
        let expected = length.map_or("an array".to_owned(), |length| format!("an array of {length} items"));
        return Err(mismatch(path, &expected, json));
    };
    let item = |(index, item): (usize, &Value)| {
        let ty = ty(index).ok_or_else(|| mismatch(path, "fewer items", json))?;
        at(path, index, |path| value(&ty, item, path))
    };
    array.iter().enumerate().map(item).collect()
}

/// Converts a case of a variant: its name, or an object with the name as its only member.
fn case(cases: &[(&str, Option<Type>)], json: &Value, path: &mut String) -> Result<(String, Option<Box<Val>>), String> {
    let find = |name: &str| cases.iter().find(|(known, _)| *known == name);
    let found = match json {
        Value::String(name) => find(name).filter(|(_, ty)| ty.is_none()).map(|(name, _)| (*name, None)),
        Value::Object(members) if members.len() == 1 => {
            let member = members.iter().next();
            member
                .and_then(|(name, payload)| Some((find(name)?, payload)))
                .and_then(|((name, ty), payload)| Some((*name, Some((ty.as_ref()?, payload)))))
        }
        _ => None,
    };
    match found {
        Some((name, None)) => Ok((name.to_owned(), None)),
        Some((name, Some((ty, payload)))) => {
            let payload = within(path, name, |path| value(ty, payload, path))?;
            Ok((name.to_owned(), Some(Box::new(payload))))
        }
        None => {
            let shown = cases.iter().map(|(name, ty)| match ty {
                None => format!("\"{name}\""),
                Some(_) => format!("{{\"{name}\": …}}"),
            });
            Err(mismatch(path, &one_of(shown), json))
        }
    }
}

fn one_of<N: AsRef<str>>(names: impl Iterator<Item = N>) -> String {
    let names: Vec<String> = names.map(|name| name.as_ref().to_owned()).collect();
    one_line(&format!("one of {}", names.join(", ")), 400)
}
