//! Segments of paths, for rules that are limited to a part of a server.
//!
//! Servers disagree on `%2e%2e%2f`, `..;`, backslashes and double encodings. If any of them could resolve to a parent
//! directory, the path has no segments, so that no rule with a path covers it.

use percent_encoding::percent_decode_str;

/// Splits a path that starts with `/` and percent-decodes its segments. A final `/` adds an empty segment.
///
/// Returns `None` for paths that are malformed or ambiguous: an incomplete or doubled percent encoding, bytes that are
/// not UTF-8, control characters, or a segment that some server reads as `.` or `..`.
pub(crate) fn segments(path: &str) -> Option<Vec<Vec<u8>>> {
    let decoded = percent_decode_str(path).decode_utf8().ok()?;
    // Encoded percent signs may be decoded twice, and incomplete encodings are left as they are.
    if decoded.contains('%') || decoded.contains(char::is_control) {
        return None;
    }
    if decoded.split(['/', '\\']).any(may_be_dots) {
        return None;
    }
    let segments = path.strip_prefix('/')?.split('/');
    Some(segments.map(|segment| percent_decode_str(segment).collect()).collect())
}

/// Returns whether a server may read a segment as `.` or `..`: some cut off parameters (`..;x`), others the spaces and
/// dots at the end.
fn may_be_dots(segment: &str) -> bool {
    let name = segment.split(';').next().unwrap_or_default().trim();
    !name.is_empty() && name.chars().all(|c| c == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded_once() {
        let texts = |path| segments(path).map(|all| all.into_iter().map(|s| String::from_utf8(s).unwrap()).collect());
        assert_eq!(texts("/v1/caf%C3%A9"), Some(vec!["v1".to_owned(), "café".to_owned()]));
        assert_eq!(texts("/group%2Fproject/"), Some(vec!["group/project".to_owned(), String::new()]));
        assert_eq!(texts("/"), Some(vec![String::new()]));
        assert_eq!(texts("/...x/.git"), Some(vec!["...x".to_owned(), ".git".to_owned()]));
    }

    #[test]
    fn ambiguous_paths_have_no_segments() {
        for path in [
            "/v1/..%2fadmin",
            "/v1/%2e%2e%2fadmin",
            "/v1/..%5cadmin",
            "/v1/..;/admin",
            "/v1/..;x=1/admin",
            "/v1/%252e%252e%252fadmin",
            "/v1/%c0%ae%c0%ae/admin",
            "/v1/%u002e%u002e/admin",
            "/v1/..%00/admin",
            "/v1/..%20/admin",
            "/v1/.../admin",
            "/v1/x%0d%0aHost:evil",
            "/v1/100%",
            "no-slash",
        ] {
            assert_eq!(segments(path), None, "{path}");
        }
    }
}
