//! A tool executor that redacts secrets.

use super::Secrets;
use crate::content::Content;
use crate::definition::{Instructions, ToolDefinition};
use crate::tool::{ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::borrow::Cow;
use std::sync::Arc;

/// An executor that redacts secrets in results, errors and progress.
pub struct RedactedTools {
    inner: Arc<dyn ToolExecutor>,
    secrets: Secrets,
}

impl RedactedTools {
    /// Wraps an executor.
    pub fn new(inner: Arc<dyn ToolExecutor>, secrets: Secrets) -> Self {
        Self { inner, secrets }
    }
}

impl ToolExecutor for RedactedTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.inner.definitions()
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
        async move {
            let progress = RedactedProgress { inner: progress, secrets: &self.secrets };
            let reply = self.inner.call(call, &progress).await;
            self.secrets.snapshot().clean_reply(reply)
        }
        .boxed()
    }
}

struct RedactedProgress<'a> {
    inner: &'a dyn ToolProgress,
    secrets: &'a Secrets,
}

impl ToolProgress for RedactedProgress<'_> {
    fn report(&self, message: String) {
        let mut message = message;
        self.secrets.snapshot().clean_string(&mut message);
        self.inner.report(message);
    }

    fn update(&self, partial: Vec<Content>) {
        let mut partial = partial;
        self.secrets.snapshot().clean_contents(&mut partial);
        self.inner.update(partial);
    }
}
