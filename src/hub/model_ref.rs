//! What `--model` may say.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Error;

/// `huggingface_hub`'s limit for `owner/name`.
const MAX_ID_LENGTH: usize = 96;

/// What `--model` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelRef {
    /// The built-in toy.
    Tiny,
    /// A directory with a checkpoint.
    Directory(PathBuf),
    /// `owner/name[@revision]`; `20b` and `120b` are `openai/gpt-oss-20b` and `-120b`.
    Repo {
        /// `owner/name`
        id: String,
        /// A branch, a tag or a commit; `main` where there is none.
        revision: Option<String>,
    },
}

impl FromStr for ModelRef {
    type Err = Error;

    /// Reads `tiny`, `20b`, `120b`, a path or `owner/name[@revision]`. What exists on disk is a path.
    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text, std::env::home_dir().as_deref(), &Path::exists)
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tiny => f.write_str("tiny"),
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Repo { id, revision: None } => f.write_str(id),
            Self::Repo {
                id,
                revision: Some(revision),
            } => write!(f, "{id}@{revision}"),
        }
    }
}

fn parse(
    text: &str,
    home: Option<&Path>,
    exists: &dyn Fn(&Path) -> bool,
) -> Result<ModelRef, Error> {
    let refuse = |reason: &str| {
        Err(Error::Name {
            value: text.to_owned(),
            reason: reason.to_owned(),
        })
    };
    let official = |size| {
        Ok(ModelRef::Repo {
            id: format!("openai/gpt-oss-{size}"),
            revision: None,
        })
    };
    match text {
        "" => return refuse("it is empty"),
        "tiny" => return Ok(ModelRef::Tiny),
        "20b" => return official("20b"),
        "120b" => return official("120b"),
        _ => {}
    }
    if let Some(rest) = text.strip_prefix('~')
        && (rest.is_empty() || rest.starts_with('/'))
    {
        let Some(home) = home else {
            return refuse("the home directory is not known");
        };
        return Ok(ModelRef::Directory(home.join(rest.trim_start_matches('/'))));
    }
    if looks_like_a_path(text) || exists(Path::new(text)) {
        return Ok(ModelRef::Directory(PathBuf::from(text)));
    }
    if text.contains("://") {
        return refuse("it is an address; leave out what stands before `owner/name`");
    }
    if let Some(name) = official_name(text) {
        return refuse(&format!("the official model is called `{name}` here"));
    }
    let (id, revision) = match text.split_once('@') {
        Some((id, revision)) => (id, Some(revision)),
        None => (text, None),
    };
    if let Err(reason) = check_id(id).and_then(|()| revision.map_or(Ok(()), check_revision)) {
        return refuse(reason);
    }
    Ok(ModelRef::Repo {
        id: id.to_owned(),
        revision: revision.map(str::to_owned),
    })
}

/// The name of the model that is meant by what other programs call it: `gpt-oss:20b`, `gpt-oss-120b`, `20B`.
fn official_name(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let names = ["120b", "20b", "tiny"];
    let meant = |name: &&&str| {
        let rest = text.strip_suffix(**name);
        rest.is_some_and(|rest| ["", "gpt-oss-", "gpt-oss:", "gpt-oss"].contains(&rest))
    };
    names.iter().find(meant).copied()
}

fn looks_like_a_path(text: &str) -> bool {
    matches!(text, "." | "..")
        || ["/", "./", "../"]
            .iter()
            .any(|start| text.starts_with(start))
        || text.contains('\\')
        || Path::new(text).is_absolute()
}

/// The hub's rules for `owner/name` (`huggingface_hub` `validate_repo_id`).
pub(super) fn check_id(id: &str) -> Result<(), &'static str> {
    let Some((owner, name)) = id.split_once('/') else {
        return Err("no such directory, and a name on the hub has an owner");
    };
    if id.len() > MAX_ID_LENGTH {
        return Err("a name on the hub has at most 96 characters");
    }
    if name.contains('/') {
        return Err("no such directory, and a name on the hub has one `/`");
    }
    for part in [owner, name] {
        if part.is_empty() {
            return Err("a name on the hub has an owner before and a name after the `/`");
        }
        if !part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        {
            return Err("a name on the hub has letters, digits, `-`, `_` and `.` only");
        }
        if part.starts_with(['-', '.']) || part.ends_with(['-', '.']) {
            return Err("a name on the hub does not start or end with `-` or `.`");
        }
        if part.contains("--") || part.contains("..") {
            return Err("a name on the hub has neither `--` nor `..`");
        }
    }
    if Path::new(name).extension().is_some_and(|end| end == "git") {
        return Err("a name on the hub does not end in `.git`");
    }
    Ok(())
}

/// Git's rules for a branch, tag or commit; they also keep `refs/<revision>` inside the cache.
pub(super) fn check_revision(revision: &str) -> Result<(), &'static str> {
    if revision.is_empty() {
        return Err("no revision follows the `@`");
    }
    if revision.len() > 255 {
        return Err("a revision has at most 255 characters");
    }
    if !revision
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_./+".contains(&byte))
    {
        return Err("a revision has letters, digits, `-`, `_`, `.`, `+` and `/` only");
    }
    if revision.starts_with('-')
        || revision
            .split('/')
            .any(|part| part.is_empty() || part.starts_with('.') || part.ends_with('.'))
        || revision.contains("..")
    {
        return Err("this is not the name of a branch, tag or commit");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ModelRef, String> {
        let exists = |path: &Path| path == Path::new("models/mine") || path == Path::new("local");
        match parse(text, Some(Path::new("/home/me")), &exists) {
            Ok(model) => Ok(model),
            Err(Error::Name { value, reason }) => {
                assert_eq!(value, text);
                Err(reason)
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn repo(id: &str, revision: Option<&str>) -> ModelRef {
        ModelRef::Repo {
            id: id.to_owned(),
            revision: revision.map(str::to_owned),
        }
    }

    #[test]
    fn the_short_names_are_the_official_models() {
        assert_eq!(read("tiny"), Ok(ModelRef::Tiny));
        assert_eq!(read("20b"), Ok(repo("openai/gpt-oss-20b", None)));
        assert_eq!(read("120b"), Ok(repo("openai/gpt-oss-120b", None)));
    }

    #[test]
    fn a_name_on_the_hub_may_carry_a_branch_a_tag_or_a_commit() {
        assert_eq!(
            read("unsloth/gpt-oss_20b.x"),
            Ok(repo("unsloth/gpt-oss_20b.x", None))
        );
        assert_eq!(read("a/b@v1.0"), Ok(repo("a/b", Some("v1.0"))));
        assert_eq!(read("a/b@refs/pr/1"), Ok(repo("a/b", Some("refs/pr/1"))));
        assert_eq!(read("a/b@6cee5e8"), Ok(repo("a/b", Some("6cee5e8"))));
    }

    #[test]
    fn what_looks_like_a_path_or_exists_is_a_directory() {
        for (text, path) in [
            ("/models/x", "/models/x"),
            ("./x", "./x"),
            ("../x", "../x"),
            (".", "."),
            ("~", "/home/me/"),
            ("~/models/x", "/home/me/models/x"),
            ("local", "local"),
            // It would also be a valid name on the hub: what is on disk wins.
            ("models/mine", "models/mine"),
        ] {
            assert_eq!(
                read(text),
                Ok(ModelRef::Directory(PathBuf::from(path))),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_what_is_neither_with_the_reason() {
        let long = format!("owner/{}", "n".repeat(MAX_ID_LENGTH));
        for (text, reason) in [
            ("", "it is empty"),
            (
                "70b",
                "no such directory, and a name on the hub has an owner",
            ),
            ("gpt-oss-20b", "the official model is called `20b` here"),
            ("gpt-oss:120b", "the official model is called `120b` here"),
            ("20B", "the official model is called `20b` here"),
            (
                "my-120b",
                "no such directory, and a name on the hub has an owner",
            ),
            (
                "https://huggingface.co/openai/gpt-oss-20b",
                "it is an address; leave out what stands before `owner/name`",
            ),
            (
                "a/b/c",
                "no such directory, and a name on the hub has one `/`",
            ),
            (
                "a/",
                "a name on the hub has an owner before and a name after the `/`",
            ),
            (
                "a/b c",
                "a name on the hub has letters, digits, `-`, `_` and `.` only",
            ),
            (
                "a/b\u{e9}",
                "a name on the hub has letters, digits, `-`, `_` and `.` only",
            ),
            (
                "a/-b",
                "a name on the hub does not start or end with `-` or `.`",
            ),
            ("a/b--c", "a name on the hub has neither `--` nor `..`"),
            ("a/b..c", "a name on the hub has neither `--` nor `..`"),
            ("a/b.git", "a name on the hub does not end in `.git`"),
            (&long, "a name on the hub has at most 96 characters"),
            ("a/b@", "no revision follows the `@`"),
            (
                "a/b@x y",
                "a revision has letters, digits, `-`, `_`, `.`, `+` and `/` only",
            ),
            (
                "a/b@../../x",
                "this is not the name of a branch, tag or commit",
            ),
            ("a/b@/x", "this is not the name of a branch, tag or commit"),
        ] {
            assert_eq!(read(text), Err(reason.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_accepted() {
        let error = "70b".parse::<ModelRef>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`70b` names no model: no such directory, and a name on the hub has an owner; accepted \
             are `20b`, `120b`, `tiny`, a directory with a checkpoint, and `owner/name[@revision]`"
        );
    }

    #[test]
    fn prints_as_it_is_read() {
        for text in ["tiny", "/models/x", "a/b", "a/b@v1.0"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
    }
}
