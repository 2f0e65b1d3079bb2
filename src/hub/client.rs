//! Requests to the hub.
//!
//! hf-hub's own client has no time limits, cannot be stopped, checks no length, adds a whole file to
//! a partial one where a server ignores `Range`, and sends the token to whatever host a redirect
//! names. So its names and paths are used, and the requests are made here with the client below it.

use std::io::Read;
use std::time::Duration;

use hf_hub::api::RepoInfo;
use ureq::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LOCATION, RANGE,
};
use ureq::http::{HeaderMap, Response};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

use super::cache::{is_plain_name, model};
use super::{Error, Hub};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest silence in the middle of an answer.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_REDIRECTS: usize = 10;
/// A list of files or an index is a few kilobytes; this bounds a server that never ends.
const MAX_TEXT: u64 = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Head,
    Get,
}

/// What the hub says about a file before it is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The name of its blob in the cache.
    pub etag: String,
    pub size: u64,
    /// Of the content; the hub gives it for large files, whose etag it is.
    pub sha256: Option<String>,
}

/// The body of an answer to a request for the end of a file.
pub(super) struct Tail {
    pub reader: Box<dyn Read>,
    /// Where in the file it begins: the offset asked for, or 0 from a server that knows no ranges.
    pub start: u64,
}

/// The hub over the network.
pub(super) struct Client<'a> {
    hub: &'a Hub,
    id: &'a str,
    agent: Agent,
    token: Option<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(hub: &'a Hub, id: &'a str) -> Result<Self, Error> {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("gptoss/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(Some(CONNECT_TIMEOUT))
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_per_read(Some(READ_TIMEOUT))
            .timeout_per_write(Some(READ_TIMEOUT))
            .tls_config(tls(hub)?)
            .build();
        Ok(Self {
            hub,
            id,
            agent: config.into(),
            token: hub.token.read()?,
        })
    }

    /// The files of the repository and the commit that `revision` is.
    pub(super) fn info(&self, revision: &str) -> Result<RepoInfo, Error> {
        let url = format!(
            "{}/api/{}",
            self.hub.endpoint,
            model(self.id, revision).api_url()
        );
        let text = self.text(&url, &format!("{}@{revision}", self.id))?;
        let info: RepoInfo =
            serde_json::from_slice(&text).map_err(|error| reply(&url, error.to_string()))?;
        if is_plain_name(&info.sha) {
            Ok(info)
        } else {
            Err(reply(&url, format!("`{}` is not a commit", info.sha)))
        }
    }

    /// Length, blob name and hash of a file.
    pub(super) fn metadata(&self, commit: &str, file: &str) -> Result<Metadata, Error> {
        let url = self.url(commit, file);
        let response = self.send(Method::Head, &url, None, &self.what(file))?;
        let headers = response.headers();
        let linked = text_of(headers, "x-linked-etag").map(clean);
        let etag = linked
            .or_else(|| text_of(headers, ETAG.as_str()).map(clean))
            .filter(|etag| is_plain_name(etag))
            .ok_or_else(|| reply(&url, "the ETag is missing or not a name".to_owned()))?;
        let size = text_of(headers, "x-linked-size")
            .or_else(|| text_of(headers, CONTENT_LENGTH.as_str()))
            .and_then(|size| size.parse().ok())
            .ok_or_else(|| reply(&url, "the size is missing or not a number".to_owned()))?;
        let sha256 = linked
            .filter(|etag| etag.len() == 64 && etag.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .map(str::to_ascii_lowercase);
        Ok(Metadata {
            etag: etag.to_owned(),
            size,
            sha256,
        })
    }

    /// A small file, whole.
    pub(super) fn small(&self, commit: &str, file: &str) -> Result<Vec<u8>, Error> {
        self.text(&self.url(commit, file), &self.what(file))
    }

    /// What follows the first `offset` of the `size` bytes of a file.
    pub(super) fn tail(
        &self,
        commit: &str,
        file: &str,
        offset: u64,
        size: u64,
    ) -> Result<Tail, Error> {
        let url = self.url(commit, file);
        let response = self.send(Method::Get, &url, Some(offset), &self.what(file))?;
        let wrong_size = |found| Error::Size {
            file: file.to_owned(),
            expected: size,
            found,
        };
        let start = if response.status() == 206 {
            let (start, total) = text_of(response.headers(), CONTENT_RANGE.as_str())
                .and_then(content_range)
                .filter(|(start, _)| *start == offset)
                .ok_or_else(|| reply(&url, format!("not the range from byte {offset}")))?;
            if let Some(total) = total.filter(|total| *total != size) {
                return Err(wrong_size(total));
            }
            start
        } else {
            if let Some(length) = response
                .body()
                .content_length()
                .filter(|length| *length != size)
            {
                return Err(wrong_size(length));
            }
            0
        };
        let reader = response
            .into_body()
            .into_with_config()
            .limit(u64::MAX)
            .reader();
        Ok(Tail {
            reader: Box::new(reader),
            start,
        })
    }

    fn url(&self, commit: &str, file: &str) -> String {
        format!("{}/{}/resolve/{commit}/{file}", self.hub.endpoint, self.id)
    }

    fn what(&self, file: &str) -> String {
        format!("{}/{file}", self.id)
    }

    fn text(&self, url: &str, what: &str) -> Result<Vec<u8>, Error> {
        let response = self.send(Method::Get, url, None, what)?;
        let mut text = Vec::new();
        let read = response
            .into_body()
            .into_reader()
            .take(MAX_TEXT + 1)
            .read_to_end(&mut text);
        match read {
            Ok(read) if read as u64 > MAX_TEXT => {
                Err(reply(url, format!("it is longer than {MAX_TEXT} bytes")))
            }
            Ok(_) => Ok(text),
            Err(error) => Err(Error::Connect {
                host: origin(url).to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    /// One request, following redirects. The token goes to the hub alone: the storage that the hub
    /// sends us to has its own signature in the address.
    fn send(
        &self,
        method: Method,
        url: &str,
        offset: Option<u64>,
        what: &str,
    ) -> Result<Response<Body>, Error> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = match method {
                Method::Head => self.agent.head(&url),
                Method::Get => self.agent.get(&url),
            };
            // A compressed answer would have another length than the file.
            request = request.header(ACCEPT_ENCODING, "identity");
            if let Some(offset) = offset {
                request = request.header(RANGE, format!("bytes={offset}-"));
            }
            let to_hub = origin(&url) == origin(&self.hub.endpoint);
            if let Some(token) = self.token.as_ref().filter(|_| to_hub) {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            if is_loopback(&url) {
                // No proxy can reach this machine's own loopback.
                request = request.config().proxy(None).build();
            }
            let response = request.call().map_err(|error| Error::Connect {
                host: origin(&url).to_owned(),
                reason: error.to_string(),
            })?;
            let linked = ["x-linked-size", "x-linked-etag"]
                .iter()
                .all(|name| response.headers().contains_key(*name));
            if !response.status().is_redirection() || (method == Method::Head && linked) {
                return self.checked(response, &url, what);
            }
            url = redirect(&url, response.headers())?;
        }
        Err(reply(&url, format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn checked(
        &self,
        response: Response<Body>,
        url: &str,
        what: &str,
    ) -> Result<Response<Body>, Error> {
        let what = what.to_owned();
        match response.status().as_u16() {
            200..=399 => Ok(response),
            status @ (401 | 403) => Err(Error::Denied {
                what,
                status,
                gated: text_of(response.headers(), "x-error-code") == Some("GatedRepo"),
                with_token: self.token.is_some(),
            }),
            404 => Err(Error::NotFound {
                what,
                endpoint: self.hub.endpoint.clone(),
            }),
            status => Err(Error::Status {
                url: url.to_owned(),
                status,
            }),
        }
    }
}

/// Mozilla's certificates, or those of `SSL_CERT_FILE`.
fn tls(hub: &Hub) -> Result<TlsConfig, Error> {
    let builder = TlsConfig::builder();
    let Some(path) = &hub.certificates else {
        return Ok(builder.build());
    };
    let failed = |reason| Error::Certificates {
        path: path.clone(),
        reason,
    };
    let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(failed(error.to_string())),
        }
    }
    if certificates.is_empty() {
        return Err(failed("it is empty".to_owned()));
    }
    Ok(builder
        .root_certs(RootCerts::new_with_certs(&certificates))
        .build())
}

fn reply(url: &str, reason: String) -> Error {
    Error::Reply {
        url: url.to_owned(),
        reason,
    }
}

fn text_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// An etag without quotes and without the mark of a weak one.
fn clean(etag: &str) -> &str {
    etag.strip_prefix("W/").unwrap_or(etag).trim_matches('"')
}

/// `bytes START-END/TOTAL`; the total may be `*`.
fn content_range(value: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    let total = match total {
        "*" => None,
        total => Some(total.parse().ok()?),
    };
    Some((start.parse().ok()?, total))
}

/// Scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[host..]
        .find(['/', '?', '#'])
        .map_or(url.len(), |end| host + end);
    &url[..end]
}

fn is_loopback(url: &str) -> bool {
    let host = origin(url).split("://").last().unwrap_or_default();
    let host = match host.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => host,
    };
    host == "localhost" || host == "[::1]" || host.starts_with("127.")
}

fn redirect(url: &str, headers: &HeaderMap) -> Result<String, Error> {
    let location = text_of(headers, LOCATION.as_str())
        .filter(|location| !location.is_empty())
        .ok_or_else(|| reply(url, "a redirect that leads nowhere".to_owned()))?;
    let target = if location.contains("://") && !location.starts_with('/') {
        location.to_owned()
    } else if let Some(host) = location.strip_prefix("//") {
        let scheme = url.split("//").next().unwrap_or("https:");
        format!("{scheme}//{host}")
    } else if location.starts_with('/') {
        format!("{}{location}", origin(url))
    } else {
        return Err(reply(url, format!("a redirect to `{location}`")));
    };
    if url.starts_with("https://") && !target.starts_with("https://") {
        return Err(reply(url, format!("a redirect from https to `{target}`")));
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        for (url, expected) in [
            ("https://huggingface.co/a/b", "https://huggingface.co"),
            ("http://127.0.0.1:80?x=/", "http://127.0.0.1:80"),
            ("https://mirror", "https://mirror"),
        ] {
            assert_eq!(origin(url), expected);
        }
    }

    #[test]
    fn loopback_is_told_from_other_hosts() {
        for (url, expected) in [
            ("http://127.0.0.1:80/a", true),
            ("http://localhost", true),
            ("http://[::1]:80/a", true),
            ("https://huggingface.co/127.0.0.1", false),
            ("https://localhost.example:80", false),
        ] {
            assert_eq!(is_loopback(url), expected, "{url}");
        }
    }

    #[test]
    fn a_redirect_leads_to_an_absolute_address_and_never_out_of_tls() {
        let from = "https://hub.example/a/b";
        let to = |location: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().unwrap());
            redirect(from, &headers).ok()
        };
        assert_eq!(to("/c?d=1").as_deref(), Some("https://hub.example/c?d=1"));
        assert_eq!(
            to("https://store.example/x").as_deref(),
            Some("https://store.example/x")
        );
        assert_eq!(
            to("//store.example/x").as_deref(),
            Some("https://store.example/x")
        );
        assert_eq!(to("http://store.example/x"), None);
        assert_eq!(to("x"), None);
        assert_eq!(to(""), None);
        assert!(redirect(from, &HeaderMap::new()).is_err());
    }

    #[test]
    fn a_content_range_gives_start_and_total() {
        assert_eq!(content_range("bytes 5-9/10"), Some((5, Some(10))));
        assert_eq!(content_range("bytes 5-9/*"), Some((5, None)));
        for bad in [
            "",
            "bytes */10",
            "bytes 5-9",
            "items 5-9/10",
            "bytes x-9/10",
            "bytes 5-9/x",
        ] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_etag_loses_quotes_and_the_weak_mark() {
        for (etag, expected) in [("\"a1\"", "a1"), ("W/\"a1\"", "a1"), ("a1", "a1")] {
            assert_eq!(clean(etag), expected);
        }
    }
}
