//! Which device a model runs on, how much of it, and what is worth saying about that.

use crate::cli::error::Failure;
use crate::hub::decimal_bytes as bytes;
use crate::session::devices::{self, Api, Chosen, Device};
use crate::session::memory::DevicePlan;
use crate::session::{Compute, DeviceChoice, LoadOptions};

/// How a note ends where no GPU is taken, also those of [`devices::select`].
const ON_CPU: &str = "; it runs on the CPU";

/// Whether there is such a device, which is known before the model is.
///
/// # Errors
/// When a device that was asked for by name is not there or cannot be used.
pub fn check_device(choice: DeviceChoice) -> anyhow::Result<()> {
    match devices::choose(&choice, 0) {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(&error)),
    }
}

/// What a plan comes to on the devices of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The CPU, and why not a GPU that is there.
    Cpu(Option<String>),
    /// This GPU has room for what was planned.
    Gpu(Room),
    /// For less: for the experts of so many layers.
    Part(Room, usize),
    /// This GPU was asked for by name and is too small.
    TooSmall(Room),
}

/// A GPU and what of its memory a model may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The GPU, with all that it has.
    pub device: Device,
    /// Bytes; `None`: not known.
    pub memory: Option<u64>,
    /// They are what `gpu-memory` says, not what the GPU has.
    pub capped: bool,
}

impl Room {
    fn of(device: &Device, cap: Option<u64>) -> Self {
        let capped = cap.filter(|cap| device.memory.is_none_or(|memory| *cap < memory));
        Self {
            device: device.clone(),
            memory: capped.or(device.memory),
            capped: capped.is_some(),
        }
    }

    /// ``the model needs 13.8 GB and `cuda:0` (Card) has 8.0 GB``
    fn too_small(&self, plan: &DevicePlan) -> String {
        let Self { device, .. } = self;
        let memory = self.memory.map_or_else(|| "less".to_owned(), bytes);
        let has = if self.capped {
            format!("may take {memory} (`gpu-memory`)")
        } else {
            format!("has {memory}")
        };
        format!(
            "the model needs {} and `{device}` ({}) {has}",
            bytes(plan.needed()),
            device.name
        )
    }
}

/// What `plan` comes to where `choice` is asked for and at most `cap` bytes of a GPU's memory may be taken.
///
/// # Errors
/// When a device that was asked for by name is not there or cannot be used.
pub fn place(choice: DeviceChoice, plan: &DevicePlan, cap: Option<u64>) -> anyhow::Result<Place> {
    let devices = match choice {
        DeviceChoice::Cpu => Vec::new(),
        // Asking the drivers takes time, which is for nothing where no answer would count.
        DeviceChoice::Auto if Api::ALL.iter().all(|api| api.missing().is_some()) => Vec::new(),
        DeviceChoice::Auto | DeviceChoice::Gpu(..) => devices::list(),
    };
    place_among(&devices, choice, plan, cap).map_err(|error| refused(&error))
}

/// [`place`] among `devices`.
fn place_among(
    devices: &[Device],
    choice: DeviceChoice,
    plan: &DevicePlan,
    cap: Option<u64>,
) -> Result<Place, devices::Error> {
    let rooms: Vec<Room> = devices.iter().map(|device| Room::of(device, cap)).collect();
    let capped: Vec<Device> = rooms
        .iter()
        .map(|room| Device {
            memory: room.memory,
            ..room.device.clone()
        })
        .collect();
    // The device for a model that takes so many bytes.
    let with_room_for = |need| match devices::select(&capped, &choice, need) {
        Ok((Chosen::Gpu(device), _)) => rooms
            .iter()
            .find(|room| room.device.choice() == device.choice())
            .cloned(),
        _ => None,
    };
    if let Some(room) = with_room_for(plan.needed()) {
        return Ok(Place::Gpu(room));
    }
    if plan.gpu_layers.is_none()
        && let Some(room) = with_room_for(plan.with_gpu_layers(Some(0)).needed())
        && let Some(layers) = room.memory.and_then(|memory| plan.layers_in(memory))
    {
        return Ok(Place::Part(room, layers));
    }
    let too_small = with_room_for(0);
    match (devices::select(&capped, &choice, plan.needed()), too_small) {
        (Err(devices::Error::TooSmall { .. }), Some(room)) => Ok(Place::TooSmall(room)),
        (Err(error), _) => Err(error),
        (Ok(_), Some(room)) => Ok(Place::Cpu(Some(room.too_small(plan)))),
        (Ok((_, note)), None) => {
            let unusable = note.map(|note| note.trim_end_matches(ON_CPU).to_owned());
            Ok(Place::Cpu(unusable))
        }
    }
}

/// Makes of the device of `options` the one that `plan` comes to with at most `cap` bytes of a GPU's memory, and gives
/// what is worth saying about that. Where a part of a model that is too large for it fits a GPU, the experts of the other
/// layers stay on the CPU, unless it was asked for how many.
///
/// # Errors
/// When a device that was asked for by name is not there, cannot be used, or is too small.
pub fn choose_device(
    options: &mut LoadOptions,
    plan: &DevicePlan,
    cap: Option<u64>,
) -> anyhow::Result<Option<String>> {
    let plan = plan.with_gpu_layers(options.gpu_layers);
    let place = place(options.device, &plan, cap)?;
    let taken = take(options, &plan, cap, place)?;
    let notes = [taken, compiled_anew(options)].into_iter().flatten();
    let notes: Vec<String> = notes.collect();
    Ok((!notes.is_empty()).then(|| notes.join("; ")))
}

/// That compiled kernels cannot be kept for the next start, where a GPU needs them, and the way out; once.
fn compiled_anew(options: &LoadOptions) -> Option<String> {
    if !options.device.is_gpu() {
        return None;
    }
    let (why, way_out) = match &options.kernel_cache {
        Some(directory) => (
            devices::keep_kernels_in(directory)?,
            "GPTOSS_CACHE_DIR names another place",
        ),
        None => (
            "nothing says where they may be kept".to_owned(),
            "GPTOSS_CACHE_DIR does",
        ),
    };
    Some(format!(
        "kernels are compiled at every start: {why}; {way_out}"
    ))
}

/// [`choose_device`] once it is known what the plan comes to.
fn take(
    options: &mut LoadOptions,
    plan: &DevicePlan,
    cap: Option<u64>,
    place: Place,
) -> anyhow::Result<Option<String>> {
    match place {
        Place::Cpu(why) => {
            options.device = DeviceChoice::Cpu;
            let why = why.map(|why| why + ON_CPU);
            let layers = options.gpu_layers.map(|n| format!("`gpu-layers {n}`"));
            let memory = cap.map(|cap| format!("`gpu-memory {}`", bytes(cap)));
            let unused = are([layers, memory].into_iter().flatten());
            Ok(why
                .or(unused
                    .map(|unused| format!("{unused} for a GPU, and the model runs on the CPU"))))
        }
        Place::Gpu(room) => {
            options.device = room.device.choice();
            if plan.gpu_layers.is_some_and(|layers| layers < plan.layers) {
                return Ok(None);
            }
            Ok(unused_beside(options))
        }
        Place::Part(room, layers) => {
            options.device = room.device.choice();
            options.gpu_layers = Some(layers);
            Ok(Some(format!(
                "the experts of {} of {} layers stay on the CPU: {}",
                plan.layers - layers,
                plan.layers,
                room.too_small(plan),
            )))
        }
        Place::TooSmall(room) => {
            let more = if room.capped {
                "a larger --gpu-memory gives it more, "
            } else {
                ""
            };
            let way = match room.memory.and_then(|memory| plan.way_into(memory)) {
                Some(flags) => format!("{flags} fits, {more}and --device cpu takes any"),
                None => format!("{more}--device cpu takes any model that fits this machine"),
            };
            Err(Failure::new(room.too_small(plan), way).into())
        }
    }
}

/// What of `options` is for the CPU alone, where a GPU does all of the work.
fn unused_beside(options: &LoadOptions) -> Option<String> {
    let compute = options.compute.filter(|compute| *compute != Compute::F32);
    let compute = compute.map(|compute| format!("`compute {}`", compute.name()));
    let kernels = options.kernels.as_ref();
    let kernels = kernels.map(|kernels| format!("`kernels {kernels}`"));
    let threads = options
        .threads
        .map(|threads| format!("`threads {threads}`"));
    let why = if compute.is_some() || kernels.is_some() {
        "has kernels of its own, which compute in f32"
    } else {
        "does all of the work"
    };
    let unused = are([compute, kernels, threads].into_iter().flatten())?;
    Some(format!("{unused} for the CPU: `{}` {why}", options.device))
}

/// `a is`, or `a, b and c are`.
fn are(names: impl Iterator<Item = String>) -> Option<String> {
    match names.collect::<Vec<_>>().as_slice() {
        [] => None,
        [name] => Some(format!("{name} is")),
        [names @ .., last] => Some(format!("{} and {last} are", names.join(", "))),
    }
}

fn refused(error: &devices::Error) -> anyhow::Error {
    Failure::new(error.to_string(), error.way_out()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::error::parts;
    use crate::session::devices::Kind;

    const GB: u64 = 1_000_000_000;

    /// 14.2 GB with the experts of 24 layers, 4.0 GB without.
    const PLAN: DevicePlan = DevicePlan {
        weights: 13_400_000_000,
        weights_in_8_bits: 12_000_000_000,
        layer: 425_000_000,
        layers: 24,
        gpu_layers: None,
        work: 400_000_000,
        history_per_token: 48_828,
        context: 8192,
    };

    fn card(memory: Option<u64>) -> Device {
        Device {
            api: Api::Vulkan,
            index: 0,
            name: "Card".to_owned(),
            kind: Kind::Discrete,
            driver: String::new(),
            memory,
            largest_binding: GB,
            usable: Ok(()),
        }
    }

    /// The device, the layers on it, and what is said.
    type Taken = (String, Option<usize>, String);

    /// What is taken, or the error and the way out.
    fn chosen(
        devices: &[Device],
        choice: &str,
        gpu_layers: Option<usize>,
        cap: Option<u64>,
    ) -> Result<Taken, String> {
        let mut options = LoadOptions {
            device: choice.parse().unwrap(),
            gpu_layers,
            ..LoadOptions::default()
        };
        let plan = PLAN.with_gpu_layers(gpu_layers);
        let place = place_among(devices, options.device, &plan, cap).unwrap();
        match take(&mut options, &plan, cap, place) {
            Ok(note) => Ok((
                options.device.to_string(),
                options.gpu_layers,
                note.unwrap_or_default(),
            )),
            Err(error) => {
                let (message, hint) = parts(&error);
                Err(format!("{message}; {}", hint.unwrap_or_default()))
            }
        }
    }

    fn taken(
        devices: &[Device],
        choice: &str,
        gpu_layers: Option<usize>,
        cap: Option<u64>,
    ) -> Taken {
        chosen(devices, choice, gpu_layers, cap).unwrap()
    }

    fn said(device: &str, layers: Option<usize>, note: &str) -> Taken {
        (device.to_owned(), layers, note.to_owned())
    }

    #[test]
    fn a_cap_is_a_smaller_card_for_auto() {
        let large = [card(Some(24 * GB))];
        let auto = |cap: u64| taken(&large, "auto", None, Some(cap * GB));
        assert_eq!(
            taken(&large, "auto", None, None),
            said("vulkan:0", None, "")
        );
        assert_eq!(auto(16), said("vulkan:0", None, ""));
        // Never more than it has.
        assert_eq!(auto(32), said("vulkan:0", None, ""));
        assert_eq!(
            auto(8),
            said(
                "vulkan:0",
                Some(9),
                "the experts of 15 of 24 layers stay on the CPU: the model needs 14.2 GB and `vulkan:0` (Card) may take \
                 8.0 GB (`gpu-memory`)"
            )
        );
        assert_eq!(
            auto(2),
            said(
                "cpu",
                None,
                "the model needs 14.2 GB and `vulkan:0` (Card) may take 2.0 GB (`gpu-memory`); it runs on the CPU"
            )
        );
        // The same layers as on a card that has no more.
        let small = [card(Some(8 * GB))];
        assert_eq!(
            taken(&small, "auto", None, None),
            said(
                "vulkan:0",
                Some(9),
                "the experts of 15 of 24 layers stay on the CPU: the model needs 14.2 GB and `vulkan:0` (Card) has 8.0 GB"
            )
        );
        // What the card has is what counts where a cap is above it, and the cap where nothing is known.
        assert_eq!(
            taken(&small, "auto", None, Some(12 * GB)),
            taken(&small, "auto", None, None)
        );
        assert_eq!(taken(&[card(None)], "auto", None, Some(8 * GB)), auto(8));
    }

    #[test]
    fn a_device_by_name_that_is_too_small_is_refused_with_the_way_out() {
        let large = [card(Some(24 * GB))];
        assert_eq!(
            chosen(&large, "vulkan", None, Some(2 * GB)),
            Err(
                "the model needs 14.2 GB and `vulkan:0` (Card) may take 2.0 GB (`gpu-memory`); a larger --gpu-memory \
                 gives it more, --device cpu takes any model that fits this machine"
                    .to_owned()
            )
        );
        assert_eq!(
            chosen(&large, "vulkan", Some(12), Some(8 * GB)),
            Err(
                "the model needs 9.1 GB and `vulkan:0` (Card) may take 8.0 GB (`gpu-memory`); --gpu-layers 9 fits, \
                 a larger --gpu-memory gives it more, and --device cpu takes any"
                    .to_owned()
            )
        );
        assert_eq!(
            chosen(&[card(Some(2 * GB))], "vulkan", None, None),
            Err(
                "the model needs 14.2 GB and `vulkan:0` (Card) has 2.0 GB; --device cpu takes any model that fits this \
                 machine"
                    .to_owned()
            )
        );
    }

    #[test]
    fn what_is_for_a_gpu_is_said_to_be_unused_on_the_cpu() {
        assert_eq!(
            taken(&[], "auto", Some(3), Some(8 * GB)),
            said(
                "cpu",
                Some(3),
                "`gpu-layers 3` and `gpu-memory 8.0 GB` are for a GPU, and the model runs on the CPU"
            )
        );
        // Why it does so matters more.
        let (_, _, note) = taken(&[card(Some(GB))], "auto", Some(3), None);
        assert!(note.ends_with("has 1.0 GB; it runs on the CPU"), "{note}");
        let broken = Device {
            usable: Err("no".to_owned()),
            ..card(Some(24 * GB))
        };
        assert_eq!(
            taken(&[broken], "auto", None, Some(GB)),
            said(
                "cpu",
                None,
                "`vulkan:0` (Card) cannot be used: no; it runs on the CPU"
            )
        );
    }

    #[test]
    fn what_is_for_the_cpu_is_said_to_be_unused_beside_a_gpu() {
        let options = LoadOptions {
            device: "cuda:0".parse().unwrap(),
            threads: Some(1),
            ..LoadOptions::default()
        };
        let expected = "`threads 1` is for the CPU: `cuda:0` does all of the work";
        assert_eq!(unused_beside(&options).as_deref(), Some(expected));
        let more = LoadOptions {
            compute: Some(Compute::Int8),
            kernels: Some("avx2".to_owned()),
            ..options
        };
        let expected = "`compute int8`, `kernels avx2` and `threads 1` are for the CPU: `cuda:0` has kernels of its own, \
                        which compute in f32";
        assert_eq!(unused_beside(&more).as_deref(), Some(expected));
        assert_eq!(unused_beside(&LoadOptions::default()), None);
    }
}
