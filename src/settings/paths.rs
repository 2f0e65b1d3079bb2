//! Where files are, by the XDG base directory specification (on macOS too).

use std::ffi::OsString;
use std::path::PathBuf;

use super::Error;

/// The files and directories in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `$GPTOSS_CONFIG`, else `$XDG_CONFIG_HOME/gptoss/config.toml`, else `~/.config/gptoss/config.toml`.
    pub config: PathBuf,
    /// `$GPTOSS_STATE_DIR`, else `$XDG_STATE_HOME/gptoss`, else `~/.local/state/gptoss`.
    pub state: PathBuf,
    /// `$GPTOSS_CACHE_DIR`, else `$XDG_CACHE_HOME/gptoss`, else `~/.cache/gptoss`. Nothing in it is missed.
    pub cache: PathBuf,
}

impl Paths {
    /// The paths as `env` describes them: the value of an environment variable, if it is set.
    ///
    /// # Errors
    /// [`Error::Home`]
    pub fn from_env(env: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let home = |variable| Error::Home { variable };
        Ok(Self {
            config: Self::config(&env).ok_or_else(|| home("GPTOSS_CONFIG"))?,
            state: chosen(&env, "GPTOSS_STATE_DIR")
                .or_else(|| Some(base(&env, "XDG_STATE_HOME", ".local/state")?.join("gptoss")))
                .ok_or_else(|| home("GPTOSS_STATE_DIR"))?,
            cache: Self::cache(&env).ok_or_else(|| home("GPTOSS_CACHE_DIR"))?,
        })
    }

    /// Where conversations are saved.
    pub fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    /// The cache, if anything says where it would be.
    fn cache(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        chosen(env, "GPTOSS_CACHE_DIR")
            .or_else(|| Some(base(env, "XDG_CACHE_HOME", ".cache")?.join("gptoss")))
    }

    /// Where compiled kernels are, if anything says where they would be.
    pub fn kernels(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        Some(Self::cache(&env)?.join("kernels"))
    }

    /// The configuration file, if anything says where it would be.
    pub(super) fn config(env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        chosen(env, "GPTOSS_CONFIG")
            .or_else(|| Some(base(env, "XDG_CONFIG_HOME", ".config")?.join("gptoss/config.toml")))
    }

    /// The configuration file was named by the user: it is expected to be there.
    pub(super) fn config_is_chosen(env: &dyn Fn(&str) -> Option<OsString>) -> bool {
        chosen(env, "GPTOSS_CONFIG").is_some()
    }
}

/// An empty variable counts as unset.
fn chosen(env: &dyn Fn(&str) -> Option<OsString>, name: &str) -> Option<PathBuf> {
    env(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// The specification has relative paths ignored.
fn base(env: &dyn Fn(&str) -> Option<OsString>, name: &str, below_home: &str) -> Option<PathBuf> {
    chosen(env, name)
        .filter(|path| path.is_absolute())
        .or_else(|| {
            let home = chosen(env, "HOME").or_else(|| chosen(env, "USERPROFILE"))?;
            Some(home.join(below_home))
        })
}
