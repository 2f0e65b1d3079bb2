//! How bytes come from the memory map onto a device.

use std::sync::Mutex;

use cubecl::prelude::*;

use super::kernels::copy::copy;
use super::kernels::{Buffer, Gpu};
use crate::engine::{Error, LoadProgress};

/// Bytes of one step: what the host holds beside the map.
const STEP: usize = 32 << 20;
/// Bytes between two looks whether the load is to go on.
const LOOK: usize = 128 << 20;

/// Writes to a device in steps, and knows what went wrong there.
pub trait Transfer<R: Runtime>: Send + Sync {
    /// Writes `bytes`, whole words, from word `at` of `to` on.
    ///
    /// # Errors
    /// What went wrong on the device, now or before.
    fn write(&self, gpu: &Gpu<R>, to: &Buffer, at: usize, bytes: &[u8]) -> Result<(), Error>;

    /// What went wrong since the device was opened.
    ///
    /// # Errors
    /// That.
    fn check(&self) -> Result<(), Error>;
}

/// Through buffers of cubecl, on any runtime: a step is uploaded and copied to its place on the device.
#[cfg_attr(
    not(feature = "cuda"),
    allow(dead_code, reason = "wgpu writes in place")
)]
pub struct Steps;

impl<R: Runtime> Transfer<R> for Steps {
    fn write(&self, gpu: &Gpu<R>, to: &Buffer, at: usize, bytes: &[u8]) -> Result<(), Error> {
        let mut at = at;
        for step in bytes.chunks(STEP) {
            let from = gpu.upload_bytes(step);
            copy(gpu, &from, to, at);
            at += from.len;
            // Else the host's copies of many steps would wait together.
            gpu.finish().map_err(Error::Device)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(feature = "wgpu")]
impl Transfer<burn_wgpu::WgpuRuntime> for crate::engine::devices::Wgpu {
    fn write(
        &self,
        _: &Gpu<burn_wgpu::WgpuRuntime>,
        to: &Buffer,
        at: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        Ok(self.upload_bytes(&to.handle, 4 * at as u64, bytes)?)
    }

    fn check(&self) -> Result<(), Error> {
        Ok(Self::check(self)?)
    }
}

/// The weights' way onto the device: room for them, and the first thing that went wrong, after which nothing more is
/// tried.
pub struct Upload<R: Runtime> {
    transfer: Box<dyn Transfer<R>>,
    progress: LoadProgress,
    fault: Mutex<Option<Error>>,
}

impl<R: Runtime> Upload<R> {
    pub fn new(transfer: Box<dyn Transfer<R>>, progress: LoadProgress) -> Self {
        Self {
            transfer,
            progress,
            fault: Mutex::new(None),
        }
    }

    /// Room of its own for `len` words that are kept as long as the model.
    pub fn room(&self, gpu: &Gpu<R>, len: usize) -> Buffer {
        // Weights in the pools of activations would fill whole pages of them, up to twice their size.
        let room = gpu
            .client
            .memory_persistent_allocation((), |()| gpu.empty(len));
        room.unwrap_or_else(|error| {
            self.failed(Error::Device(format!("room for {len} words: {error:?}")));
            gpu.empty(len)
        })
    }

    /// Writes `bytes` from word `at` of `to` on; a last word that is not whole is filled up.
    pub fn write(&self, gpu: &Gpu<R>, to: &Buffer, at: usize, bytes: &[u8]) {
        if self.fault().is_some() {
            return;
        }
        for (i, bytes) in bytes.chunks(LOOK).enumerate() {
            let written = self.write_some(gpu, to, at + i * LOOK / 4, bytes);
            if let Err(error) = written {
                return self.failed(error);
            }
        }
    }

    fn write_some(&self, gpu: &Gpu<R>, to: &Buffer, at: usize, bytes: &[u8]) -> Result<(), Error> {
        self.progress.check()?;
        let (whole, rest) = bytes.split_at(bytes.len() / 4 * 4);
        self.transfer.write(gpu, to, at, whole)?;
        if !rest.is_empty() {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            self.transfer.write(gpu, to, at + whole.len() / 4, &word)?;
        }
        self.progress.uploaded(bytes.len());
        Ok(())
    }

    /// A buffer of `bytes`.
    pub fn bytes(&self, gpu: &Gpu<R>, bytes: &[u8]) -> Buffer {
        let buffer = self.room(gpu, bytes.len().div_ceil(4));
        self.write(gpu, &buffer, 0, bytes);
        buffer
    }

    /// A buffer of f32 values.
    pub fn values(&self, gpu: &Gpu<R>, values: &[f32]) -> Buffer {
        self.bytes(gpu, bytemuck::cast_slice(values))
    }

    /// What went wrong first.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), Error> {
        match self.fault() {
            Some(fault) => Err(fault),
            None => self.transfer.check(),
        }
    }

    fn fault(&self) -> Option<Error> {
        let fault = self.fault.lock();
        fault
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Keeps `error`, if it is the first.
    pub fn failed(&self, error: Error) {
        let fault = self.fault.lock();
        fault
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get_or_insert(error);
    }
}
