//! The page of `/cost why`: broken caches, the next request, and the largest parts of a request.

use pinion_app::workspace_base::Base;
use pinion_attribution::{NotedBreak, RequestForecast};
use pinion_console::output::short;
use std::time::SystemTime;

/// Broken caches and parts of a request that are listed.
const ROWS: usize = 12;

/// Describes the reasons for the cost of a conversation in this program as Markdown.
pub(crate) fn reasons(base: &Base, conversation: &str) -> String {
    let ledger = &base.requests;
    let Some(forecast) = ledger.forecast(conversation) else {
        return "No request of this conversation was made since Pinion started, or the vendor reports no tokens."
            .to_owned();
    };
    let mut page = forecast_text(&forecast, SystemTime::now());
    page.push_str(&breaks_text(&ledger.breaks(conversation)));
    let mut segments = ledger.segments(conversation);
    segments.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    page.push_str("\n\n| largest parts of the last request | tokens |\n|---|---:|\n");
    for (owner, tokens) in segments.iter().take(ROWS) {
        page.push_str(&format!("| {} | {} |\n", owner.to_string().replace('|', " "), short(*tokens)));
    }
    if let Some(error) = ledger.estimate_error(conversation) {
        page.push_str(&format!("\nThe last estimate differed from the vendor's count by {:.1} %.", error * 100.0));
    }
    page
}

fn forecast_text(forecast: &RequestForecast, now: SystemTime) -> String {
    let RequestForecast { input, cached, cost, cost_without_cache, expires, .. } = forecast;
    let mut text = format!("**Next request:** {} tokens and your message", short(*input));
    if let Some(cost) = cost {
        text.push_str(&format!(", about {}", super::tables::dollars(*cost)));
    }
    match expires.map(|expires| expires.duration_since(now)) {
        Some(Ok(left)) => {
            let left = super::tables::time(left);
            text.push_str(&format!("; the vendor caches {} of them, for another {left} or longer", short(*cached)));
        }
        Some(Err(_)) => text.push_str(&format!("; the vendor's cache of {} of them may have expired", short(*cached))),
        None => text.push_str("; the vendor caches none of them"),
    }
    if let Some(full) = cost_without_cache.filter(|_| expires.is_some()) {
        text.push_str(&format!(", and without its cache the request costs {}", super::tables::dollars(full)));
    }
    text
}

fn breaks_text(breaks: &[NotedBreak]) -> String {
    if breaks.is_empty() {
        return "\n\nNo request since the start lost the vendor's cache.".to_owned();
    }
    let mut text =
        "\n\n| request | lost the cache because | tokens paid again | cost |\n|---:|---|---:|---:|\n".to_owned();
    for NotedBreak { request, found, cost } in breaks.iter().rev().take(ROWS) {
        let cost = cost.map_or_else(|| "unknown".to_owned(), super::tables::dollars);
        let reason = found.to_string().replace('|', " ");
        text.push_str(&format!("| {request} | {reason} | {} | {cost} |\n", short(found.lost)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn forecast_tells_when_the_cache_expires() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let mut forecast = RequestForecast {
            input: 50_000,
            cached: 48_000,
            output: 100,
            cost: Some(0.02),
            cost_without_cache: Some(0.19),
            expires: Some(now + Duration::from_secs(90)),
        };
        let text = forecast_text(&forecast, now);
        assert!(text.contains("50.0 k tokens") && text.contains("about $0.0200"), "{text}");
        assert!(text.contains("for another 1 min 30 s") && text.contains("costs $0.1900"), "{text}");
        assert!(forecast_text(&forecast, now + Duration::from_secs(91)).contains("may have expired"));
        forecast.expires = None;
        assert!(forecast_text(&forecast, now).ends_with("caches none of them"));
    }
}
