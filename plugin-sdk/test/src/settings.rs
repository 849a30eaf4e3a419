//! The settings of the plugin under test, which a test may change.

use pinion_plugin_runtime::{Component, LoadError, PluginPolicy, PluginSettings};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Decides on the grants of the plugin: always the same, with the settings of the moment.
#[derive(Debug)]
pub(crate) struct Settings {
    current: Mutex<PluginSettings>,
    /// A file whose changes tell the runtime that the settings have changed.
    file: PathBuf,
}

impl Settings {
    pub(crate) fn start(settings: PluginSettings, file: PathBuf) -> io::Result<Self> {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&file, "")?;
        Ok(Self { current: Mutex::new(settings), file })
    }

    /// Replaces the plugin's section of the config.
    pub(crate) fn change(&self, config: Value) -> io::Result<()> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).config = config;
        self.tell()
    }

    /// Makes the runtime reload the plugin although its settings stay the same.
    pub(crate) fn touch(&self) -> io::Result<()> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // A setting that only the words of a refusal depend on.
        current.hint = match current.hint {
            None => Some("grant it in the test".to_owned()),
            Some(_) => None,
        };
        drop(current);
        self.tell()
    }

    fn tell(&self) -> io::Result<()> {
        // Another file, because two writes may have the same time.
        let new = self.file.with_extension("new");
        fs::write(&new, "")?;
        fs::rename(new, &self.file)
    }
}

impl PluginPolicy for Settings {
    fn settings(&self, _: &Component<'_>) -> Result<PluginSettings, LoadError> {
        Ok(self.current.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }
}
