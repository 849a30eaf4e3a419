//! Redirects: the next request, without fields that the next server must not get.

use crate::error::ExchangeFailure;
use crate::request::Outgoing;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, LOCATION};

/// Fields that another origin gets. All other fields may be credentials, under any name.
const HARMLESS: &[HeaderName] = &[
    header::ACCEPT,
    header::ACCEPT_LANGUAGE,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
    header::RANGE,
    header::USER_AGENT,
];

/// Fields that describe a body.
const OF_BODY: &[HeaderName] = &[header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_TYPE];

/// Returns the request that a response redirects to; `None` if it is not a redirect.
///
/// The method changes by the [Fetch standard](https://fetch.spec.whatwg.org/#http-redirect-fetch): 303 becomes a GET, as
/// does a POST after 301 and 302; 307 and 308 repeat method and body.
pub(super) fn next(
    status: StatusCode,
    headers: &HeaderMap,
    from: &Outgoing,
) -> Result<Option<Outgoing>, ExchangeFailure> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(location) = headers.get(LOCATION).filter(|_| is_redirect) else { return Ok(None) };
    let invalid = || ExchangeFailure::Failed(format!("`{}` redirects to an invalid URL", from.target));
    let location = std::str::from_utf8(location.as_bytes()).map_err(|_| invalid())?;
    let target = from.target.join(location).map_err(|_| invalid())?;
    let becomes_get = match status.as_u16() {
        301 | 302 => from.method == "POST",
        303 => from.method != "GET" && from.method != "HEAD",
        _ => false,
    };
    let mut next =
        Outgoing { method: from.method.clone(), headers: from.headers.clone(), body: from.body.clone(), target };
    if becomes_get {
        next.method = "GET".to_owned();
        next.body.clear();
        OF_BODY.iter().for_each(|name| drop(next.headers.remove(name)));
    }
    if !next.target.has_origin_of(&from.target) {
        next.headers = HARMLESS
            .iter()
            .flat_map(|name| next.headers.get_all(name).iter().map(move |value| (name.clone(), value.clone())))
            .collect();
    }
    Ok(Some(next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RequestLimits;
    use crate::request::Request;
    use http::HeaderValue;

    fn redirected(method: &str, status: u16, location: &str) -> Result<String, String> {
        let headers = [("content-type", "text/plain"), ("x-api-key", "secret"), ("accept", "*/*")];
        let request = Request {
            headers: headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into(),
            body: "body".into(),
            ..Request::new(method, "https://a.example/x/y?q")
        };
        let Ok(from) = Outgoing::check(&request, &RequestLimits::default()) else { panic!("the request is invalid") };
        let headers = [(LOCATION, HeaderValue::from_bytes(location.as_bytes()).unwrap())].into_iter().collect();
        let next = next(StatusCode::from_u16(status).unwrap(), &headers, &from);
        let next = next.map_err(|failure| failure.sent(true).to_string())?;
        Ok(next.map_or("none".to_owned(), |next| {
            let mut names: Vec<&str> = next.headers.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            format!("{} {} {} {}", next.method, next.target.as_str(), next.body.len(), names.join(","))
        }))
    }

    #[test]
    fn method_and_body_follow_the_status() {
        let all = "accept,content-type,x-api-key";
        for (method, status, expected) in [
            ("POST", 301, "GET https://a.example/x/z 0 accept,x-api-key".to_owned()),
            ("POST", 302, "GET https://a.example/x/z 0 accept,x-api-key".to_owned()),
            ("PUT", 302, format!("PUT https://a.example/x/z 4 {all}")),
            ("PUT", 303, "GET https://a.example/x/z 0 accept,x-api-key".to_owned()),
            ("HEAD", 303, format!("HEAD https://a.example/x/z 4 {all}")),
            ("POST", 307, format!("POST https://a.example/x/z 4 {all}")),
            ("DELETE", 308, format!("DELETE https://a.example/x/z 4 {all}")),
            ("GET", 304, "none".to_owned()),
            ("GET", 200, "none".to_owned()),
        ] {
            assert_eq!(redirected(method, status, "z"), Ok(expected), "{method} {status}");
        }
    }

    #[test]
    fn other_origin_gets_no_unknown_headers() {
        for location in ["//b.example/", "https://b.example/", "http://a.example/", "https://a.example:444/"] {
            let next = redirected("GET", 302, location).unwrap();
            assert!(next.ends_with(" 4 accept,content-type"), "{next}");
        }
        assert!(redirected("GET", 302, "https://A.EXAMPLE:443/").unwrap().ends_with("x-api-key"));
    }

    #[test]
    fn invalid_locations_are_not_followed() {
        for location in
            ["ftp://a.example/", "https://me@b.example/", "https://b.example\\@c.example", "/a b", "file:///"]
        {
            let error = redirected("GET", 302, location).unwrap_err();
            assert_eq!(error, "`https://a.example` redirects to an invalid URL", "{location}");
        }
    }
}
