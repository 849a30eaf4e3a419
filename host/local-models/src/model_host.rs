//! The provider `local`, and the life of a model in memory.

use crate::conversation::ModelPrompt;
use crate::embedding::{TextEmbeddings, embed_texts};
use crate::error::LocalModelError;
use crate::inference::{InferenceSession, LoadedModel, generate};
use futures_util::StreamExt as _;
use futures_util::stream;
use pinion_protocol::{EventStream, Provider, ProviderError, Request, StreamEvent};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// The name of the provider.
pub const PROVIDER_NAME: &str = "local";
/// Sessions that are kept, so that the prompts of a conversation and of its sub-agents are read once.
const MAX_SESSIONS: usize = 2;
/// Events of a reply that may wait for their reader.
const MAX_WAITING_EVENTS: usize = 256;

/// The state of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelState {
    /// On disk only.
    Unloaded,
    /// Being read for the first request.
    Loading,
    /// In memory.
    Ready,
    /// Could not be loaded, for this reason. The next request tries again.
    Failed(String),
}

/// Loads a model.
pub type ModelLoader = Arc<dyn Fn() -> Result<LoadedModel, LocalModelError> + Send + Sync>;

/// A model that concurrent runs share. It is loaded for the first request, answers one request at a time, which uses all
/// processors, and is released when nothing has used it for a while.
pub struct ModelHost {
    loader: ModelLoader,
    idle: Duration,
    turn: Arc<Semaphore>,
    memory: Mutex<ModelMemory>,
}

struct ModelMemory {
    state: ModelState,
    model: Option<Arc<LoadedModel>>,
    sessions: Vec<Box<dyn InferenceSession>>,
    /// Requests so far.
    uses: u64,
}

impl ModelHost {
    /// Creates a host that releases its model after `idle`.
    pub fn new(loader: ModelLoader, idle: Duration) -> Arc<Self> {
        let memory = ModelMemory { state: ModelState::Unloaded, model: None, sessions: Vec::new(), uses: 0 };
        Arc::new(Self { loader, idle, turn: Arc::new(Semaphore::new(1)), memory: Mutex::new(memory) })
    }

    /// Returns the state of the model.
    pub fn state(&self) -> ModelState {
        self.memory().state.clone()
    }

    /// Returns the embeddings of texts: one or a batch. Waits for the model's turn. Dropping the future ends the work.
    ///
    /// # Errors
    /// The model cannot be loaded or was not made for embeddings, a text is empty or too long, or `token` was cancelled.
    pub async fn embed(
        self: &Arc<Self>,
        texts: Vec<String>,
        token: &CancellationToken,
    ) -> Result<TextEmbeddings, LocalModelError> {
        let Some(Ok(turn)) = token.run_until_cancelled(self.turn.clone().acquire_owned()).await else {
            return Err(LocalModelError::Cancelled);
        };
        let (host, own) = (self.clone(), token.child_token());
        let _ended_with_us = own.clone().drop_guard();
        let work = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let model = host.loaded()?;
            embed_texts(&model, &texts, &|| own.is_cancelled())
        });
        let outcome = work.await.unwrap_or_else(|_| Err(stopped()));
        self.release_later();
        outcome
    }

    fn memory(&self) -> MutexGuard<'_, ModelMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the model, which this loads if needed. Called by one request at a time.
    fn loaded(&self) -> Result<Arc<LoadedModel>, LocalModelError> {
        {
            let mut memory = self.memory();
            memory.uses += 1;
            if let Some(model) = &memory.model {
                return Ok(model.clone());
            }
            memory.state = ModelState::Loading;
        }
        let loaded = (self.loader)();
        let mut memory = self.memory();
        match loaded {
            Ok(model) => {
                let model = Arc::new(model);
                (memory.state, memory.model) = (ModelState::Ready, Some(model.clone()));
                Ok(model)
            }
            Err(error) => {
                memory.state = ModelState::Failed(error.to_string());
                Err(error)
            }
        }
    }

    /// Answers a request on the calling thread.
    fn answer(
        &self,
        request: &Request,
        is_cancelled: &dyn Fn() -> bool,
        emit: &mut dyn FnMut(StreamEvent) -> bool,
    ) -> Result<(), LocalModelError> {
        let model = self.loaded()?;
        let prompt = ModelPrompt::new(request, &model.template, &model.tokenizer)?;
        let mut session = self.session_for(&prompt.tokens, &model);
        let outcome = generate(&model, &mut *session, &prompt, request, is_cancelled, emit);
        let mut memory = self.memory();
        memory.sessions.insert(0, session);
        memory.sessions.truncate(MAX_SESSIONS);
        outcome
    }

    /// Takes the session that has most of the prompt, or a new one.
    fn session_for(&self, tokens: &[u32], model: &LoadedModel) -> Box<dyn InferenceSession> {
        let shared = |session: &dyn InferenceSession| {
            session.tokens().iter().zip(tokens).take_while(|(old, new)| old == new).count()
        };
        let mut memory = self.memory();
        let best = (0..memory.sessions.len()).max_by_key(|at| shared(&*memory.sessions[*at]));
        match best {
            // Half of a session is worth keeping for its own conversation.
            Some(at) if shared(&*memory.sessions[at]) * 2 >= memory.sessions[at].tokens().len() => {
                memory.sessions.remove(at)
            }
            _ => model.weights.start(),
        }
    }

    /// Releases the model once nothing has used it for a while.
    fn release_later(self: &Arc<Self>) {
        let uses = self.memory().uses;
        let host = Arc::downgrade(self);
        let idle = self.idle;
        tokio::spawn(async move {
            tokio::time::sleep(idle).await;
            let Some(host) = host.upgrade() else { return };
            let Ok(_turn) = host.turn.try_acquire() else { return };
            let mut memory = host.memory();
            if memory.uses == uses && memory.model.is_some() {
                memory.sessions.clear();
                (memory.state, memory.model) = (ModelState::Unloaded, None);
            }
        });
    }
}

/// A provider whose model runs in this process.
pub struct LocalProvider {
    host: Arc<ModelHost>,
}

impl LocalProvider {
    /// Creates a provider for one model.
    pub fn new(host: Arc<ModelHost>) -> Self {
        Self { host }
    }
}

type ReplyEvent = Result<StreamEvent, ProviderError>;

impl Provider for LocalProvider {
    fn name(&self) -> &str {
        PROVIDER_NAME
    }

    fn stream(&self, request: Request, token: CancellationToken) -> EventStream {
        let host = self.host.clone();
        let begun = async move {
            let (sender, receiver) = mpsc::channel(MAX_WAITING_EVENTS);
            // Dropping the stream drops the guard, which ends the work.
            let own = token.child_token();
            let guard = own.clone().drop_guard();
            tokio::spawn(drive(host, request, own, sender));
            stream::unfold(Some((receiver, guard)), |open| async move {
                let (mut receiver, guard): (mpsc::Receiver<ReplyEvent>, _) = open?;
                let event = receiver.recv().await?;
                let open = event.is_ok().then_some((receiver, guard));
                Some((event, open))
            })
        };
        stream::once(begun).flatten().boxed()
    }
}

/// Waits for the model's turn, and answers on a thread for blocking work.
async fn drive(host: Arc<ModelHost>, request: Request, token: CancellationToken, sender: mpsc::Sender<ReplyEvent>) {
    let turn = token.run_until_cancelled(host.turn.clone().acquire_owned()).await;
    let outcome = match turn {
        Some(Ok(turn)) => token.run_until_cancelled(answer(host.clone(), turn, request, &token, &sender)).await,
        _ => None,
    };
    let error = match outcome {
        Some(Ok(())) => None,
        Some(Err(error)) => Some(error),
        None => Some(LocalModelError::Cancelled),
    };
    if let Some(error) = error {
        // A reader that is gone needs no error.
        let _ = sender.send(Err(error.into_provider_error())).await;
    }
    host.release_later();
}

async fn answer(
    host: Arc<ModelHost>,
    turn: OwnedSemaphorePermit,
    request: Request,
    token: &CancellationToken,
    sender: &mpsc::Sender<ReplyEvent>,
) -> Result<(), LocalModelError> {
    let (token, sender) = (token.clone(), sender.clone());
    let work = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let is_cancelled = || token.is_cancelled() || sender.is_closed();
        host.answer(&request, &is_cancelled, &mut |event| !is_cancelled() && sender.blocking_send(Ok(event)).is_ok())
    });
    work.await.unwrap_or_else(|_| Err(stopped()))
}

/// Returns the error of work that panicked.
fn stopped() -> LocalModelError {
    LocalModelError::Inference("the engine stopped unexpectedly".to_owned())
}
