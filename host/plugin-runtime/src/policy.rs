//! Component identity, and the policy that decides a component's grants.
//!
//! A component is its [`PluginSource`] and the digest of exactly the bytes that are compiled. Its name is the one in its
//! manifest; no file name decides anything. The runtime asks a [`PluginPolicy`] twice: [`PluginPolicy::settings`] before
//! a component is compiled, and [`PluginPolicy::loaded`] once it has described itself and before it answers calls.
//!
//! Grants cover the asks and declarations of a component at the time of the grant: its [`Ceiling`]. A reload that grows
//! beyond the ceiling loads, and the additions are held back.

use crate::capability::table::{Asks, Grants};
use crate::load_error::LoadError;
use crate::loading::source::PluginSource;
use crate::manifest::{Lifetime, Manifest};
use pinion_plugin_limits::PartialLimits;
use pinion_plugin_offers::names::folded;
use pinion_protocol::Authority;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A component on its way into the runtime.
#[derive(Debug, Clone, Copy)]
pub struct Component<'a> {
    /// The manifest of the bytes that are compiled.
    pub manifest: &'a Manifest,
    /// The origin of the bytes.
    pub source: &'a PluginSource,
    /// BLAKE3 of the bytes, in hexadecimal.
    pub digest: &'a str,
    /// The path that identifies its file, as [`without_links`](crate::without_links) returns it; `None` without a file.
    pub path: Option<&'a Path>,
}

/// The user's settings for one plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginSettings {
    /// The granted capabilities. The runtime cuts them to the plugin's asks.
    pub grants: Grants,
    /// Limits that the user set for the plugin's calls.
    pub limits: PartialLimits,
    /// The plugin's own section of the config, an object.
    pub config: Value,
    /// Its asks and declarations at the time of the grants. With `None`, the first loaded generation's count.
    pub ceiling: Option<Ceiling>,
    /// The reason why some of its grants are not in `grants`, with a hint.
    pub held_back: Option<String>,
    /// The command that grants it more; `None` where the config does.
    pub hint: Option<String>,
}

/// Decides which components are loaded, and the grants of each. Called from threads that may block.
pub trait PluginPolicy: Send + Sync {
    /// Returns the settings of a component, before it is compiled. The runtime cuts `grants` to the ceiling, if there is
    /// one.
    ///
    /// # Errors
    /// The component must not be loaded: its name is reserved, or the user disabled it.
    fn settings(&self, component: &Component<'_>) -> Result<PluginSettings, LoadError>;

    /// Returns the settings of many components, each as [`PluginPolicy::settings`] does, so that a start with hundreds
    /// of them reads the inputs of the decisions once.
    fn settings_of_all(&self, components: &[Component<'_>]) -> Vec<Result<PluginSettings, LoadError>> {
        components.iter().map(|component| self.settings(component)).collect()
    }

    /// Called once a component has described itself without a name collision, before its first call.
    ///
    /// # Errors
    /// The component must not be loaded, for example because its grants cannot be recorded.
    fn loaded(&self, _component: &Component<'_>, _offered: &Ceiling) -> Result<(), LoadError> {
        Ok(())
    }

    /// The files that decisions depend on. When one of them changes, a refresh asks for the settings of every plugin
    /// again, and reloads those whose settings differ. [`Runtime::watch`](crate::Runtime::watch) watches them.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Settings by name, for any source, for programs that choose every component they load. A program that loads foreign
/// files needs a policy that checks the source and the digest.
impl PluginPolicy for BTreeMap<String, PluginSettings> {
    fn settings(&self, component: &Component<'_>) -> Result<PluginSettings, LoadError> {
        Ok(self.get(&component.manifest.name).cloned().unwrap_or_default())
    }
}

/// The asks and declarations of a component that affect its grants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Ceiling {
    /// The capabilities that its manifest asks for.
    pub asks: Asks,
    /// The lifetime of its instances.
    pub lifetime: Lifetime,
    /// The declared effects of each tool.
    pub tools: BTreeMap<String, Authority>,
    /// The names of its commands.
    pub commands: BTreeSet<String>,
}

impl Ceiling {
    /// Returns the part of `grants` that the ceiling covers. A component whose instances live longer than before gets
    /// nothing.
    pub(crate) fn cut(&self, manifest: &Manifest, grants: Grants) -> Grants {
        if manifest.lifetime > self.lifetime {
            return Grants::default();
        }
        grants.cut_to(&self.asks)
    }

    /// Returns the part of a tool's declared effects that the ceiling covers; nothing for a new tool. A tool that declares
    /// itself destructive stays destructive.
    pub(crate) fn effects(&self, tool: &str, declared: Authority) -> Authority {
        let most = self.tools.get(tool).copied().unwrap_or_default();
        declared.cut_to(Authority { destructive: true, ..most })
    }

    /// Returns the part of the effects that a tool declares while its plugin runs that the ceiling covers. A name that was
    /// declared when the plugin was granted keeps the effects declared for it; any other tool may have the effects that the
    /// tools declared then have together. So no tool gets an effect that the user did not see.
    pub(crate) fn running_effects(&self, tool: &str, declared: Authority) -> Authority {
        let together = || self.tools.values().fold(Authority::default(), |all, effects| all.union(*effects));
        let most = self.tools.get(tool).copied().unwrap_or_else(together);
        declared.cut_to(Authority { destructive: true, ..most })
    }

    /// Returns phrases for everything that `offered` has beyond this ceiling.
    pub fn excess(&self, offered: &Self) -> Vec<String> {
        let mut excess: Vec<String> = self.asks.excess(&offered.asks);
        if offered.lifetime > self.lifetime {
            excess.push(match offered.lifetime {
                Lifetime::Session => "keep one instance for the whole session".to_owned(),
                Lifetime::Reused | Lifetime::Call => "reuse instances for later calls".to_owned(),
            });
        }
        excess.extend(offered.tools.iter().filter_map(|(tool, declared)| {
            let most = self.tools.get(tool).copied().unwrap_or_default();
            let beyond = beyond(*declared, most);
            (!beyond.is_empty()).then(|| format!("tool `{tool}`: {}", beyond.join(", ")))
        }));
        excess.extend(offered.commands.difference(&self.commands).map(|command| format!("command `/{command}`")));
        excess
    }
}

/// Returns words for the declared effects beyond `most`.
pub(crate) fn beyond(declared: Authority, most: Authority) -> Vec<&'static str> {
    let beyond = Authority {
        reads: declared.reads && !(most.reads || most.writes),
        writes: declared.writes && !most.writes,
        executes: declared.executes && !most.executes,
        network: declared.network && !most.network,
        destructive: false,
        delegates: declared.delegates && !most.delegates,
    };
    beyond.effect_names()
}

/// Returns whether people could confuse the names of two plugins, because they read or look alike. In names of plugins, `5`
/// looks like `s`.
pub fn is_alike(one: &str, other: &str) -> bool {
    Likeness::from_name(one).is_like(&Likeness::from_name(other))
}

/// The name of a plugin as people may read it, for comparisons with many others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness {
    read: String,
    drawn: String,
}

impl Likeness {
    /// The likeness of a name.
    pub fn from_name(name: &str) -> Self {
        let [read, drawn] = folded(name);
        Self { read, drawn: drawn.replace('5', "s") }
    }

    /// Returns whether the names are alike, as [`is_alike`] does.
    pub fn is_like(&self, other: &Self) -> bool {
        self.read == other.read || self.drawn == other.drawn
    }
}

/// Values by the names of plugins. A lookup finds all names that are alike, and its time does not depend on their number.
#[derive(Debug, Clone)]
pub struct LikenessMap<T> {
    values: Vec<T>,
    /// Positions of values by their names as they are read, and as they are drawn.
    read: HashMap<String, Vec<usize>>,
    drawn: HashMap<String, Vec<usize>>,
}

impl<T> Default for LikenessMap<T> {
    fn default() -> Self {
        Self { values: Vec::new(), read: HashMap::new(), drawn: HashMap::new() }
    }
}

impl<T> LikenessMap<T> {
    /// Returns the values whose names are like `name`, as [`is_alike`] compares them, in the order of their addition.
    pub fn values_like(&self, name: &str) -> impl Iterator<Item = &T> {
        let found = if self.values.is_empty() { BTreeSet::new() } else { self.positions(&Likeness::from_name(name)) };
        found.into_iter().filter_map(|at| self.values.get(at))
    }

    fn positions(&self, likeness: &Likeness) -> BTreeSet<usize> {
        let found = [self.read.get(&likeness.read), self.drawn.get(&likeness.drawn)];
        found.into_iter().flatten().flatten().copied().collect()
    }
}

impl<T, N: AsRef<str>> FromIterator<(N, T)> for LikenessMap<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(named: I) -> Self {
        let mut map = Self::default();
        for (name, value) in named {
            let Likeness { read, drawn } = Likeness::from_name(name.as_ref());
            map.read.entry(read).or_default().push(map.values.len());
            map.drawn.entry(drawn).or_default().push(map.values.len());
            map.values.push(value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinion_workspace::grants::access::FileAccess;

    const READS: Authority = Authority::READ_ONLY;
    const RUNS: Authority = Authority { executes: true, ..Authority::READ_ONLY };

    fn offer(asks: Asks, tools: &[(&str, Authority)]) -> Ceiling {
        let tools = tools.iter().map(|(name, effects)| ((*name).to_owned(), *effects)).collect();
        Ceiling { asks, tools, ..Ceiling::default() }
    }

    #[test]
    fn names_that_look_alike_are_alike() {
        for (one, other) in [("shell", "Shell"), ("shell", "sh-ell"), ("shell", "she11"), ("fs", "F_S"), ("fs", "f5")] {
            assert!(is_alike(one, other), "{one} {other}");
        }
        assert!(!is_alike("tail", "tall") && !is_alike("fs", "fss"));
    }

    #[test]
    fn map_finds_each_value_whose_name_is_alike_once() {
        let names = ["shell", "f5", "she11", "tail", "fs", "SHELL"];
        let map: LikenessMap<&str> = names.into_iter().map(|name| (name, name)).collect();
        for name in names.into_iter().chain(["tall", "s-hell", "none"]) {
            let expected: Vec<&str> = names.into_iter().filter(|other| is_alike(other, name)).collect();
            assert_eq!(map.values_like(name).copied().collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn excess_names_additions_only() {
        let files = |access| Asks { files: Some(access), ..Asks::default() };
        let old = offer(files(FileAccess::Read), &[("look", READS), ("run", RUNS)]);
        assert!(old.excess(&offer(Asks::default(), &[("look", READS)])).is_empty());
        let new = offer(Asks { process: true, ..files(FileAccess::Write) }, &[("look", RUNS), ("more", READS)]);
        let excess = ["write files", "run programs", "tool `look`: runs programs", "tool `more`: reads files"];
        assert_eq!(old.excess(&new), excess);
    }

    #[test]
    fn only_a_longer_lifetime_is_an_excess() {
        let of = |lifetime| Ceiling { lifetime, ..Ceiling::default() };
        let [call, reused, session] = [Lifetime::Call, Lifetime::Reused, Lifetime::Session].map(of);
        assert_eq!(call.excess(&reused), ["reuse instances for later calls"]);
        for shorter in [&call, &reused] {
            assert_eq!(shorter.excess(&session), ["keep one instance for the whole session"]);
        }
        assert!(session.excess(&reused).is_empty() && reused.excess(&call).is_empty());
    }

    #[test]
    fn tools_of_a_running_plugin_get_effects_declared_at_the_grant() {
        let ceiling = offer(Asks::default(), &[("look", READS), ("run", RUNS)]);
        let all = Authority { destructive: false, ..Authority::ALL };
        assert_eq!(ceiling.running_effects("look", all), READS);
        assert_eq!(ceiling.running_effects("new", all), RUNS);
        assert_eq!(ceiling.running_effects("new", READS), READS);
        assert_eq!(offer(Asks::default(), &[]).running_effects("new", all), Authority::default());
    }

    #[test]
    fn new_tools_get_no_effects_and_old_ones_keep_theirs() {
        let old = offer(Asks::default(), &[("look", READS)]);
        assert_eq!(old.effects("look", RUNS), READS);
        assert_eq!(old.effects("more", READS), Authority::default());
        let destructive = Authority { destructive: true, ..Authority::default() };
        assert_eq!(old.effects("more", destructive), destructive);
    }
}
