//! The kernels of gpt-oss in `CubeCL`: one source for Vulkan, Metal and CUDA.
//!
//! Weights are words of 32 bits, activations and sums f32: no runtime lacks these. A kernel takes arrays and plain
//! numbers, since shapes cost an upload at each launch on CUDA. Every weight comes in pieces no larger than a
//! device binds at once.

pub mod argmax;
pub mod attention;
pub mod copy;
pub mod draw;
pub mod embed;
pub mod experts;
pub mod history;
pub mod linear;
pub mod norm;
pub mod route;
mod sums;
mod words;

use std::sync::atomic::{AtomicU64, Ordering};

use cubecl::prelude::*;
use cubecl::server::Handle;

/// Words of 32 bits on a device: f32 values, token ids, packed weights.
#[derive(Clone)]
pub struct Buffer {
    /// Where it is.
    pub handle: Handle,
    /// How many words.
    pub len: usize,
}

impl Buffer {
    /// The whole of it, for a kernel that takes an `Array` of any type of that many words.
    pub fn arg<R: Runtime>(&self) -> ArrayArg<R> {
        // SAFETY: `len` words is what was allocated under this handle; both are set together in `Gpu`.
        #[allow(unsafe_code, reason = "how cubecl takes a buffer")]
        unsafe {
            ArrayArg::from_raw_parts(self.handle.clone(), self.len)
        }
    }
}

/// A device with what the kernels must know of it, and how often it was used.
pub struct Gpu<R: Runtime> {
    /// The queue to it.
    pub client: ComputeClient<R>,
    /// Units that add among themselves, where their number is fixed. `None`: sums go through shared memory.
    pub plane: Option<u32>,
    launches: AtomicU64,
    crossed: AtomicU64,
}

impl<R: Runtime> Gpu<R> {
    /// Planes are used where the device has them and all are of one size.
    pub fn new(client: ComputeClient<R>) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let planes = properties
            .features
            .plane
            .contains(cubecl::features::Plane::Ops)
            && hardware.plane_size_min == hardware.plane_size_max;
        let plane = planes.then_some(hardware.plane_size_max);
        Self {
            client,
            plane,
            launches: AtomicU64::new(0),
            crossed: AtomicU64::new(0),
        }
    }

    /// The same with planes, also where the runtime does not offer them but the device has them of one size, as software
    /// devices do; `None` where it does not.
    pub fn with_planes(mut self) -> Option<Self> {
        let hardware = &self.client.properties().hardware;
        let size = hardware.plane_size_max;
        let fixed = hardware.plane_size_min == size && size > 1;
        self.plane = Some(size);
        fixed.then_some(self)
    }

    /// The same without planes, as on devices that have none of a fixed size.
    #[must_use]
    pub fn without_planes(mut self) -> Self {
        self.plane = None;
        self
    }

    /// Room for `len` words, with anything in it.
    pub fn empty(&self, len: usize) -> Buffer {
        Buffer {
            handle: self.client.empty(4 * len),
            len,
        }
    }

    /// A copy of `words` on the device.
    pub fn upload<T: bytemuck::NoUninit>(&self, words: &[T]) -> Buffer {
        const { assert!(size_of::<T>() == 4) };
        self.crossed
            .fetch_add(4 * words.len() as u64, Ordering::Relaxed);
        self.upload_bytes(bytemuck::cast_slice(words))
    }

    /// A copy of whole words on the device.
    pub fn upload_bytes(&self, bytes: &[u8]) -> Buffer {
        assert!(bytes.len().is_multiple_of(4), "{} bytes", bytes.len());
        Buffer {
            handle: self.client.create_from_slice(bytes),
            len: bytes.len() / 4,
        }
    }

    /// The words of a buffer, once everything before is done.
    ///
    /// # Errors
    /// What the runtime says.
    pub fn read(&self, buffer: Buffer) -> Result<Vec<u32>, String> {
        self.read_all(vec![buffer]).map(|mut read| read.remove(0))
    }

    /// The words of several buffers, once everything before is done.
    ///
    /// # Errors
    /// What the runtime says.
    pub fn read_all(&self, buffers: Vec<Buffer>) -> Result<Vec<Vec<u32>>, String> {
        let lengths: Vec<usize> = buffers.iter().map(|buffer| buffer.len).collect();
        let words: usize = lengths.iter().sum();
        self.crossed.fetch_add(4 * words as u64, Ordering::Relaxed);
        let handles = buffers.into_iter().map(|buffer| buffer.handle).collect();
        let read = self.client.read_async(handles);
        let read = cubecl::future::block_on(read).map_err(said)?;
        let of = |(bytes, len): (cubecl::bytes::Bytes, usize)| {
            bytemuck::pod_collect_to_vec(&bytes[..4 * len])
        };
        Ok(read.into_iter().zip(lengths).map(of).collect())
    }

    /// Waits until everything before is done.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn finish(&self) -> Result<(), String> {
        cubecl::future::block_on(self.client.sync()).map_err(said)
    }

    /// Bytes that were uploaded or read back so far, weights apart.
    pub fn crossed(&self) -> u64 {
        self.crossed.load(Ordering::Relaxed)
    }

    /// Counts one launch; every launcher calls it.
    pub fn count(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// Launches so far.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// The most bytes that a kernel can be given in one array.
    pub fn binding_limit(&self) -> u64 {
        self.client.properties().memory.max_page_size
    }
}

/// A runtime's error without its backtrace.
fn said(error: impl std::fmt::Debug) -> String {
    let text = format!("{error:?}");
    crate::engine::one_line(text.split("backtrace").next().unwrap_or_default())
}

#[cfg(test)]
pub mod testing;
