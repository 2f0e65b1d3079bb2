//! Drivers that are installed and give no device, and what is wrong with them.

#[cfg(all(feature = "wgpu", unix, not(target_os = "macos")))]
mod manifests;

#[cfg(not(target_os = "macos"))]
use std::{error::Error as _, ffi::OsStr};

#[cfg(not(target_os = "macos"))]
use libloading::Library;

use super::Api;
#[cfg(feature = "wgpu")]
use super::adapters;
#[cfg(not(target_os = "macos"))]
use super::cuda;

/// Something that is installed and gives no device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is for.
    pub api: Api,
    /// The file that is at fault, where it is one.
    pub file: Option<String>,
    /// What is wrong.
    pub reason: String,
}

/// What is installed and gives no device. Loads every driver, which takes time.
pub fn faults() -> Vec<Fault> {
    #[allow(unused_mut, reason = "some builds have neither")]
    let mut faults = Vec::new();
    #[cfg(not(target_os = "macos"))]
    faults.extend(cuda::fault());
    #[cfg(all(feature = "wgpu", unix, not(target_os = "macos")))]
    faults.extend(of_vulkan());
    #[cfg(all(feature = "wgpu", not(all(unix, not(target_os = "macos")))))]
    faults.extend(adapters::all().err().map(|reason| Fault {
        api: adapters::API,
        file: None,
        reason,
    }));
    faults
}

/// What is wrong with Vulkan's drivers and with what loads them.
#[cfg(all(feature = "wgpu", unix, not(target_os = "macos")))]
fn of_vulkan() -> Vec<Fault> {
    /// As wgpu loads it.
    const LOADER: &str = "libvulkan.so.1";
    let fault = |file: Option<String>, reason| Fault {
        api: Api::Vulkan,
        file,
        reason,
    };
    let manifests = manifests::all(&|name| std::env::var_os(name));
    let mut faults: Vec<Fault> = manifests
        .iter()
        .filter_map(|path| {
            let reason = manifests::fault(path)?;
            Some(fault(Some(path.display().to_string()), reason))
        })
        .collect();
    match load(LOADER) {
        Err(error) if error.is_there => faults.push(fault(
            Some(LOADER.to_owned()),
            format!("it does not load: {}", error.reason),
        )),
        Err(_) if manifests.is_empty() => {}
        Err(_) => faults.push(fault(
            Some(LOADER.to_owned()),
            "it is missing and drivers are there, which it loads; install it (Debian: libvulkan1)"
                .to_owned(),
        )),
        Ok(_) if manifests.is_empty() || !faults.is_empty() => {}
        Ok(_) => {
            let why = match adapters::all() {
                Ok((_, devices)) if !devices.is_empty() => return faults,
                Ok(_) => String::new(),
                Err(reason) => format!(": {reason}"),
            };
            let names = manifests.iter().filter_map(|path| path.file_name());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            let (drivers, find) = match &names[..] {
                [name] => (format!("the driver of {name}"), "finds"),
                names => (format!("the drivers of {}", names.join(", ")), "find"),
            };
            faults.push(fault(None, format!("{drivers} {find} no device{why}")));
        }
    }
    faults
}

/// Why a library does not load.
#[cfg(not(target_os = "macos"))]
pub struct NotLoaded {
    /// There is a file of that name.
    pub is_there: bool,
    /// What the system says.
    pub reason: String,
}

/// Loads a library by its name or path.
#[cfg(not(target_os = "macos"))]
pub fn load(name: impl AsRef<OsStr>) -> Result<Library, NotLoaded> {
    /// `ERROR_MOD_NOT_FOUND`
    const NOT_FOUND: i32 = 126;
    let name = name.as_ref();
    // SAFETY: drivers, their loader and compiler, which may be loaded at any time; nothing of them is used beyond the
    // `Library`.
    #[allow(
        unsafe_code,
        reason = "a library runs code of its own when it is loaded"
    )]
    unsafe { Library::new(name) }.map_err(|error| {
        let source = error
            .source()
            .and_then(|source| source.downcast_ref::<std::io::Error>());
        let reason = source.map_or_else(|| error.to_string(), ToString::to_string);
        // The name of something else is that of a library which this one needs.
        let own = format!("{}: ", name.display());
        let missing = source.and_then(std::io::Error::raw_os_error) == Some(NOT_FOUND)
            || (reason.contains(&own)
                && reason.contains("No such file")
                && !reason.contains("needed by"));
        NotLoaded {
            is_there: !missing,
            reason,
        }
    })
}
