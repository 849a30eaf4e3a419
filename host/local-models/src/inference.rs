//! The interface to engines, and the generation of one reply.

use crate::call_machine::OPENING_TAG;
use crate::chat_template::ChatTemplate;
use crate::conversation::ModelPrompt;
use crate::error::LocalModelError;
use crate::pooling::EmbeddingPooling;
use crate::reply_events::EventWriter;
use crate::reply_machine::ReplyMachine;
use crate::sampling::{Sampler, SamplingSettings};
use crate::tokenizer::Tokenizer;
use pinion_protocol::{Message, Request, StopReason, StreamEvent, Usage};

/// The share of the probability from which on the opening tag of a call begins one, in models that were not trained with
/// tools. They know the tag from the system prompt only, and mostly prefer to write about the call. For SmolLM2-135M, prompts
/// to read a file give it 0.4 % and more, and other prompts and results 0.1 % and less.
const MIN_CALL_SHARE: f32 = 1.0 / 500.0;

/// The weights of a model, shared by all sessions.
pub trait ModelWeights: Send + Sync {
    /// Starts a session without tokens.
    fn start(&self) -> Box<dyn InferenceSession>;
}

/// The state of a model after some tokens.
pub trait InferenceSession: Send {
    /// Returns the tokens that the state stands for.
    fn tokens(&self) -> &[u32];

    /// Goes back to the state after the first `count` tokens.
    fn truncate(&mut self, count: usize);

    /// Appends tokens, at least one, and returns the scores of the next token. Asks `is_cancelled` often.
    ///
    /// # Errors
    /// The engine fails, or the request was cancelled; the state then stands for its own tokens still.
    fn append(&mut self, tokens: &[u32], is_cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, LocalModelError>;

    /// Appends the tokens of a text, at least one, and returns the vector that stands for them. Asks `is_cancelled` often.
    ///
    /// # Errors
    /// The engine fails, or the request was cancelled; the session is of no use then.
    fn pooled(
        &mut self,
        tokens: &[u32],
        pooling: EmbeddingPooling,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, LocalModelError>;
}

/// A model in memory.
pub struct LoadedModel {
    /// The vocabulary.
    pub tokenizer: Tokenizer,
    /// The form of conversations.
    pub template: ChatTemplate,
    /// The tokens of the context window.
    pub window: usize,
    /// The form of embeddings; `None` if the model was not made for them.
    pub pooling: Option<EmbeddingPooling>,
    /// The weights.
    pub weights: Box<dyn ModelWeights>,
}

/// Returns the settings of a request.
fn sampling(request: &Request) -> SamplingSettings {
    let usual = SamplingSettings::default();
    let temperature = request.options.temperature.map_or(usual.temperature, |temperature| temperature as f32);
    SamplingSettings { temperature: temperature.clamp(0.0, 2.0), ..usual }
}

/// Generates the reply to a request, and passes its events to `emit`, which returns `false` when they are not wanted
/// any more.
///
/// # Errors
/// The conversation is too long, the engine fails, or the request was cancelled.
pub(crate) fn generate(
    model: &LoadedModel,
    session: &mut dyn InferenceSession,
    prompt: &ModelPrompt,
    request: &Request,
    is_cancelled: &dyn Fn() -> bool,
    emit: &mut dyn FnMut(StreamEvent) -> bool,
) -> Result<(), LocalModelError> {
    let count = prompt.tokens.len();
    if count == 0 || count >= model.window {
        return Err(LocalModelError::Window { tokens: count, window: model.window });
    }
    let limit =
        request.options.max_output_tokens.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let limit = limit.min(model.window - count);
    let shared = session.tokens().iter().zip(&prompt.tokens).take_while(|(old, new)| old == new).count();
    let shared = shared.min(count - 1);
    session.truncate(shared);
    let mut usage = Usage { input: (count - shared) as u64, cache_read: shared as u64, ..Usage::default() };
    let mut emit_all = |events: Vec<StreamEvent>| match events.into_iter().all(&mut *emit) {
        true => Ok(()),
        false => Err(LocalModelError::Cancelled),
    };
    emit_all(vec![StreamEvent::Start { model: None }])?;
    let mut scores = session.append(&prompt.tokens[shared..], is_cancelled)?;
    emit_all(vec![StreamEvent::Usage(usage)])?;

    let follows_user = matches!(request.messages.last().map(|message| &**message), Some(Message::User(_)));
    let is_reluctant = !model.template.knows_tools() && !prompt.tools.is_empty() && !prompt.must_call && follows_user;
    let must_call = prompt.must_call || (is_reluctant && begins_call(model, session, &scores, is_cancelled)?);
    let mut machine = ReplyMachine::new(prompt.tools.clone(), must_call, prompt.is_thinking);
    let mut writer = EventWriter::new(format!("local_{count}"));
    let mut sampler = Sampler::new(sampling(request));
    let mut stop_reason = StopReason::Length;
    for _ in 0..limit {
        if is_cancelled() {
            return Err(LocalModelError::Cancelled);
        }
        let allows = |token| allows(&model.tokenizer, &machine, token);
        let is_penalized = !machine.is_calling();
        let Some(token) = sampler.next(std::mem::take(&mut scores), is_penalized, &allows) else {
            return Err(LocalModelError::Inference("no token of the vocabulary can follow".to_owned()));
        };
        usage.output += 1;
        if model.tokenizer.is_ending(token) {
            stop_reason = if machine.has_called() { StopReason::ToolUse } else { StopReason::Stop };
            break;
        }
        machine.accept(model.tokenizer.piece(token), &mut |piece| writer.write(piece));
        emit_all(writer.take_events())?;
        scores = session.append(&[token], is_cancelled)?;
    }
    machine.finish(&mut |piece| writer.write(piece));
    let mut last = writer.finish();
    last.extend([StreamEvent::Usage(usage), StreamEvent::End { stop_reason }]);
    emit_all(last)
}

/// Returns whether the opening tag of a call is likely enough to follow. Leaves the session as it was.
fn begins_call(
    model: &LoadedModel,
    session: &mut dyn InferenceSession,
    scores: &[f32],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<bool, LocalModelError> {
    let count = session.tokens().len();
    let tag = model.tokenizer.encode_bare(OPENING_TAG);
    let mut share = 1.0;
    let mut scores = std::borrow::Cow::Borrowed(scores);
    for token in tag {
        share *= probability(&scores, token);
        if share < MIN_CALL_SHARE || session.tokens().len() >= model.window {
            break;
        }
        scores = session.append(&[token], is_cancelled)?.into();
    }
    session.truncate(count);
    Ok(share >= MIN_CALL_SHARE)
}

/// Returns the probability of a token.
fn probability(scores: &[f32], token: u32) -> f32 {
    let top = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - top).exp()).sum();
    scores.get(token as usize).map_or(0.0, |score| (score - top).exp() / sum)
}

fn allows(tokenizer: &Tokenizer, machine: &ReplyMachine, token: u32) -> bool {
    if tokenizer.is_ending(token) {
        return machine.may_end();
    }
    let piece = tokenizer.piece(token);
    !piece.is_empty() && machine.allows(piece)
}
