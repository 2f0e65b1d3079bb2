//! A checkpoint onto the device that was asked for, whichever API that is.

use std::time::{Duration, Instant};

#[cfg(any(feature = "wgpu", feature = "cuda"))]
use super::cube;
use super::devices::{self, Chosen};
use super::{
    EngineOptions, Error, LanguageModel, Loaded, candle, device_weight_bytes, expert_layer_bytes,
};
use crate::checkpoint::Checkpoint;

/// Bytes that the weights of `checkpoint` take on a device other than the CPU.
pub fn weight_bytes(checkpoint: &Checkpoint, options: &EngineOptions) -> u64 {
    let (config, published) = (&checkpoint.config, checkpoint.summary().weight_bytes());
    let layers = config.num_hidden_layers;
    let elsewhere = layers - options.gpu_layers.unwrap_or(layers).min(layers);
    device_weight_bytes(config, published, options.dense)
        .saturating_sub(elsewhere as u64 * expert_layer_bytes(config, published))
}

/// Loads a checkpoint onto the device of `options`.
///
/// # Errors
/// [`Error::Context`], [`Error::Device`], [`Error::Gpu`]
pub fn load(
    checkpoint: &Checkpoint,
    options: &EngineOptions,
) -> Result<Box<dyn LanguageModel>, Error> {
    options.progress.check()?;
    match devices::choose(&options.device, weight_bytes(checkpoint, options))?.0 {
        Chosen::Cpu => {
            let engine = candle::Cpu::new(options)?;
            Ok(Box::new(Loaded::new(engine, checkpoint, options)?))
        }
        Chosen::Gpu(device) => on_gpu(checkpoint, options, &device),
    }
}

/// Loads a checkpoint onto a device other than the CPU.
#[cfg_attr(
    not(any(feature = "wgpu", feature = "cuda")),
    allow(unused_variables, reason = "such a build loads onto none")
)]
fn on_gpu(
    checkpoint: &Checkpoint,
    options: &EngineOptions,
    device: &devices::Device,
) -> Result<Box<dyn LanguageModel>, Error> {
    let name = format!("{device} ({})", device.name);
    match device.api {
        #[cfg(feature = "wgpu")]
        devices::Api::Metal | devices::Api::Vulkan => {
            let open = devices::open_wgpu(device, options.kernel_cache.as_deref())?;
            let id = open.device.clone();
            cube::load(id, &name, Box::new(open), checkpoint, options)
        }
        #[cfg(all(feature = "cuda", not(target_os = "macos")))]
        devices::Api::Cuda => {
            let id = devices::open_cuda(device, options.kernel_cache.as_deref())?;
            let steps = Box::new(cube::Steps);
            cube::load::<cubecl::cuda::CudaRuntime>(id, &name, steps, checkpoint, options)
        }
        #[allow(
            unreachable_patterns,
            reason = "what this build has none of is not listed as usable"
        )]
        api => Err(without(device, api)),
    }
}

/// How fast the memory of a device is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Bytes that are read and written together.
    pub bytes_per_second: f64,
    /// How long it took to open the device first.
    pub opening: Duration,
}

/// Measures how fast the memory of the device of `options` is, with at most `most` bytes of it; `None` for the CPU.
///
/// # Errors
/// [`Error::Device`] and [`Error::Gpu`] where the device failed.
pub fn device_bandwidth(
    options: &EngineOptions,
    most: Option<u64>,
) -> Result<Option<Bandwidth>, Error> {
    let Chosen::Gpu(device) = devices::choose(&options.device, 0)?.0 else {
        return Ok(None);
    };
    let start = Instant::now();
    let most = most.or(device.memory).unwrap_or(u64::MAX);
    let (bytes_per_second, measuring) = bandwidth_of(&device, options, most)?;
    Ok(Some(Bandwidth {
        bytes_per_second,
        opening: start.elapsed().saturating_sub(measuring),
    }))
}

/// Bytes a second of the memory of `device`, and how long measuring took.
#[cfg_attr(
    not(any(feature = "wgpu", feature = "cuda")),
    allow(unused_variables, reason = "a build with neither has no device")
)]
fn bandwidth_of(
    device: &devices::Device,
    options: &EngineOptions,
    most: u64,
) -> Result<(f64, Duration), Error> {
    match device.api {
        #[cfg(feature = "wgpu")]
        devices::Api::Metal | devices::Api::Vulkan => {
            let open = devices::open_wgpu(device, options.kernel_cache.as_deref())?;
            let measured = cube::bandwidth::<cubecl::wgpu::WgpuRuntime>(&open.device, most);
            open.check()?;
            measured
        }
        #[cfg(all(feature = "cuda", not(target_os = "macos")))]
        devices::Api::Cuda => {
            let id = devices::open_cuda(device, options.kernel_cache.as_deref())?;
            cube::bandwidth::<cubecl::cuda::CudaRuntime>(&id, most)
        }
        #[allow(
            unreachable_patterns,
            reason = "what this build has none of is not listed as usable"
        )]
        api => Err(without(device, api)),
    }
}

/// Why a build without `api` cannot compute on `device`.
fn without(device: &devices::Device, api: devices::Api) -> Error {
    Error::Device(format!(
        "`{device}`: {}",
        api.missing().unwrap_or("this build cannot use it")
    ))
}
