//! The environment variables of `huggingface_hub`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Error, Hub};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Long enough for a router to come back, short enough to be watched.
const RETRY_WAITS: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Where the access token comes from. Read only when a request is made, so that a file that cannot be
/// read does not stand in the way of a model that is already here.
#[derive(Clone)]
pub(super) enum TokenSource {
    Variable(&'static str, String),
    File(PathBuf),
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name, _) => f.debug_tuple("Variable").field(name).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl TokenSource {
    /// The token, or nothing where there is none. It must fit into a header.
    pub(super) fn read(&self) -> Result<Option<String>, Error> {
        let (origin, text) = match self {
            Self::Variable(name, value) => ((*name).to_owned(), value.clone()),
            Self::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => (path.display().to_string(), text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(source) => return Err(Error::io(path, source)),
            },
        };
        match text.trim() {
            "" => Ok(None),
            token if token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(Some(token.to_owned()))
            }
            _ => Err(Error::Token { origin }),
        }
    }
}

impl Hub {
    /// The hub as `var` describes it: the value of an environment variable, if it is set.
    ///
    /// # Errors
    /// [`Error::Home`] if nothing says where the cache is, [`Error::Endpoint`] if `HF_ENDPOINT` is no
    /// http address.
    pub fn from_vars(var: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        let home = || {
            var("HOME")
                .or_else(|| var("USERPROFILE"))
                .map(PathBuf::from)
        };
        let path = |name: &str| var(name).map(|value| expand(PathBuf::from(value), home()));
        let hf_home = path("HF_HOME")
            .or_else(|| path("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| home().map(|home| home.join(".cache/huggingface")));
        let cache = path("HF_HUB_CACHE")
            .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| hf_home.as_ref().map(|home| home.join("hub")))
            .ok_or(Error::Home)?;
        let cache = std::path::absolute(&cache).map_err(|source| Error::io(&cache, source))?;

        let text = |name: &str| var(name).map(|value| value.to_string_lossy().trim().to_owned());
        let token = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
            .into_iter()
            .find_map(|name| Some(TokenSource::Variable(name, text(name)?)))
            .or_else(|| path("HF_TOKEN_PATH").map(TokenSource::File))
            .or_else(|| hf_home.map(|home| TokenSource::File(home.join("token"))))
            .unwrap_or(TokenSource::Variable("HF_TOKEN", String::new()));
        let offline = text("HF_HUB_OFFLINE").is_some_and(|value| {
            ["1", "true", "yes", "on"].contains(&value.to_ascii_lowercase().as_str())
        });
        Ok(Self {
            cache,
            endpoint: endpoint(text("HF_ENDPOINT"))?,
            token,
            certificates: path("SSL_CERT_FILE"),
            offline,
            retry_waits: RETRY_WAITS.to_vec(),
        })
    }
}

fn endpoint(value: Option<String>) -> Result<String, Error> {
    let Some(value) = value else {
        return Ok(DEFAULT_ENDPOINT.to_owned());
    };
    let host = value
        .strip_prefix("https://")
        .or_else(|| value.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(value.trim_end_matches('/').to_owned())
        }
        _ => Err(Error::Endpoint(value)),
    }
}

/// `~` at the start of a path, which no shell has expanded when a file sets the variable.
fn expand(path: PathBuf, home: Option<PathBuf>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest == Path::new("") => home,
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(vars: &[(&str, &str)]) -> Result<Hub, Error> {
        Hub::from_vars(|name| {
            let (_, value) = vars.iter().find(|(key, _)| *key == name)?;
            Some(OsString::from(value))
        })
    }

    #[test]
    fn the_cache_is_where_the_most_specific_variable_says() {
        let mut vars = vec![
            ("HF_HUB_CACHE", "/cache"),
            ("HUGGINGFACE_HUB_CACHE", "/legacy"),
            ("HF_HOME", "~/hf"),
            ("XDG_CACHE_HOME", "/xdg"),
            ("HOME", "/home/me"),
        ];
        for expected in [
            "/cache",
            "/legacy",
            "/home/me/hf/hub",
            "/xdg/huggingface/hub",
            "/home/me/.cache/huggingface/hub",
        ] {
            assert_eq!(hub(&vars).unwrap().cache_dir(), Path::new(expected));
            vars.remove(0);
        }
        assert!(matches!(hub(&vars), Err(Error::Home)));
    }

    #[test]
    fn a_variable_set_to_nothing_counts_as_unset() {
        let hub = hub(&[
            ("HOME", "/home/me"),
            ("HF_HUB_CACHE", ""),
            ("HF_HOME", ""),
            ("HF_TOKEN", ""),
            ("HF_ENDPOINT", ""),
            ("HF_HUB_OFFLINE", ""),
        ])
        .unwrap();
        assert_eq!(
            hub.cache_dir(),
            Path::new("/home/me/.cache/huggingface/hub")
        );
        assert_eq!(hub.endpoint(), "https://huggingface.co");
        assert!(!hub.is_offline());
        assert!(
            matches!(hub.token, TokenSource::File(path) if path.ends_with("huggingface/token"))
        );
    }

    #[test]
    fn offline_is_switched_on_by_any_usual_word() {
        for (value, offline) in [
            ("1", true),
            ("true", true),
            ("TRUE", true),
            ("yes", true),
            ("On", true),
            ("0", false),
            ("false", false),
            ("no", false),
        ] {
            let hub = hub(&[("HF_HOME", "/hf"), ("HF_HUB_OFFLINE", value)]).unwrap();
            assert_eq!(hub.is_offline(), offline, "{value}");
        }
    }

    #[test]
    fn the_endpoint_is_an_http_address() {
        let with = |value| hub(&[("HF_HOME", "/hf"), ("HF_ENDPOINT", value)]);
        assert_eq!(
            with("http://mirror:8080/hf/").unwrap().endpoint(),
            "http://mirror:8080/hf"
        );
        for bad in ["mirror", "ftp://mirror", "https://", "http://a b"] {
            assert!(
                matches!(with(bad), Err(Error::Endpoint(value)) if value == bad),
                "{bad}"
            );
        }
    }

    #[test]
    fn the_token_comes_from_the_variable_or_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        std::fs::write(&file, "hf_file\n").unwrap();
        let home = directory.path().to_str().unwrap();
        let read = |vars: &[(&str, &str)]| {
            let mut all = vec![("HF_HOME", home)];
            all.extend(vars);
            hub(&all).unwrap().token.read()
        };
        let path = ("HF_TOKEN_PATH", file.to_str().unwrap());
        assert_eq!(
            read(&[("HF_TOKEN", " hf_var "), path]).unwrap().as_deref(),
            Some("hf_var")
        );
        assert_eq!(read(&[path]).unwrap().as_deref(), Some("hf_file"));
        assert_eq!(read(&[]).unwrap(), None);
        assert!(matches!(
            read(&[("HF_TOKEN", "two\nlines")]),
            Err(Error::Token { origin }) if origin == "HF_TOKEN"
        ));
    }

    #[test]
    fn the_token_is_not_part_of_the_debug_text() {
        let hub = hub(&[("HF_HOME", "/hf"), ("HF_TOKEN", "hf_secret")]).unwrap();
        assert!(!format!("{hub:?}").contains("hf_secret"));
    }
}
