//! Tests of the provider with a made-up model, which writes a given text whatever the prompt says.

use crate::chat_template::ChatTemplate;
use crate::error::LocalModelError;
use crate::gguf::GgufHeader;
use crate::inference::{InferenceSession, LoadedModel, ModelWeights};
use crate::model_host::{LocalProvider, ModelHost, ModelState};
use crate::pooling::EmbeddingPooling;
use crate::test_files::tiny_model;
use crate::test_requests::{request, tool_conversation};
use crate::tokenizer::Tokenizer;
use futures_util::StreamExt as _;
use pinion_protocol::{PartKind, Provider as _, ProviderError, Request, StopReason, StreamEvent, ToolChoice, Usage};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The end of a message in the vocabulary of the tests.
const END: u32 = 2;

/// Wants to write one token after the other, whatever the prompt is.
#[derive(Clone)]
struct Writer {
    wanted: Arc<Vec<u32>>,
    tokens: Vec<u32>,
    /// Tokens of the prompt.
    prompt: usize,
}

impl ModelWeights for Writer {
    fn start(&self) -> Box<dyn InferenceSession> {
        Box::new(self.clone())
    }
}

impl InferenceSession for Writer {
    fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    fn truncate(&mut self, count: usize) {
        self.tokens.truncate(count);
        if count < self.prompt {
            self.prompt = 0;
        }
    }

    fn append(&mut self, tokens: &[u32], is_cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, LocalModelError> {
        if is_cancelled() {
            return Err(LocalModelError::Cancelled);
        }
        self.tokens.extend(tokens);
        if self.prompt == 0 {
            self.prompt = self.tokens.len();
        }
        let next = self.wanted.get(self.tokens.len() - self.prompt).copied().unwrap_or(END);
        let mut scores = vec![-1.0; 300];
        scores[next as usize] = 1.0;
        Ok(scores)
    }

    /// Returns the numbers of tokens before and in the text.
    fn pooled(
        &mut self,
        tokens: &[u32],
        pooling: EmbeddingPooling,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, LocalModelError> {
        assert_eq!(pooling, EmbeddingPooling::Last);
        match is_cancelled() {
            true => Err(LocalModelError::Cancelled),
            false => Ok(vec![self.tokens.len() as f32, tokens.len() as f32, 0.5]),
        }
    }
}

fn host(text: &str, loads: &Arc<AtomicUsize>, idle: Duration) -> Arc<ModelHost> {
    let (text, loads) = (text.to_owned(), loads.clone());
    let load = move || {
        if loads.fetch_add(1, Ordering::SeqCst) == 0 && text == "broken" {
            return Err(LocalModelError::Inference("no luck".to_owned()));
        }
        let file = tiny_model();
        let header = GgufHeader::read(&file[..], file.len() as u64).unwrap();
        let tokenizer = Tokenizer::from_header(&header).unwrap();
        let wanted = Arc::new(tokenizer.encode(&text));
        let weights = Box::new(Writer { wanted, tokens: Vec::new(), prompt: 0 });
        let pooling = (text != "no embeddings").then_some(EmbeddingPooling::Last);
        Ok(LoadedModel { tokenizer, template: ChatTemplate::new(None)?, window: 4096, pooling, weights })
    };
    ModelHost::new(Arc::new(load), idle)
}

fn writer(text: &str) -> LocalProvider {
    LocalProvider::new(host(text, &Arc::default(), Duration::from_secs(60)))
}

async fn reply(provider: &LocalProvider, request: Request) -> Vec<Result<StreamEvent, ProviderError>> {
    provider.stream(request, CancellationToken::new()).collect().await
}

/// Returns the deltas of parts of a kind, the stop reason and the usage.
fn summary(events: &[Result<StreamEvent, ProviderError>]) -> (Vec<(PartKind, String)>, Option<StopReason>, Usage) {
    let (mut parts, mut stop, mut usage): (Vec<(PartKind, String)>, _, _) = (Vec::new(), None, Usage::default());
    for event in events {
        match event.as_ref().unwrap() {
            StreamEvent::PartStart { index, part } => {
                assert_eq!(*index, parts.len());
                parts.push((part.clone(), String::new()));
            }
            StreamEvent::Delta { index, delta } => parts[*index].1.push_str(delta),
            StreamEvent::Usage(counted) => usage = *counted,
            StreamEvent::End { stop_reason } => stop = Some(*stop_reason),
            StreamEvent::Start { .. } | StreamEvent::PartEnd { .. } => {}
        }
    }
    (parts, stop, usage)
}

#[tokio::test]
async fn text_and_thinking_are_streamed_and_counted() {
    let provider = writer("<think>hm</think>\n\nhello the read");
    let events = reply(&provider, request("hi")).await;
    assert!(matches!(events[0], Ok(StreamEvent::Start { .. })));
    let (parts, stop, usage) = summary(&events);
    let expected = [(PartKind::Thinking, "hm".to_owned()), (PartKind::Text, "hello the read".to_owned())];
    assert_eq!((parts, stop), (expected.to_vec(), Some(StopReason::Stop)));
    assert!(usage.input > 0 && usage.output > 4 && usage.cache_read == 0);
    let usage = summary(&reply(&provider, request("hi")).await).2;
    assert_eq!((usage.input, usage.cache_read > 100), (1, true), "the prompt is read once");
}

#[tokio::test]
async fn calls_follow_the_schema_whatever_the_model_wants() {
    let provider = writer(
        "Look.\n<tool_call>\n{\"name\": \"reader\", \"arguments\": {\"file\": 1, \"path\": \"a\"}}\n</tool_call>",
    );
    let mut forced = request("read a");
    forced.options.max_output_tokens = Some(400);
    for choice in [ToolChoice::Auto, ToolChoice::Any] {
        forced.tool_choice = choice;
        let (parts, stop, _) = summary(&reply(&provider, forced.clone()).await);
        let call = parts.iter().find_map(|(kind, text)| match kind {
            PartKind::ToolCall { name, .. } => Some((name.as_str(), text.as_str())),
            _ => None,
        });
        let (name, arguments) = call.unwrap();
        assert_eq!(name, "read");
        if stop == Some(StopReason::ToolUse) {
            let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
            assert!(arguments["path"].is_string(), "{arguments}");
        } else {
            assert!(arguments.starts_with("{\"path\":"), "{arguments}");
        }
    }
}

#[tokio::test]
async fn well_formed_call_ends_the_reply_with_tool_use() {
    let provider = writer("<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"hello\"}}\n</tool_call>");
    let (parts, stop, _) = summary(&reply(&provider, tool_conversation()).await);
    assert_eq!((parts.len(), stop), (1, Some(StopReason::ToolUse)));
    assert_eq!(parts[0].1, "{\"path\": \"hello\"}");
    let mut none = request("hi");
    none.tool_choice = ToolChoice::None;
    let (parts, stop, _) = summary(&reply(&provider, none).await);
    assert_eq!((&parts[0].0, stop), (&PartKind::Text, Some(StopReason::Stop)));
}

#[tokio::test]
async fn output_limit_and_window_end_replies() {
    let provider = writer("hello the read hello the read");
    let mut short = request("hi");
    short.options.max_output_tokens = Some(2);
    let (_, stop, usage) = summary(&reply(&provider, short).await);
    assert_eq!((stop, usage.output), (Some(StopReason::Length), 2));
    let long = request(&"x1 ".repeat(3000));
    let events = reply(&provider, long).await;
    assert!(matches!(events[..], [Err(ProviderError::ContextOverflow { .. })]), "{events:?}");
}

#[tokio::test]
async fn cancelling_ends_the_reply_before_and_at_any_token() {
    let endless = "hello the ".repeat(300);
    let provider = writer(&endless);
    let token = CancellationToken::new();
    token.cancel();
    let events: Vec<_> = provider.stream(request("hi"), token).collect().await;
    assert!(matches!(events[..], [Err(ProviderError::Cancelled)]), "{events:?}");
    for seen in [1, 2, 3, 5, 40] {
        let token = CancellationToken::new();
        let mut events = provider.stream(request("hi"), token.clone());
        for _ in 0..seen {
            assert!(events.next().await.unwrap().is_ok());
        }
        token.cancel();
        let rest: Vec<_> = events.collect().await;
        assert!(matches!(rest.last(), Some(Err(ProviderError::Cancelled))), "after {seen}");
        assert_eq!(rest.iter().filter(|event| event.is_err()).count(), 1);
    }
    let mut dropped = provider.stream(request("hi"), CancellationToken::new());
    dropped.next().await.unwrap().unwrap();
    drop(dropped);
    // The next request gets its turn.
    let events = reply(&provider, request("hi")).await;
    assert!(matches!(events.last(), Some(Ok(StreamEvent::End { .. }))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_runs_share_one_model() {
    let loads = Arc::new(AtomicUsize::new(0));
    let host = host("hello", &loads, Duration::from_secs(60));
    assert_eq!(host.state(), ModelState::Unloaded);
    let runs = (0..6).map(|number| {
        let provider = LocalProvider::new(host.clone());
        tokio::spawn(async move { reply(&provider, request(&format!("run {number}"))).await })
    });
    for run in runs.collect::<Vec<_>>() {
        assert_eq!(summary(&run.await.unwrap()).1, Some(StopReason::Stop));
    }
    assert_eq!((loads.load(Ordering::SeqCst), host.state()), (1, ModelState::Ready));
}

#[tokio::test]
async fn failed_model_says_why_and_is_tried_again() {
    let host = host("broken", &Arc::default(), Duration::from_secs(60));
    let provider = LocalProvider::new(host.clone());
    let events = reply(&provider, request("hi")).await;
    assert!(matches!(&events[..], [Err(ProviderError::Api { message, .. })] if message.contains("no luck")));
    assert!(matches!(host.state(), ModelState::Failed(reason) if reason.contains("no luck")));
    assert_eq!(summary(&reply(&provider, request("hi")).await).1, Some(StopReason::Stop));
    assert_eq!(host.state(), ModelState::Ready);
}

#[tokio::test]
async fn idle_model_is_released_and_loaded_again() {
    let loads = Arc::new(AtomicUsize::new(0));
    let host = host("hello", &loads, Duration::from_millis(1));
    let provider = LocalProvider::new(host.clone());
    for _ in 0..2 {
        reply(&provider, request("hi")).await;
        while host.state() != ModelState::Unloaded {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(loads.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn texts_of_a_batch_have_separate_vectors_in_their_order() {
    let loads = Arc::default();
    let host = host("hello", &loads, Duration::from_secs(60));
    let token = CancellationToken::new();
    let one = host.embed(vec!["hello".into()], &token).await.unwrap();
    let batch = host.embed(vec!["the read".into(), "hello".into()], &token).await.unwrap();
    assert_eq!((batch.vectors.len(), &batch.vectors[1]), (2, &one.vectors[0]));
    assert!(batch.vectors[0] != batch.vectors[1] && batch.tokens > one.tokens);
    for vector in &batch.vectors {
        let length: f32 = vector.iter().map(|number| number * number).sum();
        // Each text begins without the tokens of the one before.
        assert!((length - 1.0).abs() < 1e-5 && vector[0] == 0.0, "{vector:?}");
    }
    assert_eq!((host.embed(Vec::new(), &token).await.unwrap().vectors.len(), loads.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test]
async fn texts_without_an_embedding_are_typed_errors() {
    let token = CancellationToken::new();
    let embed = async |model: &str, text: String, token: &CancellationToken| {
        host(model, &Arc::default(), Duration::from_secs(60)).embed(vec![text], token).await.unwrap_err()
    };
    assert!(matches!(embed("no embeddings", "x".into(), &token).await, LocalModelError::NoEmbeddings));
    assert!(matches!(
        embed("hello", "x".repeat(5_000), &token).await,
        LocalModelError::TextLength { window: 4096, .. }
    ));
    assert!(matches!(embed("hello", String::new(), &token).await, LocalModelError::TextLength { tokens: 0, .. }));
    token.cancel();
    assert!(matches!(embed("hello", "x".into(), &token).await, LocalModelError::Cancelled));
}
