//! A tool: its definition for the model, and the function behind it.

use crate::bindings::imports::pinion::plugin::types::{Effects, Execution};
use crate::bindings::tools::exports::pinion::plugin::tools::ToolDefinition;
use crate::schema::schema_of;
use crate::{Call, Error, Output, Result};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

type Run = Box<dyn Fn(&str, &Call) -> Result<Output>>;

/// One tool.
pub struct Tool {
    pub(crate) name: &'static str,
    label: String,
    description: String,
    input_schema: fn() -> Value,
    guidelines: Vec<String>,
    effects: Effects,
    execution: Execution,
    run: Run,
}

impl Tool {
    /// A tool with typed arguments: the model is told the JSON Schema of `A`, where doc comments are descriptions.
    ///
    /// A tool has no effects until it says so: without [`Tool::reads`] or [`Tool::writes`] its calls see no files,
    /// whatever the plugin was granted.
    pub fn new<A, O>(
        name: &'static str,
        description: impl Into<String>,
        run: impl Fn(A, &Call) -> Result<O> + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: Into<Output>,
    {
        let run = move |json: &str, call: &Call| {
            let arguments = serde_json::from_str(json).map_err(Error::invalid_arguments)?;
            run(arguments, call).map(Into::into)
        };
        Self {
            name,
            label: name.replace(['_', '-'], " "),
            description: description.into(),
            input_schema: schema_of::<A>,
            guidelines: Vec::new(),
            effects: Effects::empty(),
            execution: Execution::Parallel,
            run: Box::new(run),
        }
    }

    /// The name that people see; the tool's name with spaces where nothing is said.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// A sentence for the system prompt, while the tool is offered.
    #[must_use]
    pub fn guideline(mut self, sentence: impl Into<String>) -> Self {
        self.guidelines.push(sentence.into());
        self
    }

    /// It reads files in the granted folders.
    #[must_use]
    pub fn reads(mut self) -> Self {
        self.effects |= Effects::READS;
        self
    }

    /// It reads, creates, changes or removes files in the granted folders.
    #[must_use]
    pub fn writes(mut self) -> Self {
        self.effects |= Effects::READS | Effects::WRITES;
        self
    }

    /// It runs programs.
    #[must_use]
    pub fn executes(mut self) -> Self {
        self.effects |= Effects::EXECUTES;
        self
    }

    /// It talks to the network.
    #[must_use]
    pub fn network(mut self) -> Self {
        self.effects |= Effects::NETWORK;
        self
    }

    /// The tool starts sub-agents, which get no more authority than its other effects declare.
    #[must_use]
    pub fn delegates(mut self) -> Self {
        self.effects |= Effects::DELEGATES;
        self
    }

    /// It may lose data that cannot be brought back.
    #[must_use]
    pub fn destructive(mut self) -> Self {
        self.effects |= Effects::DESTRUCTIVE;
        self
    }

    /// Its calls run alone, not beside others of the same message.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        self.execution = Execution::Sequential;
        self
    }

    pub(crate) fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.to_owned(),
            label: self.label.clone(),
            description: self.description.clone(),
            input_schema: (self.input_schema)().to_string(),
            guidelines: self.guidelines.clone(),
            effects: self.effects,
            execution: self.execution,
        }
    }

    pub(crate) fn run(&self, arguments: &str, call: &Call) -> Result<Output> {
        (self.run)(arguments, call)
    }
}
