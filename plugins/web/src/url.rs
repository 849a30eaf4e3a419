//! URLs, as far as redirects and links need them. The host checks and normalizes each one that is requested.

/// Returns a URL that may be relative to `base`, which is absolute. Without a fragment.
pub(crate) fn joined(base: &str, reference: &str) -> String {
    let reference = without_fragment(reference.trim());
    let base = without_fragment(base);
    let (scheme, rest) = base.split_once("://").unwrap_or(("https", base));
    let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    let path = without_query(&rest[authority.len()..]);
    let directory = &path[..path.rfind('/').map_or(0, |at| at + 1)];
    let slash = if directory.is_empty() { "/" } else { "" };
    match reference {
        "" => base.to_owned(),
        absolute if has_scheme(absolute) => absolute.to_owned(),
        other if other.starts_with("//") => format!("{scheme}:{other}"),
        rooted if rooted.starts_with('/') => format!("{scheme}://{authority}{rooted}"),
        query if query.starts_with('?') => format!("{scheme}://{authority}{path}{query}"),
        relative => format!("{scheme}://{authority}{directory}{slash}{relative}"),
    }
}

/// Returns the host of an absolute URL in lower case, without its port. `None` where the host's reading could differ.
pub(crate) fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let is_web = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    if !is_web || !authority.chars().all(is_plain) {
        return None;
    }
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    };
    (!name.is_empty()).then(|| name.to_ascii_lowercase())
}

fn has_scheme(reference: &str) -> bool {
    let scheme = reference.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_letter)
}

fn without_fragment(url: &str) -> &str {
    url.split('#').next().unwrap_or_default()
}

fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_joined() {
        for (base, reference, expected) in [
            ("https://a.example", "b", "https://a.example/b"),
            ("https://a.example?q=/x", "b", "https://a.example/b"),
            ("https://a.example/c/d?q=/x#f", "b?r#g", "https://a.example/c/b?r"),
            ("https://a.example/c/d", "/b", "https://a.example/b"),
            ("https://a.example/c/d", "?b", "https://a.example/c/d?b"),
            ("https://a.example/c/d", "#b", "https://a.example/c/d"),
            ("http://a.example:80/c", "//b.example/d", "http://b.example/d"),
            ("https://a.example/c", " HTTP://b.example ", "HTTP://b.example"),
            ("https://a.example/c", "mailto:a@b", "mailto:a@b"),
            ("https://a.example/c", "x y:z", "https://a.example/x y:z"),
        ] {
            assert_eq!(joined(base, reference), expected, "{base} {reference}");
        }
    }

    #[test]
    fn hosts_are_read_only_where_nobody_reads_another() {
        assert_eq!(host("https://A.example:8443/x").as_deref(), Some("a.example"));
        assert_eq!(host("http://[::1]:80?x").as_deref(), Some("[::1]"));
        for odd in
            ["https://a@b/", "https://a\\b/", "https://a\tb/", "ftp://a/", "https:///x", "https://а.example/", "x"]
        {
            assert_eq!(host(odd), None, "{odd}");
        }
    }
}
