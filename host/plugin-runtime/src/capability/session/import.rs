//! The import `session`. Every function works only on the conversation that made the call.

use super::{MAX_TITLES, Session, SessionAccess};
use crate::bindings::pinion::plugin::session::{self, Entry, SessionError};
use crate::calls::state::State;
use pinion_plugin_journal::linker::Linker;
use pinion_protocol::text::printable;
use pinion_protocol::{Services, SessionAccessError};
use wasmtime::component::HasSelf;

/// Entries, and bytes of them, that one call of `entries` returns.
const MAX_ENTRIES: u32 = 1_000;
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the data of an entry, and of a title.
const MAX_DATA: usize = 64 * 1024;
const MAX_TITLE: usize = 200;

pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    session::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

impl session::Host for State {
    async fn entries(
        &mut self,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<Entry>, SessionError>> {
        let services = match self.conversation(SessionAccess::Read) {
            Ok(services) => services,
            Err(error) => return Ok(Err(error)),
        };
        if !(1..=MAX_ENTRIES).contains(&limit) {
            return Ok(Err(SessionError::Invalid(format!("the limit must be 1 to {MAX_ENTRIES}, not {limit}"))));
        }
        let entries = services.session().entries(after.as_deref(), limit as usize, MAX_BYTES);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return Ok(Err(self::error(error))),
        };
        self.spend_output(entries.iter().map(|entry| entry.data.len()).sum())?;
        Ok(Ok(entries.into_iter().map(|entry| Entry { id: entry.id, data: services.clean(&entry.data) }).collect()))
    }

    async fn append(&mut self, data: String) -> wasmtime::Result<Result<String, SessionError>> {
        self.spend_output(data.len())?;
        let services = match self.conversation(SessionAccess::Write) {
            Ok(services) => services,
            Err(error) => return Ok(Err(error)),
        };
        if data.len() > MAX_DATA {
            let text = format!("data of {} bytes, of at most {MAX_DATA}", data.len());
            return Ok(Err(SessionError::Invalid(text)));
        }
        let data = match serde_json::from_str(&services.clean(&data)) {
            Ok(data) => data,
            Err(problem) => return Ok(Err(SessionError::Invalid(format!("the data is not JSON: {problem}")))),
        };
        Ok(services.session().append_of_plugin(&self.plugin, data).map_err(error))
    }

    async fn title(&mut self) -> wasmtime::Result<Result<Option<String>, SessionError>> {
        let services = match self.conversation(SessionAccess::Read) {
            Ok(services) => services,
            Err(error) => return Ok(Err(error)),
        };
        Ok(services.session().title().map_err(error))
    }

    async fn set_title(&mut self, title: String) -> wasmtime::Result<Result<(), SessionError>> {
        self.spend_output(title.len())?;
        let services = match self.conversation(SessionAccess::Write) {
            Ok(services) => services,
            Err(error) => return Ok(Err(error)),
        };
        let is_line = !title.trim().is_empty() && !title.chars().any(char::is_control);
        if title.len() > MAX_TITLE || !is_line {
            let text = format!("a title must be one line of 1 to {MAX_TITLE} bytes without control characters");
            return Ok(Err(SessionError::Invalid(text)));
        }
        let titles = &mut self.account.capabilities.session.titles;
        if *titles >= MAX_TITLES {
            return Ok(Err(SessionError::Invalid(format!("this call has set {MAX_TITLES} titles, the maximum"))));
        }
        *titles += 1;
        Ok(services.session().set_title(&services.clean(&printable(&title))).map_err(error))
    }
}

impl State {
    /// Checks that the call may read its conversation.
    ///
    /// # Errors
    /// It may not; the text says how the user can grant it.
    pub(crate) fn check_reads_session(&self) -> Result<(), String> {
        let authority = &self.call.authority;
        match authority.allows::<Session>() {
            true => Ok(()),
            false => Err(authority.not_granted("read the conversation", "session = \"read\"").to_string()),
        }
    }

    /// Returns the conversation that made the call, if it may use it like this.
    fn conversation(&self, access: SessionAccess) -> Result<Services, SessionError> {
        let granted = self.call.authority.check::<Session>();
        let granted = *granted.map_err(|denied| SessionError::Denied(denied.to_string()))?;
        if granted < access {
            let name = &self.plugin;
            return Err(SessionError::Denied(format!(
                "plugin `{name}` may only read the conversation\n\
                 hint: the user can grant more in the config: [plugins.{name}.grants] session = \"write\""
            )));
        }
        let none = || SessionError::Denied("there is no conversation here".to_owned());
        self.call.services.clone().ok_or_else(none)
    }
}

fn error(error: SessionAccessError) -> SessionError {
    match error {
        SessionAccessError::Invalid(text) => SessionError::Invalid(text),
        SessionAccessError::Io(_) | SessionAccessError::NotKept => SessionError::Io(error.to_string()),
    }
}
