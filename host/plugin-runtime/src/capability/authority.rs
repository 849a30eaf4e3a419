//! The authority of plugins and their calls: the one check that every import makes before it acts.

use super::files::place::FileAuthority;
use super::table::{Asks, Granted, Grants, Missing};
use pinion_plugin_limits::DescriptorShare;
use pinion_plugin_storage::PluginIdentity;
use pinion_protocol::Authority;
use pinion_workspace::grants::protected::Protected;
use pinion_workspace::grants::roots::WorkspaceRoot;
use std::sync::{Arc, OnceLock};

/// A capability is missing, or does not reach that far.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}\nhint: {hint}")]
pub(crate) struct Denied {
    what: String,
    hint: String,
}

/// The most that a plugin may do: its asks, cut to its grants.
#[derive(Debug)]
pub(crate) struct PluginAuthority {
    plugin: String,
    asks: Asks,
    grants: Grants,
    /// The owner of stored values.
    identity: PluginIdentity,
    files: FileAuthority,
    descriptors: Arc<DescriptorShare>,
    /// The command that grants it more, where the config does not.
    hint: Option<String>,
    only_waits: bool,
    /// The grants in words, once a ledger lists them.
    granted: OnceLock<Vec<String>>,
}

/// The authority facts that all plugins of a runtime share.
#[derive(Debug, Clone)]
pub(crate) struct SharedAuthority {
    pub(crate) workspace: Arc<WorkspaceRoot>,
    pub(crate) protected: Arc<Protected>,
}

/// The authority of one call.
#[derive(Debug, Clone)]
pub(crate) struct CallAuthority {
    plugin: Arc<PluginAuthority>,
    caller: Caller,
    /// The effects that are declared, asked for and granted.
    effects: Authority,
    /// The effects that its tool declares, regardless of the plugin's grants: the bound for its sub-agents.
    declared: Authority,
}

/// Everything that distinguishes the authority of one call of a plugin from another call's authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallKind {
    caller: Caller,
    effects: Authority,
    declared: Authority,
}

/// The part of a plugin that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Tool,
    /// A slash command.
    Command,
    /// The completion of an argument.
    Completion,
    /// Code outside calls, and calls of tools and commands that are newer than the grants.
    Nobody,
}

impl PluginAuthority {
    pub(crate) fn new(
        plugin: &str,
        surroundings: &SharedAuthority,
        asks: &Asks,
        grants: &Grants,
        descriptors: Arc<DescriptorShare>,
    ) -> Self {
        let grants = grants.clone().cut_to(asks);
        let only_waits = grants.only_wait();
        Self {
            plugin: plugin.to_owned(),
            asks: asks.clone(),
            files: FileAuthority::open(plugin, surroundings, &grants.files),
            grants,
            identity: PluginIdentity::default(),
            descriptors,
            hint: None,
            only_waits,
            granted: OnceLock::new(),
        }
    }

    /// Sets the command that grants the plugin more, which hints name instead of the config.
    pub(crate) fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// Returns whether its calls block no thread: only servers were granted, and the calls wait for them.
    pub(crate) fn only_waits(&self) -> bool {
        self.only_waits
    }

    /// Sets the owner of stored values. Without one, nothing is stored.
    pub(crate) fn with_identity(self, identity: PluginIdentity) -> Self {
        Self { identity, ..self }
    }

    /// Returns the effects of a call of a tool with these declared effects.
    pub(crate) fn of_tool(&self, declared: Authority) -> Authority {
        let possible = self.grants.effects();
        Authority {
            // To write files, a tool has to find them.
            reads: possible.reads && (declared.reads || declared.writes),
            destructive: declared.destructive,
            ..possible.cut_to(declared)
        }
    }

    /// Returns the grants, each as a verb phrase with its extent.
    fn granted(&self) -> &[String] {
        self.granted.get_or_init(|| {
            let extents = self.grants.extents(&self.asks).into_iter();
            extents.filter_map(|(_, phrase, extent)| Some(format!("{phrase}{}", extent?))).collect()
        })
    }

    /// Returns why a tool with these effects cannot work at all: a capability that it needs was asked for and not granted.
    pub(crate) fn missing(&self, declared: Authority) -> Option<Denied> {
        let Missing { phrase, line } = self.asks.missing(&self.grants, declared)?;
        Some(self.not_granted(phrase, &line))
    }

    /// Returns the authority of a call of a tool with these declared effects.
    pub(crate) fn for_tool(self: &Arc<Self>, declared: Authority) -> CallAuthority {
        CallAuthority { plugin: self.clone(), caller: Caller::Tool, effects: self.of_tool(declared), declared }
    }

    /// Returns the plugin's full authority, for commands that the user runs.
    pub(crate) fn for_command(self: &Arc<Self>) -> CallAuthority {
        CallAuthority { caller: Caller::Command, effects: self.grants.command_effects(), ..self.none() }
    }

    /// Returns the authority to read alone, for code that runs while the user types.
    pub(crate) fn reading(self: &Arc<Self>) -> CallAuthority {
        let effects = self.grants.effects().cut_to(Authority::READ_ONLY);
        CallAuthority { caller: Caller::Completion, effects, ..self.none() }
    }

    /// Returns no authority, for loading, `init` and the hand-over of state.
    pub(crate) fn none(self: &Arc<Self>) -> CallAuthority {
        let nothing = Authority::default();
        CallAuthority { plugin: self.clone(), caller: Caller::Nobody, effects: nothing, declared: nothing }
    }

    /// The owner of the plugin's stored values.
    pub(crate) fn identity(&self) -> &PluginIdentity {
        &self.identity
    }

    /// Returns the grant of a capability that is used outside calls.
    pub(crate) fn held<C: Granted>(&self) -> Option<&C::Held> {
        C::held(C::select_grant(&self.grants))
    }

    /// The plugin's share of the descriptors of this process.
    pub(crate) fn descriptors(&self) -> &Arc<DescriptorShare> {
        &self.descriptors
    }

    pub(super) fn files(&self) -> &FileAuthority {
        &self.files
    }

    /// A refusal whose hint says how the user can grant it.
    pub(super) fn not_granted(&self, what: &str, line: &str) -> Denied {
        match &self.hint {
            Some(hint) => self.denied(what, &format!("the user can grant it: {hint}")),
            None => {
                let name = &self.plugin;
                self.denied(what, &format!("the user can grant it in the config: [plugins.{name}.grants] {line}"))
            }
        }
    }

    pub(super) fn denied(&self, what: &str, hint: &str) -> Denied {
        Denied { what: format!("plugin `{}` may not {what}", self.plugin), hint: hint.to_owned() }
    }
}

impl CallAuthority {
    /// Returns the plugin's grants, in words.
    pub(crate) fn granted(&self) -> Vec<String> {
        self.plugin.granted().to_vec()
    }

    /// Returns the grant that an import works with, if the plugin was granted the capability and the call's tool
    /// declares its effect.
    pub(crate) fn check<C: Granted>(&self) -> Result<&C::Held, Denied> {
        let plugin = &self.plugin;
        let phrase = C::phrase(C::MOST);
        let held = C::held(C::select_grant(&plugin.grants));
        let Some(held) = held else { return Err(plugin.not_granted(phrase, &C::line(C::MOST))) };
        if self.allows::<C>() {
            return Ok(held);
        }
        let hint = match (self.caller, C::FOR_COMMANDS) {
            (Caller::Tool, _) => format!("this tool does not declare the effect `{}`", C::EFFECT),
            (_, true) => "only calls of tools and commands may".to_owned(),
            (_, false) => "only calls of tools may".to_owned(),
        };
        Err(plugin.denied(phrase, &hint))
    }

    /// Returns whether [`CallAuthority::check`] passes, without the words of a refusal.
    pub(crate) fn allows<C: Granted>(&self) -> bool {
        let grant = C::select_grant(&self.plugin.grants);
        let is_right_caller = match self.caller {
            Caller::Tool => true,
            Caller::Command => C::FOR_COMMANDS,
            Caller::Completion => C::FOR_COMPLETIONS,
            Caller::Nobody => false,
        };
        is_right_caller && C::held(grant).is_some() && C::effects(grant).is_within(self.effects)
    }

    /// Like [`CallAuthority::check`], and also passes while an argument is completed, regardless of the effects: for
    /// functions that start and change nothing.
    pub(crate) fn check_or_completes<C: Granted>(&self) -> Result<&C::Held, Denied> {
        match C::held(C::select_grant(&self.plugin.grants)).filter(|_| self.is_completion()) {
            Some(held) => Ok(held),
            None => self.check::<C>(),
        }
    }

    /// Returns whether the call completes an argument while the user types.
    pub(crate) fn is_completion(&self) -> bool {
        self.caller == Caller::Completion
    }

    /// Returns a refusal whose hint says how the user can grant it.
    pub(super) fn not_granted(&self, phrase: &str, line: &str) -> Denied {
        self.plugin.not_granted(phrase, line)
    }

    /// Returns a refusal with a hint.
    pub(super) fn denied(&self, phrase: &str, hint: &str) -> Denied {
        self.plugin.denied(phrase, hint)
    }

    /// The capabilities that the manifest asks for.
    pub(super) fn asks(&self) -> &Asks {
        &self.plugin.asks
    }

    /// Returns why a tool sees no files, regardless of the user's grants: its author has to change it. To the guest,
    /// all files are just missing.
    pub(crate) fn why_no_files(&self, tool: &str, declared: Authority) -> Option<String> {
        let plugin = &self.plugin.plugin;
        if self.plugin.asks.files.is_none() {
            return Some(format!(
                "plugin `{plugin}` sees no files because its manifest does not ask for any\n\
                 hint: add `asks = {{ \"files\": \"read\" }}` to its `export!`, or ask with `pinion plugin pack --ask files=read`"
            ));
        }
        (!declared.reads && !declared.writes).then(|| {
            format!(
                "tool `{tool}` sees no files because it declares neither `reads` nor `writes`\n\
                 hint: add `.reads()` where the plugin lists the tool"
            )
        })
    }

    /// Returns whether the plugin was granted a capability, even if this call may not use it: for lists that a plugin
    /// needs to describe itself.
    pub(crate) fn is_granted<C: Granted>(&self) -> bool {
        C::held(C::select_grant(&self.plugin.grants)).is_some()
    }

    /// Returns a refusal to change anything in code that runs while the user types.
    pub(crate) fn check_change(&self, phrase: &str) -> Result<(), Denied> {
        match self.caller {
            Caller::Completion => Err(self.plugin.denied(phrase, "only calls of tools and commands may")),
            Caller::Tool | Caller::Command | Caller::Nobody => Ok(()),
        }
    }

    /// Returns the part of it that differs between the calls of a plugin.
    pub(crate) fn kind(&self) -> CallKind {
        CallKind { caller: self.caller, effects: self.effects, declared: self.declared }
    }

    /// No authority, of the same plugin.
    pub(crate) fn none(&self) -> Self {
        self.plugin.none()
    }

    /// The plugin's own authority.
    pub(crate) fn plugin(&self) -> &Arc<PluginAuthority> {
        &self.plugin
    }

    /// Returns the effects that the call's tool declares; no effects outside tool calls.
    pub(crate) fn declared(&self) -> Authority {
        self.declared
    }

    pub(super) fn effects(&self) -> Authority {
        self.effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::catalog::Catalog;
    use crate::capability::mcp::McpGrant;
    use crate::capability::process::Process;
    use crate::capability::process::ProcessGrant;
    use pinion_workspace::grants::access::FileAccess;
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    fn authority(asks: Asks, grants: Grants) -> Arc<PluginAuthority> {
        let surroundings =
            SharedAuthority { workspace: WorkspaceRoot::new(Path::new("/w")), protected: Arc::default() };
        Arc::new(PluginAuthority::new("p", &surroundings, &asks, &grants, Arc::default()))
    }

    fn files(path: &str, access: FileAccess) -> Grants {
        Grants { files: BTreeMap::from([(PathBuf::from(path), access)]), ..Grants::default() }
    }

    const READS: Authority = Authority::READ_ONLY;
    const WRITES: Authority = Authority { writes: true, ..Authority::READ_ONLY };

    #[test]
    fn plugin_only_waits_if_all_that_it_was_granted_is_servers() {
        let asks = Asks { mcp: true, catalog: true, ..Asks::default() };
        let servers = Grants { mcp: Some(McpGrant::default()), ..Grants::default() };
        let more = Grants { catalog: true, ..servers.clone() };
        let only_waits = |grants: Grants| authority(asks.clone(), grants).only_waits();
        assert!(only_waits(servers) && !only_waits(more) && !only_waits(Grants::default()));
    }

    #[test]
    fn everything_is_denied_without_a_grant() {
        let asks =
            Asks { files: Some(FileAccess::Write), process: true, catalog: true, agents: true, ..Asks::default() };
        let call = authority(asks, Grants::default()).for_command();
        assert!(
            call.find_location("a", FileAccess::Read).is_err()
                && call.check::<Process>().is_err()
                && call.check::<Catalog>().is_err()
        );
    }

    #[test]
    fn grant_is_cut_to_what_was_asked_for() {
        let grants = Grants { process: Some(ProcessGrant::default()), catalog: true, ..files("/w", FileAccess::Write) };
        let call = authority(Asks { files: Some(FileAccess::Read), ..Asks::default() }, grants).for_command();
        assert_eq!(call.files(), Some(FileAccess::Read));
        assert!(call.check::<Process>().is_err() && call.check::<Catalog>().is_err());
    }

    #[test]
    fn call_is_cut_to_what_its_tool_declares() {
        let plugin =
            authority(Asks { files: Some(FileAccess::Write), ..Asks::default() }, files("/w", FileAccess::Write));
        assert_eq!(plugin.for_tool(READS).files(), Some(FileAccess::Read));
        assert_eq!(plugin.for_tool(WRITES).files(), Some(FileAccess::Write));
        assert_eq!(plugin.for_tool(Authority::default()).files(), None);
        assert!(plugin.of_tool(READS).is_harmless() && !plugin.of_tool(WRITES).is_harmless());
    }

    #[test]
    fn completion_reads_and_code_that_loads_does_nothing() {
        let asks = Asks { files: Some(FileAccess::Write), process: true, ..Asks::default() };
        let grants = Grants { process: Some(ProcessGrant::default()), ..files("/w", FileAccess::Write) };
        let plugin = authority(asks, grants);
        assert_eq!(plugin.for_command().files(), Some(FileAccess::Write));
        assert_eq!(plugin.reading().files(), Some(FileAccess::Read));
        assert!(
            plugin.reading().find_location("a", FileAccess::Write).is_err()
                && plugin.reading().check::<Process>().is_err()
        );
        assert!(plugin.none().files().is_none() && plugin.none().check::<Process>().is_err());
    }

    #[test]
    fn tool_that_cannot_see_files_learns_what_its_author_forgot() {
        let nothing = Authority::default();
        let why =
            |asks: Asks, declared| authority(asks, files("/w", FileAccess::Read)).none().why_no_files("t", declared);
        assert!(why(Asks::default(), READS).unwrap().contains("asks = { \"files\": \"read\" }"));
        let asks = Asks { files: Some(FileAccess::Read), ..Asks::default() };
        assert!(why(asks.clone(), nothing).unwrap().contains("tool `t` sees no files") && why(asks, READS).is_none());
    }

    #[test]
    fn denial_names_the_missing_grant() {
        let call = authority(Asks { process: true, ..Asks::default() }, Grants::default()).for_command();
        let text = call.check::<Process>().unwrap_err().to_string();
        assert!(text.contains("`p` may not run programs") && text.contains("[plugins.p.grants] process = true"));
    }

    #[test]
    fn place_is_found_in_the_innermost_granted_directory() {
        let mut grants = files("/w", FileAccess::Read);
        grants.files.insert(PathBuf::from("/w/src"), FileAccess::Read);
        let call = authority(Asks { files: Some(FileAccess::Read), ..Asks::default() }, grants).for_command();
        let found = |path: &str| {
            let place = call.find_location(path, FileAccess::Read).unwrap();
            format!("{} {}", place.root.path.display(), place.relative.display())
        };
        assert_eq!(found("src/./a/../b.rs"), "/w/src b.rs");
        assert_eq!(found("/w/other"), "/w other");
        assert_eq!(found("."), "/w ");
    }

    #[test]
    fn hint_of_a_denied_file_keeps_the_grants_so_far() {
        let mut grants = files("/w", FileAccess::Read);
        grants.files.insert(PathBuf::from("/w/out"), FileAccess::Write);
        let plugin = authority(Asks { files: Some(FileAccess::Write), ..Asks::default() }, grants);
        let hint = |path: &str, access| {
            let denied = plugin.for_command().find_location(path, access).unwrap_err().to_string();
            denied.split_once("[plugins.p.grants] ").unwrap().1.to_owned()
        };
        assert_eq!(
            hint("/etc/hostname", FileAccess::Read),
            r#"files = { "." = "read", "/etc/hostname" = "read", "out" = "write" }"#
        );
        assert_eq!(hint("a", FileAccess::Write), r#"files = { "." = "write", "out" = "write" }"#);
    }

    #[test]
    fn read_only_place_is_not_writable() {
        let mut grants = files("/w", FileAccess::Write);
        grants.files.insert(PathBuf::from("/w/docs"), FileAccess::Read);
        let plugin = authority(Asks { files: Some(FileAccess::Write), ..Asks::default() }, grants);
        assert!(plugin.for_command().find_location("a", FileAccess::Write).is_ok());
        assert!(plugin.for_command().find_location("docs/a", FileAccess::Write).is_err());
        assert!(plugin.for_tool(READS).find_location("a", FileAccess::Write).is_err());
    }

    #[test]
    fn place_outside_is_denied_for_every_spelling_of_its_path() {
        let asks = Asks { files: Some(FileAccess::Read), ..Asks::default() };
        let call = authority(asks, files("/w/src", FileAccess::Read)).for_command();
        for path in ["..", "../x", "src/../../etc", "/etc/passwd", "/", "/w/srcx", "/w", "src/../srcx"] {
            assert!(call.find_location(path, FileAccess::Read).is_err(), "{path}");
        }
    }
}
