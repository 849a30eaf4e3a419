//! The encoded values of a journal, by the types of a component. See [`crate::value`] for the encoding.

use crate::value::{EncodeValue as _, EncodedValues, encode_number};
use std::fmt::Write as _;
use wasmtime::StoreContextMut;
use wasmtime::component::{Resource, ResourceAny, Type, Val};

/// A resource of the host, which exists only as its number.
pub(super) struct ReplayedResource;

/// A value that does not fit its type.
pub(super) fn damaged() -> wasmtime::Error {
    wasmtime::Error::msg("the journal has a value of another type")
}

/// Decodes a value.
pub(super) fn decode<T: 'static>(
    bytes: &mut &[u8],
    value: &Type,
    store: &mut StoreContextMut<'_, T>,
) -> wasmtime::Result<Val> {
    Ok(match value {
        Type::Bool => Val::Bool(byte(bytes)? != 0),
        Type::U8 => Val::U8(byte(bytes)?),
        Type::S8 => Val::S8(i8::from_le_bytes([byte(bytes)?])),
        Type::U16 => Val::U16(number(bytes)?.try_into().map_err(|_| damaged())?),
        Type::U32 => Val::U32(number(bytes)?.try_into().map_err(|_| damaged())?),
        Type::U64 => Val::U64(number(bytes)?),
        Type::S16 => Val::S16(signed(bytes)?.try_into().map_err(|_| damaged())?),
        Type::S32 => Val::S32(signed(bytes)?.try_into().map_err(|_| damaged())?),
        Type::S64 => Val::S64(signed(bytes)?),
        Type::Float32 => Val::Float32(f32::from_le_bytes(array(bytes)?)),
        Type::Float64 => Val::Float64(f64::from_le_bytes(array(bytes)?)),
        Type::Char => Val::Char(text(bytes)?.chars().next().ok_or_else(damaged)?),
        Type::String => Val::String(text(bytes)?),
        Type::List(list) => {
            let (length, element) = (length(bytes)?, list.ty());
            Val::List((0..length).map(|_| decode(bytes, &element, store)).collect::<Result<_, _>>()?)
        }
        Type::Record(record) => {
            let fields = record.fields().map(|field| Ok((field.name.to_owned(), decode(bytes, &field.ty, store)?)));
            Val::Record(fields.collect::<wasmtime::Result<_>>()?)
        }
        Type::Tuple(tuple) => {
            Val::Tuple(tuple.types().map(|part| decode(bytes, &part, store)).collect::<Result<_, _>>()?)
        }
        Type::Variant(variant) => {
            let case = variant.cases().nth(length(bytes)?).ok_or_else(damaged)?;
            Val::Variant(case.name.to_owned(), payload(bytes, case.ty.as_ref(), store)?)
        }
        Type::Enum(of) => Val::Enum(of.names().nth(length(bytes)?).ok_or_else(damaged)?.to_owned()),
        Type::Option(option) => match byte(bytes)? {
            0 => Val::Option(None),
            _ => Val::Option(Some(Box::new(decode(bytes, &option.ty(), store)?))),
        },
        Type::Result(result) => match byte(bytes)? {
            0 => Val::Result(Ok(payload(bytes, result.ok().as_ref(), store)?)),
            _ => Val::Result(Err(payload(bytes, result.err().as_ref(), store)?)),
        },
        Type::Flags(flags) => {
            let bits = number(bytes)?;
            let set = flags.names().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
            Val::Flags(set.map(|(_, name)| name.to_owned()).collect())
        }
        Type::Own(_) => {
            let resource = Resource::<ReplayedResource>::new_own(number(bytes)?.try_into().map_err(|_| damaged())?);
            Val::Resource(resource.try_into_resource_any(&mut *store)?)
        }
        _ => return Err(damaged()),
    })
}

fn payload<T: 'static>(
    bytes: &mut &[u8],
    value: Option<&Type>,
    store: &mut StoreContextMut<'_, T>,
) -> wasmtime::Result<Option<Box<Val>>> {
    value.map(|value| decode(bytes, value, store).map(Box::new)).transpose()
}

fn byte(bytes: &mut &[u8]) -> wasmtime::Result<u8> {
    let (first, rest) = bytes.split_first().ok_or_else(damaged)?;
    *bytes = rest;
    Ok(*first)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> wasmtime::Result<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    *bytes = rest;
    Ok(*first)
}

fn number(bytes: &mut &[u8]) -> wasmtime::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        number |= u64::from(next & 0x7f) << shift;
        if next < 0x80 {
            return Ok(number);
        }
    }
    Err(damaged())
}

/// Reads a signed number, whose sign is its lowest bit.
fn signed(bytes: &mut &[u8]) -> wasmtime::Result<i64> {
    let folded = number(bytes)?;
    let magnitude = (folded >> 1).cast_signed();
    Ok(if folded & 1 == 0 { magnitude } else { !magnitude })
}

fn length(bytes: &mut &[u8]) -> wasmtime::Result<usize> {
    number(bytes)?.try_into().map_err(|_| damaged())
}

pub(super) fn text(bytes: &mut &[u8]) -> wasmtime::Result<String> {
    let length = length(bytes)?;
    let (text, rest) = bytes.split_at_checked(length).ok_or_else(damaged)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).map_err(|_| damaged())
}

/// Encodes the parameters or the results of a call.
///
/// # Errors
/// A value does not fit its type.
pub fn encode_all<'a, T: 'static>(
    values: &[Val],
    types: impl Iterator<Item = &'a Type>,
    store: &mut StoreContextMut<'_, T>,
) -> wasmtime::Result<EncodedValues> {
    let mut bytes = Vec::new();
    for (value, of) in values.iter().zip(types) {
        encode(value, of, store, &mut bytes)?;
    }
    Ok(EncodedValues(bytes))
}

/// Encodes values by their types. Handles that the call lends to the host are returned.
fn encode<T: 'static>(
    value: &Val,
    of: &Type,
    store: &mut StoreContextMut<'_, T>,
    out: &mut Vec<u8>,
) -> wasmtime::Result<()> {
    match (value, of) {
        (Val::Bool(value), _) => value.encode(out),
        (Val::U8(value), _) => value.encode(out),
        (Val::S8(value), _) => out.extend(value.to_le_bytes()),
        (Val::U16(value), _) => value.encode(out),
        (Val::U32(value), _) => value.encode(out),
        (Val::U64(value), _) => value.encode(out),
        (Val::S16(value), _) => i64::from(*value).encode(out),
        (Val::S32(value), _) => i64::from(*value).encode(out),
        (Val::S64(value), _) => value.encode(out),
        (Val::Float32(value), _) => out.extend(value.to_le_bytes()),
        (Val::Float64(value), _) => out.extend(value.to_le_bytes()),
        (Val::Char(value), _) => value.to_string().encode(out),
        (Val::String(value), _) => value.encode(out),
        (Val::List(values), Type::List(list)) => {
            encode_number(values.len() as u64, out);
            let element = list.ty();
            values.iter().try_for_each(|value| encode(value, &element, store, out))?;
        }
        (Val::Record(values), Type::Record(record)) => {
            for ((_, value), field) in values.iter().zip(record.fields()) {
                encode(value, &field.ty, store, out)?;
            }
        }
        (Val::Tuple(values), Type::Tuple(tuple)) => {
            for (value, part) in values.iter().zip(tuple.types()) {
                encode(value, &part, store, out)?;
            }
        }
        (Val::Variant(name, value), Type::Variant(variant)) => {
            let found = variant.cases().enumerate().find(|(_, case)| case.name == name);
            let (number, case) = found.ok_or_else(damaged)?;
            encode_number(number as u64, out);
            encode_payload(value.as_deref(), case.ty.as_ref(), store, out)?;
        }
        (Val::Enum(name), Type::Enum(of)) => {
            let number = of.names().position(|other| other == name).ok_or_else(damaged)?;
            encode_number(number as u64, out);
        }
        (Val::Option(value), Type::Option(option)) => {
            out.push(u8::from(value.is_some()));
            encode_payload(value.as_deref(), Some(&option.ty()), store, out)?;
        }
        (Val::Result(value), Type::Result(result)) => {
            out.push(u8::from(value.is_err()));
            match value {
                Ok(value) => encode_payload(value.as_deref(), result.ok().as_ref(), store, out)?,
                Err(value) => encode_payload(value.as_deref(), result.err().as_ref(), store, out)?,
            }
        }
        (Val::Flags(set), Type::Flags(flags)) => {
            let bits = flags.names().enumerate().filter(|(_, name)| set.iter().any(|other| other == name));
            encode_number(bits.map(|(bit, _)| 1_u64 << bit).sum(), out);
        }
        (Val::Resource(resource), _) => encode_resource(*resource, store, out)?,
        _ => return Err(damaged()),
    }
    Ok(())
}

fn encode_payload<T: 'static>(
    value: Option<&Val>,
    of: Option<&Type>,
    store: &mut StoreContextMut<'_, T>,
    out: &mut Vec<u8>,
) -> wasmtime::Result<()> {
    match (value, of) {
        (Some(value), Some(of)) => encode(value, of, store, out),
        _ => Ok(()),
    }
}

fn encode_resource<T: 'static>(
    resource: ResourceAny,
    store: &mut StoreContextMut<'_, T>,
    out: &mut Vec<u8>,
) -> wasmtime::Result<()> {
    let resource: Resource<ReplayedResource> = resource.try_into_resource(&mut *store)?;
    encode_number(resource.rep().into(), out);
    Ok(())
}

/// Prints encoded values for people; `…` stands for a value that the journal does not have.
pub(super) fn print<T: 'static>(bytes: Option<&[u8]>, types: &[Type], store: &mut StoreContextMut<'_, T>) -> String {
    let Some(mut bytes) = bytes else { return "…".to_owned() };
    let mut out = String::new();
    for (number, value) in types.iter().enumerate() {
        out.push_str(if number > 0 { ", " } else { "" });
        if print_value(&mut bytes, value, store, &mut out).is_err() {
            out.push('?');
            break;
        }
    }
    out
}

/// Prints the next of several encoded values.
pub(super) fn print_next<T: 'static>(bytes: &mut &[u8], of: &Type, store: &mut StoreContextMut<'_, T>) -> String {
    let mut out = String::new();
    if print_value(bytes, of, store, &mut out).is_err() {
        out.push('?');
    }
    out
}

/// Prints one value. Resources are printed as their numbers, without creating them.
fn print_value<T: 'static>(
    bytes: &mut &[u8],
    of: &Type,
    store: &mut StoreContextMut<'_, T>,
    out: &mut String,
) -> wasmtime::Result<()> {
    match of {
        Type::Own(_) | Type::Borrow(_) => {
            let _ = write!(out, "#{}", number(bytes)?);
        }
        Type::List(list) if list.ty() == Type::U8 => {
            let length = length(bytes)?;
            let (content, rest) = bytes.split_at_checked(length).ok_or_else(damaged)?;
            *bytes = rest;
            let _ = write!(out, "{:?}", String::from_utf8_lossy(content));
        }
        Type::List(list) => {
            let (length, element) = (length(bytes)?, list.ty());
            out.push('[');
            for number in 0..length {
                out.push_str(if number > 0 { ", " } else { "" });
                print_value(bytes, &element, store, out)?;
            }
            out.push(']');
        }
        Type::Record(record) => {
            out.push('{');
            for (number, field) in record.fields().enumerate() {
                let _ = write!(out, "{}{}: ", if number > 0 { ", " } else { "" }, field.name);
                print_value(bytes, &field.ty, store, out)?;
            }
            out.push('}');
        }
        Type::Tuple(tuple) => {
            out.push('(');
            for (number, part) in tuple.types().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                print_value(bytes, &part, store, out)?;
            }
            out.push(')');
        }
        Type::Variant(variant) => {
            let case = variant.cases().nth(length(bytes)?).ok_or_else(damaged)?;
            out.push_str(case.name);
            print_payload(bytes, case.ty.as_ref(), store, out)?;
        }
        Type::Option(option) => match byte(bytes)? {
            0 => out.push_str("none"),
            _ => print_value(bytes, &option.ty(), store, out)?,
        },
        Type::Result(result) => match byte(bytes)? {
            0 => {
                out.push_str("ok");
                print_payload(bytes, result.ok().as_ref(), store, out)?;
            }
            _ => {
                out.push_str("err");
                print_payload(bytes, result.err().as_ref(), store, out)?;
            }
        },
        plain => match decode(bytes, plain, store)? {
            Val::String(value) => {
                let _ = write!(out, "{value:?}");
            }
            Val::Enum(name) => out.push_str(&name),
            Val::Flags(names) => out.push_str(&names.join("|")),
            Val::Bool(value) => {
                let _ = write!(out, "{value}");
            }
            Val::Char(value) => {
                let _ = write!(out, "{value:?}");
            }
            Val::U8(value) => out.push_str(&value.to_string()),
            Val::S8(value) => out.push_str(&value.to_string()),
            Val::U16(value) => out.push_str(&value.to_string()),
            Val::S16(value) => out.push_str(&value.to_string()),
            Val::U32(value) => out.push_str(&value.to_string()),
            Val::S32(value) => out.push_str(&value.to_string()),
            Val::U64(value) => out.push_str(&value.to_string()),
            Val::S64(value) => out.push_str(&value.to_string()),
            Val::Float32(value) => out.push_str(&value.to_string()),
            Val::Float64(value) => out.push_str(&value.to_string()),
            _ => return Err(damaged()),
        },
    }
    Ok(())
}

fn print_payload<T: 'static>(
    bytes: &mut &[u8],
    of: Option<&Type>,
    store: &mut StoreContextMut<'_, T>,
    out: &mut String,
) -> wasmtime::Result<()> {
    let Some(of) = of else { return Ok(()) };
    out.push('(');
    print_value(bytes, of, store, out)?;
    out.push(')');
    Ok(())
}
