//! Fetching the catalogue of a server over a connection.

use std::time::Duration;

use rmcp::model::{
    ClientRequest, CustomResult, ListPromptsRequest, ListToolsRequest, PaginatedRequestParams, ServerResult,
    SubscriptionFilter,
};
use serde_json::Value;

use crate::catalogue::{Catalogue, CatalogueKind, Collector, head};
use crate::connection::{Connection, RequestFailure, announces_updates};
use crate::limits::{MAX_INSTRUCTIONS, MAX_PAGES};
use crate::request::CallContext;

/// Fetches the catalogue over a connection, which notes how long it is good for.
pub(super) async fn fetch(connection: &Connection, limit: Duration) -> Result<Catalogue, RequestFailure> {
    let call = CallContext::within(limit);
    let info = connection.info();
    let info = info.as_deref();
    let capabilities = info.map(|info| info.capabilities.clone()).unwrap_or_default();
    let software = info.and_then(|info| info.server_info.as_ref());
    let software = software.map(|s| format!("{} {}", s.name, s.version)).unwrap_or_default();
    let protocol = info.map(|info| info.protocol_version.to_string()).unwrap_or_default();
    let instructions = info.and_then(|info| info.instructions.as_deref());
    let instructions = instructions.map(|text| head(text, MAX_INSTRUCTIONS));
    let mut collector = Collector::new(&protocol, &software, instructions, capabilities.resources.is_some());
    let mut lifetimes = Vec::new();
    if let Some(tools) = &capabilities.tools {
        let lifetime = collect(connection, &call, limit, CatalogueKind::Tool, &mut collector).await?;
        lifetimes.extend(lifetime.filter(|_| tools.list_changed != Some(true)));
    }
    if let Some(prompts) = &capabilities.prompts {
        let lifetime = collect(connection, &call, limit, CatalogueKind::Prompt, &mut collector).await?;
        lifetimes.extend(lifetime.filter(|_| prompts.list_changed != Some(true)));
    }
    connection.fetched(lifetimes.into_iter().min());
    Ok(Catalogue { is_deaf: connection.is_deaf(), ..collector.finish() })
}

/// Collects all pages of a list. Returns how long the server says that they are good for.
async fn collect(
    connection: &Connection,
    call: &CallContext,
    limit: Duration,
    kind: CatalogueKind,
    collector: &mut Collector,
) -> Result<Option<Duration>, RequestFailure> {
    let mut lifetime: Option<u64> = None;
    let mut shorten = |page: Option<u64>| lifetime = lifetime.into_iter().chain(page).min();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let (message, method): (ClientRequest, _) = match kind {
            CatalogueKind::Tool => (ListToolsRequest { params, ..Default::default() }.into(), "tools/list"),
            CatalogueKind::Prompt => (ListPromptsRequest { params, ..Default::default() }.into(), "prompts/list"),
        };
        let next = match connection.send(message, call, limit, method).await? {
            ServerResult::ListToolsResult(page) if kind == CatalogueKind::Tool => {
                let mut has_room = true;
                shorten(page.ttl_ms);
                for tool in &page.tools {
                    has_room = collector.add(kind, &tool.name, tool);
                }
                page.next_cursor.filter(|_| has_room)
            }
            ServerResult::ListPromptsResult(page) if kind == CatalogueKind::Prompt => {
                let mut has_room = true;
                shorten(page.ttl_ms);
                for prompt in &page.prompts {
                    has_room = collector.add(kind, &prompt.name, prompt);
                }
                page.next_cursor.filter(|_| has_room)
            }
            ServerResult::CustomResult(CustomResult(page)) => any_page(kind, method, &page, &mut shorten, collector),
            _ => {
                collector.note(wrong_page(method));
                None
            }
        };
        // Some servers end a list with an empty cursor.
        match next.filter(|next| !next.is_empty()) {
            Some(next) => cursor = Some(next),
            None => return Ok(lifetime.map(Duration::from_millis)),
        }
    }
    collector.note(format!("dropped the pages of a list after {MAX_PAGES}"));
    Ok(lifetime.map(Duration::from_millis))
}

/// Adds the entries of a page; at least one of them has a form that the protocol does not have. Returns the next page.
fn any_page(
    kind: CatalogueKind,
    method: &str,
    page: &Value,
    shorten: &mut impl FnMut(Option<u64>),
    collector: &mut Collector,
) -> Option<String> {
    shorten(page.get("ttlMs").and_then(Value::as_u64));
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    let Some(entries) = page.get(kind.list()).and_then(Value::as_array) else {
        collector.note(wrong_page(method));
        return next;
    };
    let mut has_room = true;
    for entry in entries {
        has_room = collector.add_any(kind, entry);
    }
    next.filter(|_| has_room)
}

fn wrong_page(method: &str) -> String {
    format!("dropped a page of `{method}` that has the wrong form")
}

/// Returns the notices to ask for: of changed lists, and of changes of the resources that were read. `None` if there is
/// nothing to ask for so far.
pub(super) fn wanted_notices(connection: &Connection) -> Option<SubscriptionFilter> {
    let info = connection.info()?;
    if info.protocol_version.has_initialize() {
        return None;
    }
    let tools = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed) == Some(true);
    let prompts = info.capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed) == Some(true);
    let mut filter = SubscriptionFilter::new();
    filter.tools_list_changed = tools.then_some(true);
    filter.prompts_list_changed = prompts.then_some(true);
    let read = if announces_updates(&info) { connection.watched.all() } else { Vec::new() };
    let wants_any = tools || prompts || !read.is_empty();
    filter.resource_subscriptions = (!read.is_empty()).then_some(read);
    wants_any.then_some(filter)
}
