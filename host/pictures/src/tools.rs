//! A tool executor whose pictures models accept.

use crate::fit;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use pinion_protocol::content::Content;
use pinion_protocol::definition::{Instructions, ToolDefinition};
use pinion_protocol::tool::{ToolExecutor, ToolInvocation, ToolProgress, ToolReply};
use std::sync::Arc;

/// Maximum number of pictures of a result that are scaled; the loop drops further ones.
const MAX_SCALED: usize = 16;

/// An executor that replaces pictures in results by smaller copies if models would refuse their size. A text after each
/// copy names both sizes, because the model may have to name coordinates of the original.
pub struct FittingTools {
    inner: Arc<dyn ToolExecutor>,
}

impl FittingTools {
    /// Wraps an executor.
    pub fn new(inner: Arc<dyn ToolExecutor>) -> Self {
        Self { inner }
    }
}

impl ToolExecutor for FittingTools {
    fn definitions(&self) -> Vec<Arc<ToolDefinition>> {
        self.inner.definitions()
    }

    fn instructions(&self) -> Vec<Instructions> {
        self.inner.instructions()
    }

    fn call<'a>(&'a self, call: ToolInvocation, progress: &'a dyn ToolProgress) -> BoxFuture<'a, ToolReply> {
        async move {
            let mut reply = self.inner.call(call, progress).await;
            if let Ok(output) = &mut reply.result
                && output.content.iter().any(is_unfit)
            {
                let content = std::mem::take(&mut output.content);
                let fitted = tokio::task::spawn_blocking(|| fit_all(content)).await;
                output.content = fitted.unwrap_or_else(|_| vec![Content::text("[images were left out]")]);
            }
            reply
        }
        .boxed()
    }
}

fn is_unfit(part: &Content) -> bool {
    matches!(part, Content::Image(image) if image.check().is_err())
}

/// Replaces pictures that models would refuse. A picture without a smaller copy becomes a text with the reason.
fn fit_all(content: Vec<Content>) -> Vec<Content> {
    let mut fitted = Vec::new();
    let mut remaining = MAX_SCALED;
    for part in content {
        match part {
            Content::Image(image) if remaining > 0 && image.check().is_err() => {
                remaining -= 1;
                match fit(image) {
                    Ok(copy) => {
                        fitted.push(Content::Image(copy.image));
                        let note = copy.scaled.map(|sizes| Content::text(format!("[scaled down from {sizes}]")));
                        fitted.extend(note);
                    }
                    Err(problem) => fitted.push(Content::text(format!("[an image was left out: {problem}]"))),
                }
            }
            part => fitted.push(part),
        }
    }
    fitted
}
