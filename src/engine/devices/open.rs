//! A device opened through wgpu, watched for what goes wrong, and filled from the memory map.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use cubecl::Runtime;
use cubecl::client::ComputeClient;
use cubecl::future::block_on;
use cubecl::server::Handle;
use cubecl::wgpu::{RuntimeOptions, WgpuDevice, WgpuRuntime, WgpuSetup, init_device};
use wgpu::{Adapter, DeviceLostReason, PollType, Queue, SubmissionIndex};

use super::attempt::attempt;
use super::{Device, Error, adapters, kernel_cache};
use crate::engine::one_line;

/// Bytes that are on their way at once, twice: one piece is copied while the one before is.
const PIECE: usize = 32 << 20;

/// Devices that are open: cubecl keeps each until the program ends, so that opening one again would be a second one.
static OPEN: Mutex<Vec<Wgpu>> = Mutex::new(Vec::new());

/// An open device. Clones are the same one.
#[derive(Clone)]
pub struct Wgpu {
    /// What cubecl calls it.
    pub device: WgpuDevice,
    name: String,
    /// As the driver calls it.
    model: String,
    gpu: wgpu::Device,
    queue: Queue,
    fault: Arc<Mutex<Option<Fault>>>,
}

/// What went wrong first.
#[derive(Clone, Debug)]
enum Fault {
    OutOfMemory,
    Lost(String),
    Other(String),
}

/// Opens `device`, which [`list`](super::list) gave; one that is open and well is given again, with all that is on it.
/// `kernels` is where compiled kernels are kept for the next start; only the first call in a process decides that.
///
/// # Errors
/// [`Error::NotThere`] where it is gone meanwhile, [`Error::Refused`] with what the driver says.
pub fn open_wgpu(device: &Device, kernels: Option<&Path>) -> Result<Wgpu, Error> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    open.retain(|open| open.check().is_ok());
    let same = |open: &&Wgpu| open.name == device.to_string() && open.model == device.name;
    if let Some(open) = open.iter().find(same) {
        return Ok(open.clone());
    }
    let opened = open_anew(device, kernels)?;
    open.push(opened.clone());
    Ok(opened)
}

fn open_anew(device: &Device, kernels: Option<&Path>) -> Result<Wgpu, Error> {
    kernel_cache::configure(kernels);
    let name = device.to_string();
    let refused = |reason: String| Error::Refused {
        device: name.clone(),
        reason,
    };
    let same =
        |(there, _): &(Device, Adapter)| (there.index, &there.name) == (device.index, &device.name);
    let found = adapters::all().ok().and_then(|(instance, found)| {
        let (_, adapter) = found.into_iter().find(same)?;
        Some((instance, adapter))
    });
    let Some((instance, adapter)) = found else {
        return Err(Error::NotThere {
            choice: device.choice(),
            available: vec!["another".to_owned()],
            reason: ": it was there before".to_owned(),
        });
    };
    let (gpu, queue) = attempt(|| request(&adapter))
        .and_then(|requested| requested)
        .map_err(refused)?;

    let fault = Arc::new(Mutex::new(None));
    watch(&gpu, &fault);
    let setup = WgpuSetup {
        instance,
        adapter,
        device: gpu.clone(),
        queue: queue.clone(),
        backend: adapters::BACKEND,
    };
    let opened = attempt(|| init_device(setup, RuntimeOptions::default())).map_err(refused)?;
    Ok(Wgpu {
        device: opened,
        model: device.name.clone(),
        name,
        gpu,
        queue,
        fault,
    })
}

/// The device with all it can do, as cubecl's compilers expect it.
fn request(adapter: &Adapter) -> Result<(wgpu::Device, Queue), String> {
    #[cfg(target_os = "macos")]
    {
        Ok(block_on(cubecl::wgpu::metal::request_metal_device(adapter)))
    }
    #[cfg(not(target_os = "macos"))]
    {
        use wgpu::{DeviceDescriptor, Features, MemoryHints};
        // SPIR-V needs extensions that wgpu does not ask for by itself.
        if let Some(opened) = block_on(cubecl::wgpu::vulkan::request_vulkan_device(adapter)) {
            return Ok(opened);
        }
        block_on(
            adapter.request_device(&DeviceDescriptor {
                required_features: adapter
                    .features()
                    .difference(Features::MAPPABLE_PRIMARY_BUFFERS)
                    .difference(Features::all_experimental_mask()),
                required_limits: adapter.limits(),
                memory_hints: MemoryHints::MemoryUsage,
                ..DeviceDescriptor::default()
            }),
        )
        .map_err(|error| error.to_string())
    }
}

/// Keeps the first thing that goes wrong. Without this wgpu panics, on whatever thread it is.
fn watch(device: &wgpu::Device, fault: &Arc<Mutex<Option<Fault>>>) {
    let keep = |fault: &Mutex<Option<Fault>>, what| {
        fault
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(what);
    };
    let kept = Arc::clone(fault);
    device.on_uncaptured_error(Arc::new(move |error| {
        let what = match error {
            wgpu::Error::OutOfMemory { .. } => Fault::OutOfMemory,
            error => Fault::Other(one_line(&error.to_string())),
        };
        keep(&kept, what);
    }));
    let kept = Arc::clone(fault);
    device.set_device_lost_callback(move |reason, message| {
        // Closing it is no loss.
        if reason != DeviceLostReason::Destroyed {
            keep(&kept, Fault::Lost(one_line(&message)));
        }
    });
}

impl Wgpu {
    /// What kernels are launched through.
    pub fn client(&self) -> ComputeClient<WgpuRuntime> {
        WgpuRuntime::client(&self.device)
    }

    /// Whether anything went wrong since it was opened. To be asked after work is done: errors come late.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Lost`], [`Error::Failed`]: what went wrong first.
    pub fn check(&self) -> Result<(), Error> {
        let device = || self.name.clone();
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match fault.clone() {
            None => Ok(()),
            Some(Fault::OutOfMemory) => Err(Error::OutOfMemory { device: device() }),
            Some(Fault::Lost(reason)) => Err(Error::Lost {
                device: device(),
                reason,
            }),
            Some(Fault::Other(reason)) => Err(Error::Failed {
                device: device(),
                reason,
            }),
        }
    }

    /// Writes `bytes` from the byte `offset` of `handle` on; both in whole words of four bytes. At most two pieces of
    /// 32 MiB are on their way, so the host holds no second copy.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    ///
    /// # Panics
    /// Where `bytes` do not fit into `handle`.
    pub fn upload_bytes(&self, handle: &Handle, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        assert!(
            offset.is_multiple_of(4) && bytes.len().is_multiple_of(4),
            "{} bytes at {offset} are no whole words",
            bytes.len()
        );
        let client = self.client();
        let resource = attempt(|| client.get_resource(handle.clone()))
            .and_then(|resource| resource.map_err(|error| one_line(&format!("{error:?}"))))
            .map_err(|reason| self.failed(reason))?;
        self.check()?;
        let resource = resource.resource();
        assert!(
            offset + bytes.len() as u64 <= resource.size,
            "{} bytes at {offset} do not fit into {}",
            bytes.len(),
            resource.size
        );
        let (mut at, mut before) = (resource.offset + offset, None);
        for piece in bytes.chunks(PIECE) {
            self.queue.write_buffer(&resource.buffer, at, piece);
            at += piece.len() as u64;
            // What is written is given back with a submission only.
            let this = self.queue.submit([]);
            if let Some(before) = before.replace(this) {
                self.wait_for(before)?;
            }
            self.check()?;
        }
        match before {
            Some(last) => self.wait_for(last),
            None => Ok(()),
        }
    }

    fn wait_for(&self, submission: SubmissionIndex) -> Result<(), Error> {
        let wait = PollType::Wait {
            submission_index: Some(submission),
            timeout: None,
        };
        match self.gpu.poll(wait) {
            Ok(_) => self.check(),
            Err(error) => self
                .check()
                .and_then(|()| Err(self.failed(error.to_string()))),
        }
    }

    fn failed(&self, reason: String) -> Error {
        Error::Failed {
            device: self.name.clone(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    /// A device of this test alone: lavapipe, where it is installed.
    fn alone() -> Option<Wgpu> {
        let mut devices = adapters::list().into_iter();
        let software = devices.find(|device| device.kind == Kind::Software)?;
        Some(open_anew(&software, None).unwrap())
    }

    #[test]
    fn what_the_driver_refuses_is_an_error_and_no_panic() {
        let Some(open) = alone() else { return };
        let client = open.client();
        let handle = client.empty(64);
        assert_eq!(open.upload_bytes(&handle, 0, &[1; 64]), Ok(()));
        let size = open.gpu.limits().max_buffer_size + 4;
        let _refused = open.gpu.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage: wgpu::BufferUsages::STORAGE,
            mapped_at_creation: false,
        });
        let error = open.check().unwrap_err();
        assert!(
            matches!(&error, Error::Failed { reason, .. } if reason.contains(&size.to_string())),
            "{error}"
        );
        // The first thing that went wrong stays.
        assert_eq!(open.upload_bytes(&handle, 0, &[1; 64]), Err(error));
    }

    #[test]
    fn a_device_that_goes_away_is_an_error_and_no_panic() {
        let Some(open) = alone() else { return };
        let handle = open.client().empty(64);
        assert_eq!(open.upload_bytes(&handle, 0, &[1; 64]), Ok(()));
        open.gpu.destroy();
        let error = open.upload_bytes(&handle, 0, &[1; 64]).unwrap_err();
        assert!(
            matches!(error, Error::Failed { .. } | Error::Lost { .. }),
            "{error}"
        );
    }

    #[test]
    #[should_panic(expected = "68 bytes at 0 do not fit into 64")]
    fn more_than_there_is_room_for_is_not_written() {
        let Some(open) = alone() else {
            panic!("68 bytes at 0 do not fit into 64");
        };
        let handle = open.client().empty(64);
        let _ = open.upload_bytes(&handle, 0, &[1; 68]);
    }
}
