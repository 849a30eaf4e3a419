//! The last offer of a running plugin, on disk, so that its tools are there before its instance has listed them.
//!
//! An entry is sealed like a description and bound to the component's digest and config. It is only shown: a call waits
//! until the instance itself has listed its offer, and is decided on again if that differs. With it, a plugin whose
//! offer follows from the MCP servers needs no code before its first call, as long as these offer the same.

use crate::capability::mcp::McpServers;
use crate::loading::description_cache::hash;
use crate::loading::generation::Generation;
use crate::loading::source::PluginSource;
use pinion_plugin_engine::CodeCache;
use pinion_plugin_offers::offer::Description;
use serde::{Deserialize, Serialize};

/// The last offer of a plugin.
#[derive(Serialize, Deserialize)]
struct LastOffer {
    /// BLAKE3 of the component, in hexadecimal.
    digest: String,
    config: String,
    /// Digest of the MCP servers' offers.
    #[serde(default)]
    servers: String,
    offer: Description,
}

/// Reads this generation's latest offer. Nothing in it is checked yet. Blocks.
pub(crate) fn read(cache: &CodeCache, source: &PluginSource, generation: &Generation) -> Option<Description> {
    entry(cache, source, generation).map(|last| last.offer)
}

/// Reads this generation's latest offer, if the MCP servers offer the same as then. Blocks.
pub(crate) fn read_for(
    cache: &CodeCache,
    source: &PluginSource,
    generation: &Generation,
    servers: &dyn McpServers,
) -> Option<Description> {
    let last = entry(cache, source, generation)?;
    (last.servers == digest(servers)).then_some(last.offer)
}

fn entry(cache: &CodeCache, source: &PluginSource, generation: &Generation) -> Option<LastOffer> {
    let content = cache.load_offer(&source.cache_name())?;
    let last: LastOffer = serde_json::from_slice(content.bytes()).ok()?;
    let is_of = last.digest == generation.digest.to_hex().as_str() && last.config == hash(&generation.program.config);
    is_of.then_some(last)
}

/// Returns a digest of the servers' offers. Blocks.
pub(crate) fn digest(servers: &dyn McpServers) -> String {
    hash(&servers.fingerprint())
}

/// Stores a generation's offer, unless the entry has it already. Blocks.
pub(crate) fn store(
    cache: &CodeCache,
    source: &PluginSource,
    generation: &Generation,
    servers: String,
    offer: &Description,
) {
    let last = LastOffer {
        digest: generation.digest.to_hex().to_string(),
        config: hash(&generation.program.config),
        servers,
        offer: offer.clone(),
    };
    let text = serde_json::to_vec(&last);
    let is_known = |text: &Vec<u8>| cache.load_offer(&source.cache_name()).is_some_and(|known| known.bytes() == text);
    if !text.as_ref().is_ok_and(is_known) {
        cache.store_offer(&source.cache_name(), text);
    }
}
