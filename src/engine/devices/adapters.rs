//! What wgpu finds: Metal on macOS, Vulkan elsewhere.

#[cfg(not(target_os = "macos"))]
use std::ffi::CStr;

use cubecl::future::block_on;
use wgpu::{Adapter, Backend, Backends, DeviceType, Instance, Limits};

use super::attempt::attempt;
use super::{Api, Device, Kind};

/// The API of this system.
pub const API: Api = if cfg!(target_os = "macos") {
    Api::Metal
} else {
    Api::Vulkan
};

/// Its name in wgpu.
pub const BACKEND: Backend = if cfg!(target_os = "macos") {
    Backend::Metal
} else {
    Backend::Vulkan
};

/// What our kernels are written for.
const UNITS_PER_CUBE: u32 = 256;
const SHARED_BYTES: u32 = 16 << 10;
/// Eight arrays, and one that cubecl adds for lengths and scalars.
const BINDINGS: u32 = 9;
/// The least that WebGPU promises.
const BINDING_BYTES: u64 = 128 << 20;

/// The devices alone.
pub fn list() -> Vec<Device> {
    let found = all().map(|(_, devices)| devices).unwrap_or_default();
    found.into_iter().map(|(device, _)| device).collect()
}

/// The devices with what opens them.
///
/// # Errors
/// What the driver says where it gives none, or panics.
pub fn all() -> Result<(Instance, Vec<(Device, Adapter)>), String> {
    let (instance, adapters) = attempt(|| {
        let instance = instance()?;
        let adapters = block_on(instance.enumerate_adapters(Backends::from(BACKEND)));
        Ok::<_, String>((instance, adapters))
    })
    .flatten()?;
    let devices = adapters
        .into_iter()
        .enumerate()
        .map(|(index, adapter)| (device(index, &adapter), adapter))
        .collect();
    Ok((instance, devices))
}

/// Vulkan without windows: where these are asked for, Mesa looks for a screen and complains on standard error that there
/// is none.
#[cfg(not(target_os = "macos"))]
fn instance() -> Result<Instance, String> {
    use std::error::Error as _;
    use wgpu::hal::{InstanceDescriptor, api, vulkan};
    const WINDOWS: [&CStr; 3] = [
        c"VK_KHR_wayland_surface",
        c"VK_KHR_xcb_surface",
        c"VK_KHR_xlib_surface",
    ];
    let descriptor = InstanceDescriptor {
        name: "gptoss",
        flags: wgpu::InstanceFlags::default(),
        memory_budget_thresholds: wgpu::MemoryBudgetThresholds::default(),
        backend_options: wgpu::BackendOptions::default(),
        telemetry: None,
        display: None,
    };
    // SAFETY: the callback only leaves out extensions for surfaces, which wgpu looks up before it uses them and which
    // nothing here does; the instance is used through wgpu alone.
    #[allow(unsafe_code, reason = "wgpu's own way asks for windows")]
    unsafe {
        let instance = vulkan::Instance::init_with_callback(
            &descriptor,
            Some(Box::new(|asked| {
                asked.extensions.retain(|name| !WINDOWS.contains(name));
            })),
        );
        let instance = instance.map_err(|error| match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        })?;
        Ok(Instance::from_hal::<api::Vulkan>(instance))
    }
}

#[cfg(target_os = "macos")]
#[allow(clippy::unnecessary_wraps, reason = "as elsewhere")]
fn instance() -> Result<Instance, String> {
    Ok(Instance::new(wgpu::InstanceDescriptor {
        backends: Backends::from(BACKEND),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    }))
}

fn device(index: usize, adapter: &Adapter) -> Device {
    let info = adapter.get_info();
    let limits = adapter.limits();
    let kind = match info.device_type {
        DeviceType::DiscreteGpu => Kind::Discrete,
        DeviceType::IntegratedGpu => Kind::Integrated,
        DeviceType::VirtualGpu | DeviceType::Other => Kind::Virtual,
        DeviceType::Cpu => Kind::Software,
    };
    let driver = format!("{} {}", info.driver, info.driver_info);
    Device {
        api: API,
        index,
        name: info.name,
        kind,
        driver: driver.trim().to_owned(),
        memory: memory(adapter),
        largest_binding: limits
            .max_storage_buffer_binding_size
            .min(limits.max_buffer_size),
        usable: match API.missing() {
            Some(missing) => Err(missing.to_owned()),
            None => suffices(&limits),
        },
    }
}

/// Whether our kernels run within `limits`.
fn suffices(limits: &Limits) -> Result<(), String> {
    let least = [
        (
            "units in a workgroup",
            limits.max_compute_invocations_per_workgroup.into(),
            UNITS_PER_CUBE.into(),
        ),
        (
            "bytes of shared memory",
            limits.max_compute_workgroup_storage_size.into(),
            SHARED_BYTES.into(),
        ),
        (
            "arrays in a kernel",
            limits.max_storage_buffers_per_shader_stage.into(),
            BINDINGS.into(),
        ),
        (
            "bytes in an array",
            limits.max_storage_buffer_binding_size,
            BINDING_BYTES,
        ),
    ];
    match least.iter().find(|(_, has, needs)| has < needs) {
        Some((what, has, needs)) => Err(format!("it has {has} {what} and {needs} are needed")),
        None => Ok(()),
    }
}

/// The largest heap on the device.
#[cfg(not(target_os = "macos"))]
fn memory(adapter: &Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the adapter is only asked, and lives longer than what is taken from it.
    #[allow(unsafe_code, reason = "wgpu itself does not tell")]
    let heaps = unsafe {
        let adapter = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let instance = adapter.shared_instance().raw_instance();
        instance.get_physical_device_memory_properties(adapter.raw_physical_device())
    };
    let heaps = &heaps.memory_heaps[..heaps.memory_heap_count as usize];
    heaps
        .iter()
        .filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0)
        .map(|heap| heap.size)
        .max()
}

/// Two thirds of the machine's, which is what macOS lets a GPU have of the common memory.
#[cfg(target_os = "macos")]
fn memory(_: &Adapter) -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    Some(system.total_memory() / 3 * 2).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_limit_that_is_too_low() {
        let enough = Limits {
            max_compute_invocations_per_workgroup: 256,
            max_compute_workgroup_storage_size: 16384,
            max_storage_buffers_per_shader_stage: 9,
            max_storage_buffer_binding_size: 134_217_728,
            ..Limits::default()
        };
        assert_eq!(suffices(&enough), Ok(()));
        let short = Limits {
            max_storage_buffers_per_shader_stage: 8,
            ..enough.clone()
        };
        assert_eq!(
            suffices(&short),
            Err("it has 8 arrays in a kernel and 9 are needed".to_owned())
        );
        let short = Limits {
            max_compute_invocations_per_workgroup: 128,
            ..enough
        };
        assert!(
            suffices(&short)
                .unwrap_err()
                .starts_with("it has 128 units")
        );
    }
}
