//! Slots: the sources of plugins, in the order of their addition, each with its current generation.

use crate::load_error::LoadError;
use crate::loading::source::{FileOrigin, PluginSource, Stamp};
use crate::registry::load_attempt::{FileState, LoadAttempt};
use crate::registry::loaded::Loaded;
use crate::registry::notice::{Notice, NoticeEvent};
use pinion_plugin_limits::Share;
use std::borrow::Cow;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A source of a plugin, loaded or not.
pub(crate) struct PluginSlot {
    /// Identifies the slot; the number is unique among all slots and attempts.
    pub(super) number: u64,
    pub(super) source: PluginSource,
    /// The plugin's share of the resources that all plugins need; an error when there are too many plugins.
    pub(super) share: Result<Arc<Share>, LoadError>,
    /// The state of the file when the last attempt began.
    pub(super) stamp: Option<Stamp>,
    pub(super) loaded: Option<Arc<Loaded>>,
    /// Asks the current generation for its offer while it runs.
    pub(super) offers: Option<OfferTask>,
    pub(super) problem: Option<LoadError>,
    pub(super) generations: u32,
    /// The load that is under way.
    pub(super) attempt: Option<LoadAttempt>,
    /// The first load has ended.
    pub(super) is_settled: bool,
    /// The file was being written to during the whole last attempt.
    pub(super) is_restless: bool,
    /// The file is missing since then, and may come back: a build can remove it first.
    pub(super) missing_since: Option<Instant>,
}

impl PluginSlot {
    pub(super) fn new(number: u64, source: PluginSource, share: Result<Arc<Share>, LoadError>) -> Self {
        Self {
            number,
            source,
            share,
            stamp: None,
            loaded: None,
            offers: None,
            problem: None,
            generations: 0,
            attempt: None,
            is_settled: false,
            is_restless: false,
            missing_since: None,
        }
    }

    /// The plugin's name. While that is unknown, the file's name with its extension, which no plugin can have.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match (&self.loaded, &self.source) {
            (Some(loaded), _) => Cow::Borrowed(&loaded.program().name),
            (None, PluginSource::File { path, .. }) => path.file_name().unwrap_or_default().to_string_lossy(),
            (None, PluginSource::BuiltIn { name, .. }) => Cow::Borrowed(name),
        }
    }

    /// Returns whether a plugin was left out because the user disabled it, which is not worth a notice.
    pub(super) fn is_disabled(&self, error: &LoadError) -> bool {
        let is_named = matches!(&self.source, PluginSource::File { origin: FileOrigin::Named, .. });
        matches!(error, LoadError::Disabled(_)) && self.loaded.is_none() && !is_named
    }

    /// Returns whether the file has changed since the last attempt. One `stat`.
    pub(super) fn is_changed(&self) -> bool {
        self.source.has_changed_since(self.stamp)
    }

    /// Returns whether there is neither a generation nor a file.
    pub(super) fn is_gone(&self) -> bool {
        self.loaded.is_none() && self.stamp.is_none() && self.source.path().is_some()
    }

    /// Returns whether the current generation has no code yet.
    pub(super) fn is_described(&self) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| loaded.generation.is_described())
    }

    /// Records that the attempt has ended, and the file as it found it.
    pub(super) fn end_attempt(&mut self, state: FileState) {
        // Aborts the task of the attempt, which has no effect because it awaits nothing any more.
        self.attempt = None;
        self.stamp = state.stamp;
        if state.stamp.is_some() {
            self.missing_since = None;
        }
        self.is_restless = state.is_restless;
    }

    /// Makes a generation the current one. Returns the notices about it: empty when it only adds the code to the
    /// current one.
    pub(super) fn accept(&mut self, loaded: Arc<Loaded>) -> Vec<Notice> {
        self.problem = None;
        self.is_settled = true;
        let number = loaded.generation.program.number;
        if self.is_described() && self.generations == number {
            self.replace(Some(loaded));
            return Vec::new();
        }
        self.generations = number;
        let version = loaded.generation.inspection.manifest.version.clone();
        let held_back = loaded.generation.held_back.clone().map(NoticeEvent::HeldBack);
        self.replace(Some(loaded));
        self.offers = None;
        let events = [Some(NoticeEvent::Loaded { generation: self.generations, version }), held_back];
        events.into_iter().flatten().map(|event| self.notice(event)).collect()
    }

    /// Records that the last attempt failed. The current generation stays, if it has code.
    pub(super) fn refuse(&mut self, error: LoadError) -> Notice {
        self.is_settled = true;
        self.problem = Some(error.clone());
        let notice = self.notice(NoticeEvent::Refused(error));
        if self.is_described() {
            self.loaded = None;
        }
        notice
    }

    /// Removes the current generation, because its file is gone. The slot stays, for a file that comes back.
    pub(super) fn remove(&mut self) -> Notice {
        let notice = self.notice(NoticeEvent::Removed);
        self.replace(None);
        (self.problem, self.offers, self.missing_since, self.is_settled) = (None, None, None, true);
        notice
    }

    /// Removes the current generation, because an earlier slot takes its name.
    pub(super) fn displace(&mut self, error: LoadError) -> Notice {
        let notice = self.refuse(error);
        self.replace(None);
        self.offers = None;
        notice
    }

    /// Replaces the current generation, whose idle instances get no more calls.
    fn replace(&mut self, loaded: Option<Arc<Loaded>>) {
        let before = std::mem::replace(&mut self.loaded, loaded);
        if let Some(idle) = before.as_ref().and_then(|before| before.program().idle.as_ref()) {
            idle.close();
        }
    }

    pub(super) fn notice(&self, event: NoticeEvent) -> Notice {
        Notice { plugin: self.name().into_owned(), source: self.source.to_string(), event }
    }
}

/// Asks a plugin for its offer, until this is dropped.
pub(super) struct OfferTask {
    task: JoinHandle<()>,
    /// Its sender is dropped once the first answer is in effect.
    first: watch::Receiver<()>,
}

impl OfferTask {
    pub(super) fn new(task: JoinHandle<()>, first: watch::Receiver<()>) -> Self {
        Self { task, first }
    }

    /// Returns a future that ends once the first answer is in effect.
    pub(super) fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut first = self.first.clone();
        async move { while first.changed().await.is_ok() {} }
    }
}

impl Drop for OfferTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}
