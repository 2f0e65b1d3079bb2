//! NVIDIA's cards, as their driver has them. Nothing of NVIDIA's is needed to build this or to start it.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::path::{Path, PathBuf};

use libloading::{Library, Symbol};

use super::drivers::{Fault, load};
use super::{Api, Device, Kind};

/// The driver's library.
const DRIVER: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "libcuda.so"]
};

/// The compiler of kernels, which comes with the CUDA toolkit or by itself.
const COMPILER: &[&str] = if cfg!(windows) {
    &[
        "nvrtc64_130_0.dll",
        "nvrtc64_120_0.dll",
        "nvrtc64_112_0.dll",
    ]
} else {
    &[
        "libnvrtc.so",
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so.11.2",
    ]
};

/// `CU_DEVICE_ATTRIBUTE_INTEGRATED`
const INTEGRATED: c_int = 18;

/// `CUDA_ERROR_NO_DEVICE`
const NO_DEVICE: c_int = 100;

/// The cards; none where there is no driver, or it does not answer.
pub fn list() -> Vec<Device> {
    found().unwrap_or_default()
}

/// Why there are no cards, where there is a driver.
pub fn fault() -> Option<Fault> {
    found().err().flatten()
}

/// The cards, else why a driver that is there gives none.
fn found() -> Result<Vec<Device>, Option<Fault>> {
    let fault = |file: &str, reason| {
        Some(Fault {
            api: Api::Cuda,
            file: Some(file.to_owned()),
            reason,
        })
    };
    let (name, library) = open(DRIVER).map_err(|broken| {
        let (name, reason) = broken?;
        fault(name, format!("it does not load: {reason}"))
    })?;
    let usable = match Api::Cuda.missing() {
        Some(missing) => Err(missing.to_owned()),
        None => compiler(),
    };
    devices(&Driver(library), &usable).map_err(|reason| fault(name, reason))
}

/// Starts cubecl on `device`, which [`list`](super::list) gave. `kernels` is where compiled kernels are kept for the next start; only
/// the first call in a process decides that.
///
/// # Errors
/// [`Refused`](super::Error::Refused) with what the driver says.
#[cfg(feature = "cuda")]
pub fn open_cuda(
    device: &Device,
    kernels: Option<&Path>,
) -> Result<burn_cuda::CudaDevice, super::Error> {
    use cubecl::Runtime;
    super::kernel_cache::configure(kernels);
    let opened = burn_cuda::CudaDevice::new(device.index);
    super::attempt::attempt(|| cubecl::cuda::CudaRuntime::client(&opened)).map_err(|reason| {
        super::Error::Refused {
            device: device.to_string(),
            reason,
        }
    })?;
    Ok(opened)
}

/// The first of these libraries that loads, and its name; else the first that is there, and why it does not.
fn open(names: &[&'static str]) -> Result<(&'static str, Library), Option<(&'static str, String)>> {
    let mut broken = None;
    for name in names {
        match load(name) {
            Ok(library) => return Ok((name, library)),
            Err(error) if error.is_there => {
                broken.get_or_insert((*name, error.reason));
            }
            Err(_) => {}
        }
    }
    Err(broken)
}

/// Whether kernels can be compiled: NVRTC, and the headers that kernels include.
fn compiler() -> Result<(), String> {
    match open(COMPILER) {
        Ok(_) => {}
        Err(None) => {
            return Err("NVRTC is missing; install the CUDA toolkit, or take Vulkan".to_owned());
        }
        Err(Some((_, reason))) => {
            return Err(format!(
                "NVRTC does not load: {reason}; install the CUDA toolkit anew, or take Vulkan"
            ));
        }
    }
    match toolkit() {
        Some(path) if path.join("include").is_dir() => Ok(()),
        _ => Err(
            "the CUDA headers are missing; install the CUDA toolkit or say with CUDA_PATH where it is, or take Vulkan"
                .to_owned(),
        ),
    }
}

/// Where cubecl looks for the headers.
fn toolkit() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CUDA_PATH") {
        return Some(path.into());
    }
    if cfg!(windows) {
        return Some("C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/".into());
    }
    let places = [
        ("/usr/local/cuda", "/usr/local/cuda"),
        ("/opt/cuda", "/opt/cuda"),
        ("/usr/bin/nvcc", "/usr"),
    ];
    let found = places.iter().find(|(sign, _)| Path::new(sign).exists())?;
    Some(found.1.into())
}

/// libcuda. Every call of it takes plain numbers and places to write to, and gives 0 where all is well.
struct Driver(Library);

type Call1 = unsafe extern "system" fn(*mut c_int) -> c_int;
type Call2 = unsafe extern "system" fn(*mut c_int, c_int) -> c_int;

#[allow(unsafe_code, reason = "a C interface")]
impl Driver {
    /// # Safety
    /// `F` is the type of the function of that name.
    unsafe fn function<F>(&self, name: &CStr) -> Option<Symbol<'_, F>> {
        // SAFETY: the caller knows the type.
        unsafe { self.0.get(name.to_bytes_with_nul()) }.ok()
    }

    /// What goes wrong is said as the driver calls it.
    fn init(&self) -> Result<(), String> {
        // SAFETY: `CUresult cuInit(unsigned int)`; the flags must be 0.
        let status = unsafe {
            self.function::<unsafe extern "system" fn(c_uint) -> c_int>(c"cuInit")
                .ok_or("it is no driver of NVIDIA: it has no `cuInit`")?(0)
        };
        match status {
            0 => Ok(()),
            NO_DEVICE => Err("it finds no card".to_owned()),
            _ => Err(match self.name_of_error(status) {
                Some(name) => format!("it does not start: {name} ({status})"),
                None => format!("it does not start: cuInit gives {status}"),
            }),
        }
    }

    fn name_of_error(&self, status: c_int) -> Option<String> {
        type Name = unsafe extern "system" fn(c_int, *mut *const c_char) -> c_int;
        let mut name = std::ptr::null();
        // SAFETY: `CUresult cuGetErrorName(CUresult, const char **)` gives a constant text, or none.
        let name = unsafe {
            let status = self.function::<Name>(c"cuGetErrorName")?(status, &raw mut name);
            (status == 0 && !name.is_null()).then(|| CStr::from_ptr(name))?
        };
        Some(name.to_string_lossy().into_owned())
    }

    /// `CUresult NAME(int *)`
    fn number(&self, name: &CStr) -> Option<c_int> {
        let mut number = 0;
        // SAFETY: cuDriverGetVersion and cuDeviceGetCount, whose type this is; one int is written.
        let status = unsafe { self.function::<Call1>(name)?(&raw mut number) };
        (status == 0).then_some(number)
    }

    fn device(&self, index: c_int) -> Option<c_int> {
        let mut device = 0;
        // SAFETY: `CUresult cuDeviceGet(CUdevice *, int)`; a CUdevice is an int.
        let status = unsafe { self.function::<Call2>(c"cuDeviceGet")?(&raw mut device, index) };
        (status == 0).then_some(device)
    }

    fn name(&self, device: c_int) -> Option<String> {
        type Name = unsafe extern "system" fn(*mut c_char, c_int, c_int) -> c_int;
        let mut name = [0_u8; 256];
        // SAFETY: `CUresult cuDeviceGetName(char *, int len, CUdevice)` writes at most `len` bytes.
        let status = unsafe {
            self.function::<Name>(c"cuDeviceGetName")?(
                name.as_mut_ptr().cast(),
                name.len() as c_int,
                device,
            )
        };
        let name = CStr::from_bytes_until_nul(&name).ok()?;
        (status == 0).then(|| name.to_string_lossy().into_owned())
    }

    fn memory(&self, device: c_int) -> Option<u64> {
        type Memory = unsafe extern "system" fn(*mut usize, c_int) -> c_int;
        let mut bytes = 0;
        // SAFETY: `CUresult cuDeviceTotalMem_v2(size_t *, CUdevice)`
        let status =
            unsafe { self.function::<Memory>(c"cuDeviceTotalMem_v2")?(&raw mut bytes, device) };
        (status == 0).then_some(bytes as u64)
    }

    fn attribute(&self, attribute: c_int, device: c_int) -> Option<c_int> {
        type Attribute = unsafe extern "system" fn(*mut c_int, c_int, c_int) -> c_int;
        let mut value = 0;
        // SAFETY: `CUresult cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice)`; an enum is an int.
        let status = unsafe {
            self.function::<Attribute>(c"cuDeviceGetAttribute")?(&raw mut value, attribute, device)
        };
        (status == 0).then_some(value)
    }
}

/// The cards, at least one.
fn devices(driver: &Driver, usable: &Result<(), String>) -> Result<Vec<Device>, String> {
    driver.init()?;
    let number = |name: &CStr| {
        let silent = || format!("`{}` gives no answer", name.to_string_lossy());
        driver.number(name).ok_or_else(silent)
    };
    let version = number(c"cuDriverGetVersion")?;
    let count = number(c"cuDeviceGetCount")?;
    let device = |index| {
        let device = driver.device(index)?;
        let memory = driver.memory(device);
        let integrated = driver.attribute(INTEGRATED, device) == Some(1);
        Some(Device {
            api: Api::Cuda,
            index: index as usize,
            name: driver.name(device)?,
            kind: if integrated {
                Kind::Integrated
            } else {
                Kind::Discrete
            },
            driver: format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
            memory,
            largest_binding: memory.unwrap_or(0),
            usable: usable.clone(),
        })
    };
    let devices: Vec<Device> = (0..count).filter_map(device).collect();
    if devices.is_empty() {
        return Err("it finds no card".to_owned());
    }
    Ok(devices)
}
