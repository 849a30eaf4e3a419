//! Tools: definition, schema and handler.

use crate::bindings::imports::pinion::plugin::types::{Effects, Execution, ToolDefinition};
use crate::schema::schema_of;
use crate::{Call, Error, Output, Resource, Result, TaskSupport};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Run = Box<dyn Fn(&str, &Call) -> Result<Output>>;

/// A tool.
pub struct Tool {
    pub(crate) name: String,
    label: String,
    description: String,
    input_schema: Box<dyn Fn() -> String>,
    guidelines: Vec<String>,
    effects: Effects,
    execution: Execution,
    /// Members that records of the contract have no field for, as JSON, each with a comma after it.
    extra: String,
    run: Run,
}

impl Tool {
    /// Creates a tool with typed arguments. The model receives the JSON Schema of `A`, with doc comments as
    /// descriptions.
    ///
    /// A tool declares no effects by default: without [`Tool::reads`] or [`Tool::writes`] its calls see no files,
    /// whatever the plugin was granted.
    pub fn new<A, O>(
        name: impl Into<String>,
        description: impl Into<String>,
        run: impl Fn(A, &Call) -> Result<O> + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: Into<Output>,
    {
        let run = move |json: &str, call: &Call| {
            let input = serde_json::from_str(json).map_err(Error::invalid_input)?;
            run(input, call).map(Into::into)
        };
        let schema = || schema_of::<A>().to_string();
        Self::of(name.into(), description.into(), Box::new(schema), Box::new(run))
    }

    /// Creates a tool whose schema is not known when the plugin is compiled. `input_schema` is a JSON Schema of an object, as
    /// JSON text; the host has checked the arguments against it.
    pub fn with_schema<O>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<String>,
        run: impl Fn(Value, &Call) -> Result<O> + 'static,
    ) -> Self
    where
        O: Into<Output>,
    {
        Self::with_text(name, description, input_schema, move |json, call| {
            run(serde_json::from_str(json).map_err(Error::invalid_input)?, call)
        })
    }

    /// Creates a tool like [`Tool::with_schema`] that gets its arguments as JSON text, to pass them on unread.
    pub fn with_text<O>(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<String>,
        run: impl Fn(&str, &Call) -> Result<O> + 'static,
    ) -> Self
    where
        O: Into<Output>,
    {
        let run = move |json: &str, call: &Call| run(json, call).map(Into::into);
        let schema = input_schema.into();
        Self::of(name.into(), description.into(), Box::new(move || schema.clone()), Box::new(run))
    }

    fn of(name: String, description: String, input_schema: Box<dyn Fn() -> String>, run: Run) -> Self {
        Self {
            label: name.replace(['_', '-'], " "),
            name,
            description,
            input_schema,
            guidelines: Vec::new(),
            effects: Effects::empty(),
            execution: Execution::Parallel,
            extra: String::new(),
            run,
        }
    }

    /// Sets the name shown to users. The default is the tool's name with spaces for `_` and `-`.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds a sentence to the system prompt while the tool is offered.
    #[must_use]
    pub fn guideline(mut self, sentence: impl Into<String>) -> Self {
        self.guidelines.push(sentence.into());
        self
    }

    /// Declares that the tool reads files in the granted directories.
    #[must_use]
    pub fn reads(mut self) -> Self {
        self.effects |= Effects::READS;
        self
    }

    /// Declares that the tool reads, creates, changes or removes files in the granted directories.
    #[must_use]
    pub fn writes(mut self) -> Self {
        self.effects |= Effects::READS | Effects::WRITES;
        self
    }

    /// Declares that the tool runs programs.
    #[must_use]
    pub fn executes(mut self) -> Self {
        self.effects |= Effects::EXECUTES;
        self
    }

    /// Declares that the tool uses the network.
    #[must_use]
    pub fn network(mut self) -> Self {
        self.effects |= Effects::NETWORK;
        self
    }

    /// Declares that the tool starts sub-agents, which get no more authority than its other effects declare.
    #[must_use]
    pub fn delegates(mut self) -> Self {
        self.effects |= Effects::DELEGATES;
        self
    }

    /// Declares that the tool may destroy data irrecoverably.
    #[must_use]
    pub fn destructive(mut self) -> Self {
        self.effects |= Effects::DESTRUCTIVE;
        self
    }

    /// Runs the tool's calls one at a time, not in parallel with others of the same message.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        self.execution = Execution::Sequential;
        self
    }

    /// Binds approvals to a text of at most 64 KiB, such as a digest of what the tool stands for: when it changes, the user is
    /// asked again. Only for tools in an offer.
    #[must_use]
    pub fn bound_to(mut self, text: impl Into<String>) -> Self {
        self.add("bound-to", &Value::String(text.into()));
        self
    }

    /// Names at most 4 arguments that say what a call reaches: an approval for the session covers only calls with the same
    /// values of these.
    #[must_use]
    pub fn approved_by(mut self, arguments: &[&str]) -> Self {
        self.add("approved-by", &arguments.into());
        self
    }

    /// Gives each call a JSON value of at most 4 KiB, which [`Call::route`] returns. Only for tools in an offer.
    #[must_use]
    pub fn route(mut self, route: Value) -> Self {
        self.add("route", &route);
        self
    }

    /// Makes the tool a resource for clients of `pinion mcp serve`. Text and images of its results are the content; anything
    /// else is in the [details](crate::Output::details): `{"mcp": {"contents": [{"mimeType": …, "blob": …}]}}`.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        self.add("resource", &resource.into_value());
        self
    }

    /// Says that calls may take long: clients of `pinion mcp serve` that support tasks fetch the result later.
    #[must_use]
    pub fn task(mut self, support: TaskSupport) -> Self {
        self.add("task", &support.into_value());
        self
    }

    pub(crate) fn uses_files(&self) -> bool {
        self.effects.intersects(Effects::READS | Effects::WRITES)
    }

    pub(crate) fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.clone(),
            label: self.label.clone(),
            description: self.description.clone(),
            input_schema: (self.input_schema)(),
            guidelines: self.guidelines.clone(),
            effects: self.effects,
            execution: self.execution,
            extra: self.extra(),
        }
    }

    fn add(&mut self, name: &str, value: &Value) {
        self.extra.push_str(&format!("\"{name}\":{value},"));
    }

    fn extra(&self) -> Option<String> {
        let members = self.extra.strip_suffix(',')?;
        Some(["{", members, "}"].concat())
    }

    pub(crate) fn run(&self, input: &str, call: &Call) -> Result<Output> {
        (self.run)(input, call)
    }
}
