//! The size of a schema with its references expanded.

use super::{MAX_CHAIN, MAX_DEPTH};
use pinion_plugin_sdk::prelude::*;

/// Walks a schema with its references expanded, once for each way to a definition.
pub(super) struct Measure<'a> {
    pub(super) root: &'a Value,
    pub(super) left: usize,
}

/// The value that a subschema applies to.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// Subschemas on the way that apply to the same value.
    chain: usize,
    /// The first definition on the way that applies to the same value.
    since: usize,
}

impl<'a> Measure<'a> {
    /// `path` has the definitions on the way here. None if there are too many subschemas. A definition within itself, for a part
    /// of its value, is not expanded again; one for the same value would never end.
    pub(super) fn visit(
        &mut self,
        schema: &'a Value,
        depth: usize,
        path: &mut Vec<&'a str>,
        place: Place,
    ) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        if depth > 4 * MAX_DEPTH || place.chain > MAX_CHAIN {
            return None;
        }
        let same = Place { chain: place.chain + 1, ..place };
        let part_of_it = Place { chain: 0, since: path.len() };
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => {
                    match path.iter().position(|known| known == reference) {
                        Some(at) if at >= place.since => return None,
                        Some(_) => continue,
                        None => {}
                    }
                    let target = self.root.pointer(reference.strip_prefix('#')?)?;
                    path.push(reference);
                    self.visit(target, depth + 1, path, same)?;
                    path.pop();
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                    parts.iter().try_for_each(|part| self.visit(part, depth + 1, path, same))?;
                }
                ("not" | "if" | "then" | "else", part) => self.visit(part, depth + 1, path, same)?,
                ("dependentSchemas", Value::Object(parts)) => {
                    parts.values().try_for_each(|part| self.visit(part, depth + 1, path, same))?;
                }
                ("properties" | "patternProperties", Value::Object(parts)) => {
                    parts.values().try_for_each(|part| self.visit(part, depth + 1, path, part_of_it))?;
                }
                ("prefixItems", Value::Array(parts)) => {
                    parts.iter().try_for_each(|part| self.visit(part, depth + 1, path, part_of_it))?;
                }
                ("items" | "additionalProperties" | "contains" | "propertyNames", part) => {
                    self.visit(part, depth + 1, path, part_of_it)?;
                }
                _ => {}
            }
        }
        Some(())
    }
}
