//! Attributes the tokens and the cost of requests to their owners.
//!
//! Vendors cache the beginning of a request: the next request that begins alike reads it for a tenth of the price. A
//! change near the beginning makes all text behind it expensive again, and a vendor only reports the sum. This crate
//! divides each request into segments with an owner, such as a tool, a context file or the result of a call
//! ([`RequestParts`]), compares it with the request before ([`find_break`]), and names the owner of the first
//! difference.
//!
//! - [`AttributedProvider`] watches all requests of a program, and [`RequestLedger`] accounts for them. Neither changes a
//!   request or a reply.
//! - [`turn_costs`] and [`spend_by`] derive costs from the events of a conversation, also of one from a file.
//!
//! Texts are kept only as long as the next request is compared with them. Nothing is written.

mod cache_break;
mod forecast;
mod ledger;
mod owner;
mod owner_spend;
mod provider;
mod request_parts;
mod system_sections;
mod turn_cost;

pub use cache_break::{CacheBreak, SegmentChange, find_break};
pub use forecast::{CACHE_LIFETIME, RequestForecast, exceeds_forecast};
pub use ledger::{LedgerMark, NotedBreak, RequestCounts, RequestLedger, RequestTicket};
pub use owner::SegmentOwner;
pub use owner_spend::{OwnerGroup, OwnerSpend, spend_by};
pub use provider::AttributedProvider;
pub use request_parts::{RequestParts, Segment};
pub use turn_cost::{TurnCost, turn_costs};
