//! Do the arguments of a call fit the tool's schema?

use crate::definition::ToolDefinition;
use jsonschema::Validator;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Problems that are told at once; more would not help the model.
const MAX_PROBLEMS: usize = 5;
/// Bytes of one problem; a value that is quoted may be huge.
const MAX_PROBLEM_BYTES: usize = 500;

/// Compiled schemas, one for each tool that was called. A tool that was reloaded is another definition.
#[derive(Default)]
pub struct Schemas {
    compiled: Mutex<HashMap<String, Entry>>,
}

type Entry = (Arc<ToolDefinition>, Arc<Compiled>);
type Compiled = Result<Validator, String>;

impl Schemas {
    /// Checks arguments, and gives them as the tool shall get them. Models write `null` for what they leave out: where
    /// the schema allows to leave a property out and no null, the null is left out.
    ///
    /// # Errors
    /// They do not fit, or the schema is none: what is wrong and where, in words for the model.
    pub fn check<'a>(&self, tool: &Arc<ToolDefinition>, arguments: &'a Value) -> Result<Cow<'a, Value>, String> {
        match &*self.compiled(tool) {
            Ok(validator) => fits(validator, arguments).map(|()| Cow::Borrowed(arguments)).or_else(|problem| {
                let without = without_nulls(arguments).ok_or(&problem).map_err(String::clone)?;
                fits(validator, &without).map(|()| Cow::Owned(without)).map_err(|_| problem)
            }),
            Err(problem) => Err(format!("the tool's own schema is broken: {problem}")),
        }
    }

    fn compiled(&self, tool: &Arc<ToolDefinition>) -> Arc<Compiled> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((definition, schema)) = compiled.get(&tool.name)
            && Arc::ptr_eq(definition, tool)
        {
            return schema.clone();
        }
        let schema = Arc::new(jsonschema::validator_for(&tool.input_schema).map_err(|error| clip(error.to_string())));
        compiled.insert(tool.name.clone(), (tool.clone(), schema.clone()));
        schema
    }
}

fn fits(validator: &Validator, arguments: &Value) -> Result<(), String> {
    let mut problems = validator.iter_errors(arguments).map(|error| {
        let place = error.instance_path().to_string();
        clip(if place.is_empty() { error.to_string() } else { format!("`{place}`: {error}") })
    });
    let told: Vec<String> = problems.by_ref().take(MAX_PROBLEMS).collect();
    match (told.is_empty(), problems.next()) {
        (true, _) => Ok(()),
        (false, None) => Err(told.join("; ")),
        (false, Some(_)) => Err(format!("{}; and more", told.join("; "))),
    }
}

/// An object without its properties that are null; none when it has none of them.
fn without_nulls(arguments: &Value) -> Option<Value> {
    let fields = arguments.as_object().filter(|fields| fields.values().any(Value::is_null))?;
    Some(
        fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}

fn clip(mut text: String) -> String {
    if text.len() > MAX_PROBLEM_BYTES {
        text.truncate(text.floor_char_boundary(MAX_PROBLEM_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(schema: Value) -> Arc<ToolDefinition> {
        Arc::new(ToolDefinition {
            name: "t".into(),
            label: String::new(),
            description: String::new(),
            input_schema: schema,
            guidelines: Vec::new(),
            authority: crate::Authority::default(),
            execution: crate::Execution::default(),
            source: Default::default(),
        })
    }

    fn numbers() -> Arc<ToolDefinition> {
        tool(json!({
            "type": "object",
            "properties": { "n": { "type": "integer", "minimum": 1 } },
            "required": ["n"],
        }))
    }

    #[test]
    fn what_fits_passes_and_what_does_not_is_told_with_its_place() {
        let schemas = Schemas::default();
        assert!(schemas.check(&numbers(), &json!({ "n": 3 })).is_ok());
        let problem = schemas.check(&numbers(), &json!({ "n": "three" })).unwrap_err();
        assert!(problem.contains("`/n`") && problem.contains("integer"), "{problem}");
        assert!(schemas.check(&numbers(), &json!([])).is_err());
    }

    #[test]
    fn a_null_for_what_may_be_left_out_is_left_out_and_any_other_is_not() {
        let schemas = Schemas::default();
        let optional = tool(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
        assert_eq!(*schemas.check(&optional, &json!({ "n": null })).unwrap(), json!({}));
        assert!(schemas.check(&numbers(), &json!({ "n": null })).is_err());
        let nullable = tool(json!({ "type": "object", "properties": { "n": { "type": ["integer", "null"] } } }));
        assert_eq!(*schemas.check(&nullable, &json!({ "n": null })).unwrap(), json!({ "n": null }));
    }

    #[test]
    fn a_huge_value_is_not_quoted_back_in_full() {
        let problem = Schemas::default().check(&numbers(), &json!({ "n": "x".repeat(100_000) })).unwrap_err();
        assert!(problem.len() < 2 * MAX_PROBLEM_BYTES, "{}", problem.len());
    }

    #[test]
    fn a_reloaded_tool_has_a_schema_of_its_own() {
        let schemas = Schemas::default();
        assert!(schemas.check(&numbers(), &json!({})).is_err());
        assert!(schemas.check(&tool(json!({ "type": "object" })), &json!({})).is_ok());
    }

    #[test]
    fn a_broken_schema_is_told_as_such() {
        let problem = Schemas::default().check(&tool(json!({ "type": 7 })), &json!({})).unwrap_err();
        assert!(problem.contains("own schema is broken"), "{problem}");
    }
}
