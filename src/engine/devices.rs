//! What can compute here, which of it is taken, and how it is opened.
//!
//! Nothing in here panics where a driver is missing, refuses or fails: it is an [`Error`] that names the way out.

#[cfg(feature = "wgpu")]
mod adapters;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod attempt;
mod choice;
#[cfg(not(target_os = "macos"))]
mod cuda;
mod drivers;
#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod kernel_cache;
#[cfg(feature = "wgpu")]
mod open;

use std::cmp::Reverse;
use std::fmt;
use std::path::Path;
use std::sync::OnceLock;

pub use choice::Choice;
#[cfg(all(feature = "cuda", not(target_os = "macos")))]
pub use cuda::open_cuda;
pub use drivers::{Fault as DriverFault, faults as driver_faults};
#[cfg(any(feature = "wgpu", feature = "cuda"))]
pub use kernel_cache::keep as keep_kernels;
#[cfg(feature = "wgpu")]
pub use open::{Wgpu, open_wgpu};

/// How a device is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// NVIDIA's own, on Linux and Windows.
    Cuda,
    /// Apple's own.
    Metal,
    /// Everybody's, on Linux and Windows.
    Vulkan,
}

impl Api {
    /// The better one first, where two reach the same device.
    pub const ALL: [Self; 3] = [Self::Cuda, Self::Metal, Self::Vulkan];

    /// As `--device` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cuda => "cuda",
            Self::Metal => "metal",
            Self::Vulkan => "vulkan",
        }
    }

    /// Why this program cannot compute through it, where that is so whatever the device.
    pub const fn missing(self) -> Option<&'static str> {
        match self {
            Self::Cuda if cfg!(not(feature = "cuda")) => {
                Some("this build is without it; build with `--features cuda`, or take Vulkan")
            }
            Self::Vulkan | Self::Metal if cfg!(not(feature = "wgpu")) => {
                Some("this build is without it; build with `--features wgpu`")
            }
            Self::Cuda | Self::Vulkan | Self::Metal => None,
        }
    }

    /// What to do where there is no device of its kind.
    const fn way_to_one(self) -> &'static str {
        match self {
            Self::Cuda => "it needs an NVIDIA card and its driver",
            Self::Metal => "it is on Macs only",
            Self::Vulkan => "it needs a graphics card and its driver",
        }
    }
}

/// What kind of hardware it is; the better one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A card with memory of its own.
    Discrete,
    /// A part of the processor, in the same memory.
    Integrated,
    /// A part of a device that is shared with other machines.
    Virtual,
    /// A program that plays a device on the CPU.
    Software,
}

impl Kind {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Discrete => "discrete",
            Self::Integrated => "integrated",
            Self::Virtual => "virtual",
            Self::Software => "software",
        }
    }
}

/// Something other than the CPU that may compute. It is shown as `--device` takes it: `vulkan:0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// How it is spoken to.
    pub api: Api,
    /// Which of its API, as the driver counts.
    pub index: usize,
    /// As the driver calls it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The driver and its version.
    pub driver: String,
    /// Bytes it may hold; `None`: the driver does not tell.
    pub memory: Option<u64>,
    /// The most bytes that a kernel can be given in one array.
    pub largest_binding: u64,
    /// Why not, and the way out.
    pub usable: Result<(), String>,
}

impl Device {
    /// How it is chosen.
    pub const fn choice(&self) -> Choice {
        Choice::Gpu(self.api, Some(self.index))
    }

    /// Less is better.
    fn rank(&self) -> (Kind, usize, Reverse<u64>, usize) {
        let api = Api::ALL.iter().position(|api| *api == self.api);
        (
            self.kind,
            api.unwrap_or(Api::ALL.len()),
            Reverse(self.memory.unwrap_or(0)),
            self.index,
        )
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.choice().fmt(f)
    }
}

/// What a [`Choice`] comes to here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The processor.
    Cpu,
    /// This device.
    Gpu(Device),
}

impl Chosen {
    /// How it is chosen again, whatever is said of it meanwhile.
    pub const fn choice(&self) -> Choice {
        match self {
            Self::Cpu => Choice::Cpu,
            Self::Gpu(device) => device.choice(),
        }
    }
}

/// Why a device cannot be had, or failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such device.
    #[error("there is no device `{choice}` here, expected {}{reason}", listed(.available))]
    NotThere {
        /// As asked for.
        choice: Choice,
        /// What can be said instead.
        available: Vec<String>,
        /// What it would need, where there is none like it.
        reason: String,
    },
    /// It is there and cannot compute for us.
    #[error("`{device}` ({name}) cannot be used: {reason}")]
    NotUsable {
        /// As `--device` takes it.
        device: String,
        /// As the driver calls it.
        name: String,
        /// Why, and the way out.
        reason: String,
    },
    /// The model does not fit into its memory.
    #[error(
        "the model needs {} and `{device}` ({name}) has {}",
        gigabytes(*.need),
        gigabytes(*.memory)
    )]
    TooSmall {
        /// As `--device` takes it.
        device: String,
        /// As the driver calls it.
        name: String,
        /// Bytes.
        need: u64,
        /// Bytes.
        memory: u64,
    },
    /// The driver does not open it.
    #[error("`{device}` cannot be opened: {reason}")]
    Refused {
        /// As `--device` takes it.
        device: String,
        /// What the driver says.
        reason: String,
    },
    /// There is no room left on it.
    #[error("`{device}` has no memory left")]
    OutOfMemory {
        /// As `--device` takes it.
        device: String,
    },
    /// It is gone: reset, removed, or stopped by the system.
    #[error("`{device}` was lost: {reason}")]
    Lost {
        /// As `--device` takes it.
        device: String,
        /// What the driver says.
        reason: String,
    },
    /// It refused a piece of work.
    #[error("`{device}` failed: {reason}")]
    Failed {
        /// As `--device` takes it.
        device: String,
        /// What the driver says.
        reason: String,
    },
}

impl Error {
    /// What helps.
    pub const fn way_out(&self) -> &'static str {
        match self {
            Self::NotThere { .. } | Self::NotUsable { .. } => {
                "`gptoss devices` lists what there is"
            }
            Self::TooSmall { .. } | Self::OutOfMemory { .. } => {
                "give less with --context, or take --device cpu"
            }
            Self::Refused { .. } => "a newer driver may help; --device cpu does without one",
            Self::Lost { .. } | Self::Failed { .. } => {
                "start again; if it comes back, a newer driver may help, and --device cpu does without one"
            }
        }
    }
}

/// What there is besides the CPU, usable or not. Drivers are asked once in a process.
pub fn list() -> Vec<Device> {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    let ask = || {
        #[allow(unused_mut, reason = "some builds have neither")]
        let mut devices = Vec::new();
        #[cfg(not(target_os = "macos"))]
        devices.extend(cuda::list());
        #[cfg(feature = "wgpu")]
        devices.extend(adapters::list());
        devices
    };
    DEVICES.get_or_init(ask).clone()
}

/// Has compiled kernels of GPUs kept below `directory` for the next start, which only the first call of a process decides,
/// and gives why that cannot be, once.
pub fn keep_kernels_in(directory: &Path) -> Option<String> {
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    {
        kernel_cache::configure(Some(directory));
        kernel_cache::fault()
    }
    #[cfg(not(any(feature = "wgpu", feature = "cuda")))]
    {
        let _ = directory;
        None
    }
}

/// What `choice` comes to for a model that takes `need` bytes, and what is worth saying about that.
///
/// # Errors
/// Where a device that was asked for by name is not there, cannot be used, or is too small.
pub fn choose(choice: &Choice, need: u64) -> Result<(Chosen, Option<String>), Error> {
    let devices = match choice {
        Choice::Cpu => Vec::new(),
        // Asking the drivers takes time, which is for nothing where no answer would count.
        Choice::Auto if Api::ALL.iter().all(|api| api.missing().is_some()) => Vec::new(),
        Choice::Auto | Choice::Gpu(..) => list(),
    };
    select(&devices, choice, need)
}

/// [`choose`] among `devices`.
///
/// # Errors
/// As [`choose`].
pub fn select(
    devices: &[Device],
    choice: &Choice,
    need: u64,
) -> Result<(Chosen, Option<String>), Error> {
    match *choice {
        Choice::Cpu => Ok((Chosen::Cpu, None)),
        Choice::Auto => Ok(automatic(devices, need)),
        Choice::Gpu(api, index) => {
            let device = named(devices, api, index).ok_or_else(|| Error::NotThere {
                choice: *choice,
                available: available(devices),
                reason: if devices.iter().any(|device| device.api == api) {
                    String::new()
                } else {
                    format!(": {}", api.way_to_one())
                },
            })?;
            if let Err(reason) = &device.usable {
                return Err(Error::NotUsable {
                    device: device.to_string(),
                    name: device.name.clone(),
                    reason: reason.clone(),
                });
            }
            fits(device, need)?;
            Ok((Chosen::Gpu(device.clone()), None))
        }
    }
}

/// The best usable device with room for `need` bytes that is no program on the CPU, else the CPU.
fn automatic(devices: &[Device], need: u64) -> (Chosen, Option<String>) {
    let mut hardware: Vec<&Device> = devices
        .iter()
        .filter(|device| device.kind != Kind::Software)
        .collect();
    hardware.sort_by_key(|device| device.rank());
    let mut usable = hardware.iter().filter(|device| device.usable.is_ok());
    if let Some(device) = usable.clone().find(|device| fits(device, need).is_ok()) {
        return (Chosen::Gpu((*device).clone()), None);
    }
    let why = match (usable.next(), hardware.first()) {
        (Some(device), _) => fits(device, need).err().map(|error| error.to_string()),
        (None, Some(device)) => device
            .usable
            .as_ref()
            .err()
            .map(|reason| format!("`{device}` ({}) cannot be used: {reason}", device.name)),
        (None, None) => None,
    };
    (
        Chosen::Cpu,
        why.map(|why| format!("{why}; it runs on the CPU")),
    )
}

/// The device of that number, or the best of its API.
fn named(devices: &[Device], api: Api, index: Option<usize>) -> Option<&Device> {
    let of_api = devices.iter().filter(|device| device.api == api);
    match index {
        Some(index) => of_api.into_iter().find(|device| device.index == index),
        None => of_api.min_by_key(|device| (device.usable.is_err(), device.rank())),
    }
}

fn fits(device: &Device, need: u64) -> Result<(), Error> {
    match device.memory {
        Some(memory) if memory < need => Err(Error::TooSmall {
            device: device.to_string(),
            name: device.name.clone(),
            need,
            memory,
        }),
        _ => Ok(()),
    }
}

/// `cpu`, and each device with its name.
fn available(devices: &[Device]) -> Vec<String> {
    let devices = devices
        .iter()
        .map(|device| format!("`{device}` ({})", device.name));
    std::iter::once("`cpu`".to_owned()).chain(devices).collect()
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests;
