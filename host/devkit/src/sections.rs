//! Custom sections of components and core modules.

use std::borrow::Cow;
use wasm_encoder::{ComponentSection as _, CustomSection, Encode as _};
use wasmparser::{Parser, Payload};

/// Returns the component with one section of this name, at its end.
pub fn replaced(bytes: &[u8], name: &str, data: &[u8]) -> Result<Vec<u8>, String> {
    let mut replaced = without(bytes, |section| section == name)?;
    append(&mut replaced, name, data);
    Ok(replaced)
}

/// Adds a section at the end.
pub fn append(bytes: &mut Vec<u8>, name: &str, data: &[u8]) {
    let section = CustomSection { name: Cow::Borrowed(name), data: Cow::Borrowed(data) };
    bytes.push(section.id());
    section.encode(bytes);
}

/// Returns a component or core module without its outer custom sections that match a predicate. Sections inside the
/// modules of a component stay.
pub fn without(bytes: &[u8], goes: impl Fn(&str) -> bool) -> Result<Vec<u8>, String> {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut parser = Parser::new(0);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (consumed, payload) = match parser.parse(rest, true).map_err(|error| error.to_string())? {
            wasmparser::Chunk::Parsed { consumed, payload } => (consumed, payload),
            wasmparser::Chunk::NeedMoreData(_) => return Err("unexpected end of file".to_owned()),
        };
        // The parser would descend into a module, which is copied as a whole.
        let nested = match &payload {
            Payload::ModuleSection { unchecked_range, .. } | Payload::ComponentSection { unchecked_range, .. } => {
                unchecked_range.len()
            }
            _ => 0,
        };
        let length = consumed + nested;
        let section = rest.get(..length).ok_or("unexpected end of file")?;
        let is_gone = matches!(&payload, Payload::CustomSection(custom) if goes(custom.name()));
        if !is_gone {
            kept.extend_from_slice(section);
        }
        rest = &rest[length..];
    }
    Ok(kept)
}

/// Returns the data of a custom section: the last outermost one, or else the first one inside a module of the component, as
/// the runtime reads it.
pub fn find<'a>(bytes: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, String> {
    let (mut found, mut depth) = (None, 0_usize);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(|error| error.to_string())? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if section.name() == name && (depth == 0 || found.is_none()) => {
                found = Some(section.data());
            }
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component() -> Vec<u8> {
        let mut component = wasm_encoder::Component::new();
        component.section(&CustomSection { name: "junk".into(), data: (&[1, 2, 3]).into() });
        component.section(&wasm_encoder::ModuleSection(&wasm_encoder::Module::new()));
        component.finish()
    }

    fn names(bytes: &[u8]) -> Vec<String> {
        let payloads = Parser::new(0).parse_all(bytes).map(Result::unwrap);
        let customs = payloads.filter_map(|payload| match payload {
            Payload::CustomSection(custom) => Some(custom.name().to_owned()),
            _ => None,
        });
        customs.collect()
    }

    #[test]
    fn replacing_twice_keeps_one_section() {
        let once = replaced(&component(), "name", b"{}").unwrap();
        let twice = replaced(&once, "name", b"{ }").unwrap();
        assert_eq!(names(&twice), ["junk", "name"]);
        assert!(twice.windows(3).any(|window| window == b"{ }"));
    }

    #[test]
    fn outermost_section_is_found_first() {
        let mut module = wasm_encoder::Module::new();
        module.section(&CustomSection { name: "name".into(), data: (&[1]).into() });
        let mut outer = wasm_encoder::Component::new();
        outer.section(&wasm_encoder::ModuleSection(&module));
        let outer = outer.finish();
        assert_eq!(find(&outer, "name").unwrap(), Some(&[1][..]));
        assert_eq!(find(&replaced(&outer, "name", &[2]).unwrap(), "name").unwrap(), Some(&[2][..]));
        assert_eq!(find(&outer, "other").unwrap(), None);
    }

    #[test]
    fn truncated_component_is_an_error() {
        let bytes = component();
        for length in 9..bytes.len() {
            // No panic: a cut between two sections leaves a valid, shorter component.
            let _ = without(&bytes[..length], |_| false);
        }
        assert!(without(&bytes[..bytes.len() - 1], |_| false).is_err());
    }
}
