//! Types in the notation of WIT, for the descriptions of tools.

use std::fmt::Write as _;
use wasmtime::component::types::Type;

/// Bytes after which a signature is cut.
const MAX_BYTES: usize = 1024;

/// Writes a function with its parameters and its result. A long signature ends with `…`.
pub(super) fn signature(name: &str, parameters: &[(String, Type)], result: Option<&Type>) -> String {
    let mut text = format!("{name}(");
    for (at, (parameter, ty)) in parameters.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(parameter);
        text.push_str(": ");
        write_type(&mut text, ty);
    }
    text.push(')');
    if let Some(result) = result {
        text.push_str(" -> ");
        write_type(&mut text, result);
    }
    if text.len() > MAX_BYTES {
        text.truncate(text.floor_char_boundary(MAX_BYTES));
        text.push('…');
    }
    text
}

fn write_type(text: &mut String, ty: &Type) {
    if text.len() > MAX_BYTES {
        return;
    }
    let simple = match ty {
        Type::Bool => "bool",
        Type::S8 => "s8",
        Type::U8 => "u8",
        Type::S16 => "s16",
        Type::U16 => "u16",
        Type::S32 => "s32",
        Type::U32 => "u32",
        Type::S64 => "s64",
        Type::U64 => "u64",
        Type::Float32 => "f32",
        Type::Float64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::List(list) => return write_all(text, "list<", [list.ty()], ">"),
        Type::FixedLengthList(list) => return write_all(text, "list<", [list.ty()], &format!(", {}>", list.len())),
        Type::Option(option) => return write_all(text, "option<", [option.ty()], ">"),
        Type::Tuple(tuple) => return write_all(text, "tuple<", tuple.types(), ">"),
        Type::Record(record) => return write_named(text, record.fields().map(|field| (field.name, Some(field.ty)))),
        Type::Variant(variant) => return write_named(text, variant.cases().map(|case| (case.name, case.ty))),
        Type::Result(result) => {
            text.push_str("result<");
            for (separator, ty) in [("", result.ok()), (", ", result.err())] {
                text.push_str(separator);
                match ty {
                    Some(ty) => write_type(text, &ty),
                    None => text.push('_'),
                }
            }
            ">"
        }
        Type::Enum(names) => return write_named(text, names.names().map(|name| (name, None))),
        Type::Flags(flags) => return write_named(text, flags.names().map(|name| (name, None))),
        Type::Map(_) | Type::Own(_) | Type::Borrow(_) | Type::Future(_) | Type::Stream(_) | Type::ErrorContext => "_",
    };
    text.push_str(simple);
}

fn write_all(text: &mut String, open: &str, types: impl IntoIterator<Item = Type>, close: &str) {
    text.push_str(open);
    for (at, ty) in types.into_iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        write_type(text, &ty);
    }
    text.push_str(close);
}

/// Writes the members of a record, a variant, an enum or flags, whose names a component does not keep.
fn write_named<'a>(text: &mut String, members: impl Iterator<Item = (&'a str, Option<Type>)>) {
    text.push('{');
    for (at, (name, ty)) in members.enumerate() {
        if text.len() > MAX_BYTES {
            break;
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{}{name}", if at > 0 { ", " } else { " " });
        if let Some(ty) = ty {
            text.push_str(": ");
            write_type(text, &ty);
        }
    }
    text.push_str(" }");
}
