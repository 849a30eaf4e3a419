//! The context windows that servers report, for models without one in the config.
//!
//! A conversation asks its server once, in the background, and keeps the answer in the cache for the start of the next one.

use crate::files::paths::Paths;
use crate::files::private::{create_directory, open_file, replace};
use crate::model::Chosen;
use crate::workspace_base::Base;
use pinion_agent::Agent;
use pinion_agent::provider::ProviderError;
use pinion_providers::ServedWindow;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a kept answer.
const MAX_ANSWER: u64 = 32;
/// Maximum age of an answer that was not given again.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// An answer that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KnownWindow {
    Tokens(u64),
    /// The server does not say.
    Untold,
    /// The server has not been asked.
    Unasked,
}

/// Returns the answer that was kept.
pub(super) fn known(paths: &Paths, window: &ServedWindow) -> KnownWindow {
    let mut text = String::new();
    let file = open_file(&file(paths, &window.key())).ok();
    let is_read = file.is_some_and(|file| file.take(MAX_ANSWER).read_to_string(&mut text).is_ok());
    match Some(text).filter(|_| is_read).and_then(|text| text.trim().parse().ok()) {
        None => KnownWindow::Unasked,
        Some(0) => KnownWindow::Untold,
        Some(tokens) => KnownWindow::Tokens(tokens),
    }
}

impl Base {
    /// Asks the server of a model how large its context window is, without waiting, and tells the agent.
    pub fn learn_window(&self, window: Option<Arc<ServedWindow>>, agent: &Arc<Agent>) {
        let Some(window) = window else { return };
        let model = agent.config().policy.model.name.clone();
        let (agent, paths) = (Arc::downgrade(agent), self.paths.clone());
        drop(tokio::spawn(async move {
            let answer = match window.ask().await {
                Ok(answer) => answer,
                Err(error @ ProviderError::Network { .. }) => {
                    return tracing::debug!(%error, "the server was not asked for the context window");
                }
                // It has no list of models, or a list in an unknown form.
                Err(_) => None,
            };
            if let Err(error) = keep(&paths, &window.key(), answer) {
                tracing::debug!(%error, "the context window is not kept");
            }
            let (Some(tokens), Some(agent)) = (answer, agent.upgrade()) else { return };
            agent.configure(|config| {
                let known = &mut config.policy.model;
                if known.name == model {
                    known.context_window = Some(tokens);
                }
            });
        }));
    }
}

impl Chosen {
    /// Takes over the window that the server told before. Returns whether it is unknown, and the server had the chance to tell.
    pub(super) fn take_known_window(&mut self, paths: &Paths) -> bool {
        let known = self.window.as_ref().map_or(KnownWindow::Untold, |window| known(paths, window));
        match known {
            KnownWindow::Tokens(tokens) => {
                self.model.context_window = Some(tokens);
                false
            }
            KnownWindow::Untold => self.model.context_window.is_none(),
            KnownWindow::Unasked => false,
        }
    }
}

fn file(paths: &Paths, key: &str) -> PathBuf {
    paths.windows().join(&blake3::hash(key.as_bytes()).to_hex()[..32])
}

/// Keeps an answer, and removes old ones.
fn keep(paths: &Paths, key: &str, answer: Option<u64>) -> io::Result<()> {
    create_directory(&paths.windows())?;
    for entry in std::fs::read_dir(paths.windows())?.flatten() {
        let age = entry.metadata().and_then(|found| found.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > MAX_AGE) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    replace(&file(paths, key), answer.unwrap_or(0).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_kept_until_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let paths = Paths { config: root.clone(), data: root.clone(), cache: root.join("cache") };
        let info = pinion_providers::provider("openrouter").unwrap();
        let of = |model: &str| {
            let (config, context) = Default::default();
            ServedWindow::from_config(info, config, model, &context).unwrap().unwrap()
        };
        let (one, other) = (of("one"), of("other"));
        assert_eq!(known(&paths, &one), KnownWindow::Unasked);
        keep(&paths, &one.key(), Some(32_768)).unwrap();
        keep(&paths, &other.key(), None).unwrap();
        assert_eq!((known(&paths, &one), known(&paths, &other)), (KnownWindow::Tokens(32_768), KnownWindow::Untold));
        keep(&paths, &one.key(), Some(8_192)).unwrap();
        assert_eq!(known(&paths, &one), KnownWindow::Tokens(8_192));
        std::fs::write(file(&paths, &one.key()), "x".repeat(100)).unwrap();
        assert_eq!(known(&paths, &one), KnownWindow::Unasked);
    }
}
