//! A tool executor that redacts secrets.

use super::{KnownSecrets, Secrets};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_protocol::content::Content;
use pinion_protocol::definition::{Instructions, ToolDefinition};
use pinion_protocol::tool::{LogLevel, ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use std::borrow::Cow;
use std::sync::Arc;

/// An executor that redacts secrets in results, errors and progress, and in the texts of tools that plugins offer while
/// they run. The texts of other tools were written before any secret was known. A secret that the caller wrote into the
/// arguments is not redacted in their reply: the caller knows it, and must not learn that the text is a secret.
pub struct RedactedTools {
    inner: Arc<dyn ToolExecutor>,
    secrets: Secrets,
}

impl RedactedTools {
    /// Wraps an executor.
    pub fn new(inner: Arc<dyn ToolExecutor>, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }

    /// Redacts the texts of a definition, if its plugin may have changed it.
    fn cleaned(&self, tool: Arc<ToolDefinition>) -> Arc<ToolDefinition> {
        if tool.source.definition.is_empty() || self.secrets.is_empty() {
            return tool;
        }
        let known = self.secrets.snapshot();
        let mut clean = ToolDefinition { input_schema: known.clean_json(tool.input_schema.clone()), ..(*tool).clone() };
        known.clean_string(&mut clean.label);
        known.clean_string(&mut clean.description);
        clean.guidelines.iter_mut().for_each(|guideline| known.clean_string(guideline));
        if clean == *tool { tool } else { Arc::new(clean) }
    }

    /// Returns the definition as the inner executor has it.
    fn original(&self, tool: &Arc<ToolDefinition>) -> Option<Arc<ToolDefinition>> {
        let has_name = |own: &Arc<ToolDefinition>| own.name == tool.name;
        let own = self.inner.definitions().into_iter().find(has_name)?;
        (self.cleaned(own.clone()) == *tool).then_some(own)
    }
}

impl ToolExecutor for RedactedTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.inner.definitions().into_iter().map(|tool| self.cleaned(tool)).collect()
    }

    fn instructions(&self) -> Vec<Instructions> {
        let mut instructions = self.inner.instructions();
        for entry in &mut instructions {
            if let Cow::Owned(clean) = self.secrets.clean(&entry.text) {
                entry.text = clean.into();
            }
        }
        instructions
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        if self.secrets.is_empty() {
            return self.inner.call(call, progress);
        }
        let mut call = call;
        if !call.tool.source.definition.is_empty()
            && let Some(tool) = self.original(&call.tool)
        {
            call.tool = tool;
        }
        async move {
            let arguments = call.arguments.clone();
            let known = || self.secrets.snapshot().without_those_in(&arguments);
            let progress = RedactedProgress { inner: progress, known: &known };
            let reply = self.inner.call(call, &progress).await;
            known().clean_reply(reply)
        }
        .boxed()
    }
}

struct RedactedProgress<'a, F> {
    inner: &'a dyn ToolProgress,
    known: &'a F,
}

impl<F: Fn() -> Arc<KnownSecrets> + Sync> ToolProgress for RedactedProgress<'_, F> {
    fn report(&self, message: String) {
        let mut message = message;
        (self.known)().clean_string(&mut message);
        self.inner.report(message);
    }

    fn update(&self, partial: Vec<Content>) {
        let mut partial = partial;
        (self.known)().clean_contents(&mut partial);
        self.inner.update(partial);
    }

    fn log(&self, level: LogLevel, line: String) {
        let mut line = line;
        (self.known)().clean_string(&mut line);
        self.inner.log(level, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_protocol::authority::Authority;
    use pinion_protocol::definition::{Execution, ToolSource};
    use pinion_protocol::output::ToolError;
    use secrecy::SecretString;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    const SECRET: &str = "Zq7Xw3Vb9Nm2Kp5Ld8RtHj4G";

    /// Offers one tool, whose texts have a secret in them, and answers only calls of exactly this tool.
    struct Offering(Arc<ToolDefinition>);

    impl ToolExecutor for Offering {
        fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
            vec![self.0.clone()]
        }

        fn call<'a>(&'a self, call: ToolInvocation, _progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
            assert_eq!(call.tool, self.0);
            let answered = ToolError::Cancelled { tool: "answered".to_owned() };
            futures_util::future::ready(ToolReply { result: Err(answered), ledger: None }).boxed()
        }
    }

    struct Nobody;

    impl ToolProgress for Nobody {
        fn report(&self, _message: String) {}
        fn update(&self, _partial: Vec<Content>) {}
    }

    fn tools(definition: &str) -> RedactedTools {
        let secrets = Secrets::default();
        secrets.add(&SecretString::from(SECRET));
        let tool = ToolDefinition {
            name: "query".to_owned(),
            label: format!("query {SECRET}"),
            description: format!("Uses {SECRET}."),
            input_schema: json!({ "type": "object", "description": format!("with {SECRET}") }),
            guidelines: vec![format!("Send {SECRET}.")],
            authority: Authority::default(),
            execution: Execution::Parallel,
            source: ToolSource { definition: definition.into(), ..ToolSource::default() },
        };
        RedactedTools::new(Arc::new(Offering(Arc::new(tool))), secrets)
    }

    #[tokio::test]
    async fn texts_of_tools_that_change_are_redacted_and_their_calls_arrive() {
        let tools = tools("digest");
        let shown = tools.definitions().remove(0);
        assert!(!format!("{shown:?}").contains(&SECRET[8..]), "{shown:?}");
        assert_eq!(shown.description, "Uses [redacted].");
        let call = ToolInvocation {
            call_id: "1".to_owned(),
            session_id: "s".into(),
            run_id: "l".into(),
            tool: shown,
            arguments: json!({}),
            at_most: Authority::default(),
            agents: None,
            services: None,
            token: CancellationToken::new(),
        };
        let reply = tools.call(call, &Nobody).await;
        assert!(matches!(reply.result, Err(ToolError::Cancelled { .. })), "{:?}", reply.result);
    }

    #[test]
    fn tools_of_a_component_are_passed_on_as_they_are() {
        let tools = tools("");
        assert!(Arc::ptr_eq(&tools.definitions()[0], &tools.inner.definitions()[0]));
    }
}
