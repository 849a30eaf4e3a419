//! Validates the arguments of calls against the schemas of tools.
//!
//! Schemas and arguments are untrusted. A schema is first checked for size ([`measure`]), then compiled once. Small
//! arguments of a small schema are validated inline, which takes microseconds. For all others the work is bounded first
//! ([`is_bearable`]) and done on a separate thread with a deadline.

use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use pinion_protocol::definition::ToolDefinition;
use pinion_protocol::schema::{
    MAX_NESTING, Measure, Size, build_leniently, compilable, is_bearable, is_plain, is_small, measure, repaired,
    without_nulls,
};
use pinion_protocol::text::clip;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// Maximum number of problems in one report; more would not help the model.
const MAX_PROBLEMS: usize = 5;
/// Maximum characters of one problem, because a quoted value may be huge.
const MAX_PROBLEM: usize = 500;
/// Deadline of a validation on a separate thread.
const DEADLINE: Duration = Duration::from_secs(2);
/// Maximum number of validation threads, including those that outlived their deadline.
const MAX_THREADS: usize = 4;
/// Stack size of a validation thread, sufficient for the maximum nesting depth.
const STACK_BYTES: usize = 16 * 1024 * 1024;
/// Maximum steps of a backtracking regular expression.
const MAX_BACKTRACKING: usize = 20_000;
/// Maximum bytes of a compiled regular expression.
const MAX_PATTERN_SIZE: usize = 1024 * 1024;

/// Compiled schemas, one for each tool that was called. A tool that was reloaded is another definition.
pub struct Schemas {
    entries: Mutex<HashMap<String, Arc<SchemaCacheEntry>>>,
    threads: Arc<Semaphore>,
    deadline: Duration,
}

impl Default for Schemas {
    fn default() -> Self {
        Self { entries: Mutex::default(), threads: Arc::new(Semaphore::new(MAX_THREADS)), deadline: DEADLINE }
    }
}

/// The schema of a tool.
struct SchemaCacheEntry {
    tool: Arc<ToolDefinition>,
    measure: Result<Measure, String>,
    compiled: OnceLock<Result<Validator, String>>,
}

impl Schemas {
    /// Validates arguments and returns them in the form that the tool gets. Models write `null` for omitted properties:
    /// if the schema allows a property to be omitted but not to be null, the null is removed. Values in another form than the
    /// schema's are repaired where their meaning is certain, see [`repaired`].
    ///
    /// # Errors
    /// Fails if the arguments do not match, or the schema is invalid or too complex; the text for the model names the
    /// problems and their positions.
    pub async fn check<'a>(&self, tool: &Arc<ToolDefinition>, arguments: &'a Value) -> Result<Cow<'a, Value>, String> {
        let checked = self.validated(tool, arguments).await;
        let written = checked.as_deref().unwrap_or(arguments);
        let Some(meant) = repaired(&tool.input_schema, written, checked.is_ok()) else { return checked };
        match self.validated(tool, &meant).await {
            Ok(meant) => Ok(Cow::Owned(meant.into_owned())),
            Err(_) => checked,
        }
    }

    async fn validated<'a>(&self, tool: &Arc<ToolDefinition>, arguments: &'a Value) -> Result<Cow<'a, Value>, String> {
        let entry = self.entry(tool);
        let measure = entry.measure.clone().map_err(|problem| broken(&problem))?;
        let size =
            Size::from_arguments(arguments).ok_or_else(|| format!("they nest deeper than {MAX_NESTING} levels"))?;
        if is_small(measure, size) {
            return entry.check(arguments, MAX_PROBLEMS);
        }
        let fixed = self.check_on_thread(entry, Arc::new(arguments.clone())).await?;
        Ok(fixed.map_or(Cow::Borrowed(arguments), Cow::Owned))
    }

    /// Returns the changed arguments; `None` if they did not change.
    async fn check_on_thread(
        &self,
        entry: Arc<SchemaCacheEntry>,
        arguments: Arc<Value>,
    ) -> Result<Option<Value>, String> {
        let too_long = || {
            let seconds = self.deadline.as_secs_f32();
            format!("checking them against the tool's schema took more than {seconds} s. Pass less at once")
        };
        let checking = async {
            let permit = self.threads.clone().acquire_owned().await.map_err(|error| error.to_string())?;
            let (sender, receiver) = oneshot::channel();
            let check = move || {
                let _permit = permit;
                // The receiver is gone after the deadline.
                let _ = sender.send(entry.check_counted(&arguments));
            };
            let thread = std::thread::Builder::new().name("schema".to_owned()).stack_size(STACK_BYTES).spawn(check);
            thread.map_err(|error| format!("they cannot be checked: {error}"))?;
            receiver.await.unwrap_or_else(|_| Err(broken("checking against it failed")))
        };
        tokio::time::timeout(self.deadline, checking).await.unwrap_or_else(|_| Err(too_long()))
    }

    fn entry(&self, tool: &Arc<ToolDefinition>) -> Arc<SchemaCacheEntry> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(&tool.name).filter(|entry| Arc::ptr_eq(&entry.tool, tool)) {
            return entry.clone();
        }
        let measure = measure(&tool.input_schema).map_err(|error| error.to_string());
        let entry = Arc::new(SchemaCacheEntry { tool: tool.clone(), measure, compiled: OnceLock::new() });
        entries.insert(tool.name.clone(), entry.clone());
        entry
    }
}

impl SchemaCacheEntry {
    /// Collects at most `max` problems, because each takes memory.
    fn check<'a>(&self, arguments: &'a Value, max: usize) -> Result<Cow<'a, Value>, String> {
        match self.compiled.get_or_init(|| compile(&self.tool.input_schema)) {
            Ok(validator) => fits(validator, arguments, max).map(|()| Cow::Borrowed(arguments)).or_else(|problem| {
                let without = without_nulls(arguments).ok_or(&problem).map_err(String::clone)?;
                fits(validator, &without, max).map(|()| Cow::Owned(without)).map_err(|_| problem)
            }),
            Err(problem) => Err(broken(problem)),
        }
    }

    fn check_counted(&self, arguments: &Value) -> Result<Option<Value>, String> {
        if !is_bearable(&self.tool.input_schema, arguments) {
            return Err("they are too much to be checked against the tool's schema. Pass less at once".to_owned());
        }
        self.check(arguments, 1).map(|fixed| match fixed {
            Cow::Borrowed(_) => None,
            Cow::Owned(fixed) => Some(fixed),
        })
    }
}

fn broken(problem: &str) -> String {
    format!("the tool's own schema is broken: {problem}")
}

/// Compiles a schema. Keywords that are invalid, and regular expressions that are not of this engine, restrict nothing.
fn compile(schema: &Value) -> Result<Validator, String> {
    build_leniently(&compilable(schema), &build)
}

/// Returns a problem with the position of the keyword that has it.
fn build(schema: &Value) -> Result<Validator, (String, String)> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(MAX_BACKTRACKING)
        .size_limit(MAX_PATTERN_SIZE)
        .dfa_size_limit(MAX_PATTERN_SIZE);
    let options = jsonschema::options().with_pattern_options(patterns);
    // The validator also checks the schema against its dialect's schema; this dialect's schema compiles fastest.
    let options = if is_plain(schema) { options.with_draft(Draft::Draft7) } else { options };
    options.build(schema).map_err(|error| (error.instance_path().to_string(), clip(&error.to_string(), MAX_PROBLEM)))
}

fn fits(validator: &Validator, arguments: &Value, max: usize) -> Result<(), String> {
    if max == 1 {
        return validator.validate(arguments).map_err(|error| problem(&error));
    }
    let mut problems = validator.iter_errors(arguments).map(|error| problem(&error));
    let messages: Vec<String> = problems.by_ref().take(max).collect();
    match (messages.is_empty(), problems.next()) {
        (true, _) => Ok(()),
        (false, None) => Err(messages.join("; ")),
        (false, Some(_)) => Err(format!("{}; and more", messages.join("; "))),
    }
}

fn problem(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().to_string();
    clip(&if place.is_empty() { error.to_string() } else { format!("`{place}`: {error}") }, MAX_PROBLEM)
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
            authority: pinion_protocol::Authority::default(),
            execution: pinion_protocol::definition::Execution::default(),
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

    #[tokio::test]
    async fn invalid_arguments_are_reported_with_their_position() {
        let schemas = Schemas::default();
        assert!(schemas.check(&numbers(), &json!({ "n": 3 })).await.is_ok());
        let problem = schemas.check(&numbers(), &json!({ "n": "three" })).await.unwrap_err();
        assert!(problem.contains("`/n`") && problem.contains("integer"), "{problem}");
        assert!(schemas.check(&numbers(), &json!([])).await.is_err());
    }

    #[tokio::test]
    async fn a_null_for_what_may_be_left_out_is_left_out_and_any_other_is_not() {
        let schemas = Schemas::default();
        let optional = tool(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
        assert_eq!(*schemas.check(&optional, &json!({ "n": null })).await.unwrap(), json!({}));
        assert!(schemas.check(&numbers(), &json!({ "n": null })).await.is_err());
        let nullable = tool(json!({ "type": "object", "properties": { "n": { "type": ["integer", "null"] } } }));
        assert_eq!(*schemas.check(&nullable, &json!({ "n": null })).await.unwrap(), json!({ "n": null }));
    }

    #[tokio::test]
    async fn a_huge_value_is_not_quoted_back_in_full() {
        let problem = Schemas::default().check(&numbers(), &json!({ "n": "x".repeat(100_000) })).await.unwrap_err();
        assert!(problem.len() < 2 * MAX_PROBLEM, "{}", problem.len());
    }

    #[tokio::test]
    async fn a_reloaded_tool_has_a_schema_of_its_own() {
        let schemas = Schemas::default();
        assert!(schemas.check(&numbers(), &json!({})).await.is_err());
        assert!(schemas.check(&tool(json!({ "type": "object" })), &json!({})).await.is_ok());
    }

    #[tokio::test]
    async fn patterns_of_javascript_restrict_nothing_and_cost_no_tool() {
        let patterns = [
            "^[\\w-.]+$",
            "^{a}$",
            "\\0",
            "a{1,100000}",
            "^[a-",
            "(?<=a)b{",
            "[",
            "\\p{Foo}",
            "\\cA",
            "\\u{1F600}",
            "[^]",
        ];
        for pattern in patterns {
            let schema = json!({
                "type": "object", "required": ["x"],
                "properties": { "x": { "type": "string", "pattern": pattern }, "y": { "pattern": "^a$" } },
                "patternProperties": { pattern: { "type": "string" } }, "additionalProperties": false,
            });
            let (schemas, tool) = (Schemas::default(), tool(schema));
            assert!(schemas.check(&tool, &json!({ "y": "a" })).await.unwrap_err().contains("required"), "{pattern}");
            let good = schemas.check(&tool, &json!({ "x": "a" })).await.map(Cow::into_owned);
            assert!(good.as_ref().err().is_none_or(|problem| !problem.contains("broken")), "{pattern}: {good:?}");
            assert!(schemas.check(&tool, &json!({ "x": "a", "y": "b" })).await.is_err(), "{pattern}");
        }
    }

    #[tokio::test]
    async fn invalid_keywords_restrict_nothing_and_cost_no_tool() {
        for odd in [
            json!({ "required": true }),
            json!({ "minimum": "1" }),
            json!({ "format": 7 }),
            json!({ "items": "string" }),
            json!({ "enum": {} }),
            json!({ "additionalProperties": "no" }),
            json!({ "minLength": -1 }),
            json!({ "exclusiveMinimum": true }),
        ] {
            let schema = json!({ "type": "object", "properties": { "x": odd, "n": { "type": "integer" } } });
            let (schemas, tool) = (Schemas::default(), tool(schema));
            assert!(schemas.check(&tool, &json!({ "x": "a", "n": 1 })).await.is_ok(), "{odd}");
            assert!(schemas.check(&tool, &json!({ "n": "one" })).await.is_err(), "{odd}");
        }
    }

    #[tokio::test]
    async fn arguments_in_another_form_are_repaired_only_if_they_then_match() {
        let schemas = Schemas::default();
        for written in [json!({ "n": "3" }), json!({ "n": 3.0 }), json!("{\"n\": 3}"), json!("{\"n\": \"3\"}{}")] {
            let checked = schemas.check(&numbers(), &written).await.unwrap();
            assert_eq!(checked.to_string(), "{\"n\":3}", "{written}");
        }
        // The report is about the arguments as they were written.
        let problem = schemas.check(&numbers(), &json!({ "n": "0" })).await.unwrap_err();
        assert!(problem.contains("\"0\""), "{problem}");
        let optional = tool(json!({ "type": "object", "properties": { "n": { "type": "integer" } } }));
        assert_eq!(*schemas.check(&optional, &json!({ "n": null })).await.unwrap(), json!({}));
    }

    #[tokio::test]
    async fn invalid_schema_is_reported_as_such() {
        let problem = Schemas::default().check(&tool(json!({ "type": 7 })), &json!({})).await.unwrap_err();
        assert!(problem.contains("own schema is broken"), "{problem}");
    }

    #[tokio::test]
    async fn a_schema_that_expands_without_bound_is_refused_at_once() {
        let twice =
            |n: usize| json!({ "allOf": [{ "$ref": format!("#/$defs/d{n}") }, { "$ref": format!("#/$defs/d{n}") }] });
        let mut definitions: serde_json::Map<String, Value> =
            (0..40).map(|n| (format!("d{n}"), twice(n + 1))).collect();
        definitions.insert("d40".into(), json!({}));
        let schema = json!({ "type": "object", "$ref": "#/$defs/d0", "$defs": definitions });
        let problem = Schemas::default().check(&tool(schema), &json!({})).await.unwrap_err();
        assert!(problem.contains("more than 32 subschemas"), "{problem}");
    }

    #[tokio::test]
    async fn a_recursive_schema_is_checked_on_a_thread_and_says_what_is_wrong() {
        let tree = json!({
            "type": "object",
            "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" }, "n": { "type": "integer" } },
        });
        let (schemas, tree) = (Schemas::default(), tool(tree));
        let right = json!({ "left": { "left": { "n": 1 } }, "n": null });
        let checked = schemas.check(&tree, &right).await.unwrap();
        assert_eq!(*checked, json!({ "left": { "left": { "n": 1 } } }), "nulls are left out here, too");
        let problem = schemas.check(&tree, &json!({ "left": { "n": "x" } })).await.unwrap_err();
        assert!(problem.contains("/left/n"), "{problem}");
    }

    #[tokio::test]
    async fn arguments_that_multiply_the_work_are_refused() {
        let part = json!({ "allOf": [{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }] });
        let schema =
            json!({ "type": "object", "$ref": "#/$defs/a", "$defs": { "a": { "properties": { "x": part } } } });
        let nested = |levels: usize| (0..levels).fold(json!({}), |value, _| json!({ "x": value }));
        // A busy machine must not end the check before its bound does.
        let schemas = Schemas { deadline: Duration::from_secs(600), ..Schemas::default() };
        let tool = tool(schema);
        assert!(schemas.check(&tool, &nested(8)).await.is_ok());
        let problem = schemas.check(&tool, &nested(50)).await.unwrap_err();
        assert!(problem.contains("too much"), "{problem}");
        let problem = schemas.check(&tool, &nested(100)).await.unwrap_err();
        assert!(problem.contains("64 levels"), "{problem}");
    }

    #[tokio::test]
    async fn a_check_that_misses_its_deadline_leaves_the_loop_alone() {
        // All threads are taken, as by checks that never end.
        let schemas =
            Schemas { deadline: Duration::from_millis(10), threads: Arc::new(Semaphore::new(0)), ..Schemas::default() };
        let tree = tool(json!({ "type": "object", "properties": { "x": { "$ref": "#" } } }));
        let problem = schemas.check(&tree, &json!({})).await.unwrap_err();
        assert!(problem.contains("took more than 0.01 s"), "{problem}");
    }

    #[tokio::test]
    async fn the_deepest_arguments_of_the_longest_chain_fit_on_the_stack() {
        let mut definitions: serde_json::Map<String, Value> =
            (0..29).map(|n| (n.to_string(), json!({ "allOf": [{ "$ref": format!("#/$defs/{}", n + 1) }] }))).collect();
        definitions.insert("29".into(), json!({ "properties": { "x": { "$ref": "#" } } }));
        let schema = json!({ "type": "object", "anyOf": [{ "$ref": "#/$defs/16" }], "$defs": definitions });
        let nested = (0..60).fold(json!({}), |value, _| json!({ "x": value }));
        let checked = Schemas::default().check(&tool(schema), &nested).await.map(drop);
        assert_eq!(checked, Ok(()));
    }

    #[tokio::test]
    async fn regular_expressions_cannot_take_long() {
        let schema =
            json!({ "type": "object", "properties": { "x": { "type": "string", "pattern": "^(?=a)(a+)+$" } } });
        let arguments = json!({ "x": format!("{}!", "a".repeat(10_000)) });
        assert!(Schemas::default().check(&tool(schema), &arguments).await.is_err());
        let huge = json!({ "type": "object", "properties": { "x": { "pattern": "((a{100}){100}){100}" } } });
        // It is not compiled, and thus restricts nothing.
        assert!(Schemas::default().check(&tool(huge), &json!({ "x": "b" })).await.is_ok());
    }

    #[tokio::test]
    async fn schemas_of_drafts_that_tools_use_are_understood() {
        let seven = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://a.example/tool",
            "type": "object", "properties": { "x": { "$ref": "#/definitions/x" } }, "definitions": { "x": { "type": "string" } },
        });
        let schemas = Schemas::default();
        let seven = tool(seven);
        assert!(schemas.check(&seven, &json!({ "x": "a" })).await.is_ok());
        assert!(schemas.check(&seven, &json!({ "x": 1 })).await.is_err());
    }
}
