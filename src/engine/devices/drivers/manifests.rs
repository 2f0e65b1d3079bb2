//! The manifests by which Vulkan's loader finds drivers, in its order ("Driver Discovery" in the `LoaderDriverInterface.md` of
//! the Khronos Vulkan-Loader): a JSON file for each, with the path of its library.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::load;

/// Variables that name manifests, or directories of them, in place of the usual ones; the second is the older one.
const INSTEAD: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];
/// One that names more of them.
const MORE: &str = "VK_ADD_DRIVER_FILES";
/// Below each directory of the system and of the user.
const BELOW: &str = "vulkan/icd.d";
/// A driver has one of these.
const ENTRIES: [&[u8]; 2] = [b"vk_icdGetInstanceProcAddr\0", b"vkGetInstanceProcAddr\0"];

/// What is read of a manifest.
#[derive(Deserialize)]
struct Manifest {
    #[serde(rename = "ICD")]
    icd: Icd,
}

#[derive(Deserialize)]
struct Icd {
    library_path: String,
    /// Bits of a pointer, where it says so.
    library_arch: Option<String>,
}

/// The manifests that the loader would read where `env` gives the value of a variable.
pub fn all(env: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let mut found = Vec::new();
    let mut add = |path: &Path| {
        let mut manifests = if path.is_dir() {
            within(path)
        } else {
            vec![path.to_owned()]
        };
        manifests.retain(|path| !found.contains(path));
        found.extend(manifests);
    };
    for path in set(MORE).iter().flat_map(std::env::split_paths) {
        add(&path);
    }
    if let Some(instead) = INSTEAD.iter().find_map(|name| set(name)) {
        for path in std::env::split_paths(&instead) {
            add(&path);
        }
        return found;
    }
    let home = set("HOME").map(PathBuf::from);
    let below_home = |name: &str, usual: &str| {
        let own = set(name).map(PathBuf::from);
        own.or_else(|| Some(home.as_ref()?.join(usual)))
    };
    let several = |name: &str, usual: &str| {
        let value = set(name).unwrap_or_else(|| usual.into());
        std::env::split_paths(&value).collect::<Vec<_>>()
    };
    let mut places: Vec<PathBuf> = below_home("XDG_CONFIG_HOME", ".config")
        .into_iter()
        .collect();
    places.extend(several("XDG_CONFIG_DIRS", "/etc/xdg"));
    places.extend(["/etc", "/usr/local/etc"].map(PathBuf::from));
    places.extend(below_home("XDG_DATA_HOME", ".local/share"));
    places.extend(several("XDG_DATA_DIRS", "/usr/local/share:/usr/share"));
    for directory in places.iter().map(|place| place.join(BELOW)) {
        if directory.is_dir() {
            add(&directory);
        }
    }
    found
}

fn within(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    paths
}

/// Why the driver of `manifest` cannot be loaded, if it cannot.
pub fn fault(manifest: &Path) -> Option<String> {
    let text = match fs::read_to_string(manifest) {
        Ok(text) => text,
        Err(error) => return Some(format!("it cannot be read: {error}")),
    };
    let Icd {
        library_path,
        library_arch,
    } = match serde_json::from_str(&text) {
        Ok(Manifest { icd }) => icd,
        Err(error) => return Some(format!("it is no manifest of a Vulkan driver: {error}")),
    };
    let other = if cfg!(target_pointer_width = "64") {
        "32"
    } else {
        "64"
    };
    if library_arch.as_deref() == Some(other) {
        return None;
    }
    // With a slash it is a path, from the manifest on; without one the system looks for it.
    let path = match manifest.parent() {
        Some(directory) if library_path.contains('/') => {
            directory.join(library_path.strip_prefix("./").unwrap_or(&library_path))
        }
        _ => PathBuf::from(&library_path),
    };
    match load(&path) {
        Ok(library) => {
            // SAFETY: it is only looked whether there is one.
            #[allow(unsafe_code, reason = "symbols have no types")]
            let is_driver = ENTRIES
                .iter()
                .any(|name| unsafe { library.get::<unsafe extern "C" fn()>(name) }.is_ok());
            // Threads of a driver may outlive its closing.
            std::mem::forget(library);
            (!is_driver)
                .then(|| format!("it names `{}`, which is no Vulkan driver", path.display()))
        }
        // Drivers for programs of the other width, which the loader passes over too.
        Err(error) if error.reason.contains("wrong ELF class") => None,
        Err(error) => Some(format!(
            "it names `{}`, which does not load: {}",
            path.display(),
            error.reason
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_looked_for_where_the_loader_does() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "{}").unwrap();
            path
        };
        let config = file(".config/vulkan/icd.d/b.json");
        let data = [
            file("data/vulkan/icd.d/a.json"),
            file("data/vulkan/icd.d/c.json"),
        ];
        file("data/vulkan/icd.d/read.me");
        let here = |path: &str| home.path().join(path).into_os_string();
        let found = |variables: &[(&str, OsString)]| {
            let env = |name: &str| {
                let of_system = [
                    ("HOME", here("")),
                    ("XDG_CONFIG_DIRS", here("none")),
                    ("XDG_DATA_DIRS", here("data")),
                ];
                let mut all = variables.iter().chain(&of_system);
                all.find(|(key, _)| *key == name)
                    .map(|(_, value)| value.clone())
            };
            let mut found = all(&env);
            // Those of the machine that runs the test.
            found.retain(|path| path.starts_with(home.path()));
            found
        };
        let usual = [std::slice::from_ref(&config), &data[..]].concat();
        assert_eq!(found(&[]), usual);
        let instead = |name| found(&[(name, config.clone().into_os_string())]);
        assert_eq!(instead("VK_ICD_FILENAMES"), std::slice::from_ref(&config));
        assert_eq!(instead("VK_DRIVER_FILES"), std::slice::from_ref(&config));
        // A directory, what is not there, and the newer variable before the older one.
        let variables = [
            ("VK_ICD_FILENAMES", config.clone().into_os_string()),
            ("VK_DRIVER_FILES", here("data/vulkan/icd.d")),
            ("VK_ADD_DRIVER_FILES", here("gone.json")),
        ];
        let expected = [&[home.path().join("gone.json")], &data[..]].concat();
        assert_eq!(found(&variables), expected);
        assert_eq!(found(&[("VK_DRIVER_FILES", OsString::new())]), usual);
    }

    #[test]
    fn says_what_is_wrong_with_a_driver() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let fault_of = |text: &str| {
            fs::write(at("driver.json"), text).unwrap();
            fault(&at("driver.json")).unwrap_or_default()
        };
        let naming = |library: &str| {
            fault_of(&format!(
                r#"{{"ICD": {{"library_path": "{library}", "api_version": "1.3.0"}}}}"#
            ))
        };
        let path = at("libgpu.so").display().to_string();
        assert_eq!(
            naming("./libgpu.so"),
            format!(
                "it names `{path}`, which does not load: {path}: cannot open shared object file: No such file or \
                 directory"
            )
        );
        fs::write(at("libgpu.so"), "no library at all").unwrap();
        assert_eq!(
            naming("./libgpu.so"),
            format!("it names `{path}`, which does not load: {path}: file too short")
        );
        assert!(naming("libnone.so.7").starts_with("it names `libnone.so.7`, which does not load"));
        assert_eq!(
            naming("libc.so.6"),
            "it names `libc.so.6`, which is no Vulkan driver"
        );
        assert_eq!(
            fault_of(r#"{"ICD": {"library_path": "./libgpu.so", "library_arch": "32"}}"#),
            ""
        );
        for text in ["", "{}", r#"{"ICD": {}}"#, "\u{1}"] {
            let fault = fault_of(text);
            assert!(
                fault.starts_with("it is no manifest of a Vulkan driver: "),
                "{fault}"
            );
        }
        assert_eq!(
            fault(&at("gone.json")).unwrap(),
            "it cannot be read: No such file or directory (os error 2)"
        );
    }
}
