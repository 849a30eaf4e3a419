//! Sources as they are shown.

use pinion_packages::{PackageSource, shown_source};
use std::path::Path;

#[test]
fn query_of_an_address_is_not_shown() {
    assert_eq!(shown_source("https://example.com/kit.zip?token=abc"), "https://example.com/kit.zip?…");
    assert_eq!(shown_source("https://example.com/kit.zip"), "https://example.com/kit.zip");
    assert_eq!(shown_source("/tmp/what?/kit.zip"), "/tmp/what?/kit.zip");
    let error = PackageSource::parse("ftp://example.com/kit.zip?token=abc", Path::new("/")).unwrap_err();
    assert!(!error.contains("abc"), "{error}");
}
