//! A model on a device: loaded step by step, warmed up, with its figures; what it held is given back with it.

use std::time::{Duration, Instant};

use burn_cubecl::CubeRuntime;
use cubecl::prelude::*;

use super::kernels::Gpu;
use super::kernels::copy::stream;
use super::{Cube, Transfer};
use crate::checkpoint::Checkpoint;
use crate::engine::{
    Cancel, DeviceFigures, Draw, Drawn, EngineOptions, Error, LanguageModel, Likeliest, Loaded,
    devices, load::weight_bytes,
};

/// Tokens of the passes that warm up, and how many ids are wanted after them: each has kernels of its own.
const PASSES: [(usize, usize); 8] = [
    (64, 1),
    (17, 1),
    (16, 1),
    (8, 1),
    (4, 1),
    (2, 1),
    (1, 1),
    (1, 2),
];
/// A draw that uses all its kernels.
const DRAW: Draw = Draw {
    temperature: 1.0,
    min_p: 0.5,
    at: 0.5,
};
/// Bytes of each of the two buffers between which a bandwidth is measured, where the device binds so many: more than
/// the cache of any card.
const BUFFER: u64 = 256 << 20;
/// How long that takes.
const TIME: Duration = Duration::from_millis(300);

/// A transformer on a device, with its cache.
pub struct OnDevice<R: CubeRuntime> {
    loaded: Loaded<Cube<R>>,
    /// After the weights, which are to be gone when it is dropped.
    _room: Room<R>,
}

/// What a runtime keeps of the memory it was given back. It would keep it for ever, and the next model needs it.
struct Room<R: Runtime>(ComputeClient<R>);

impl<R: Runtime> Drop for Room<R> {
    fn drop(&mut self) {
        self.0.memory_cleanup();
        // Some kernels are compiled after the load, or before it was stopped.
        devices::keep_kernels();
    }
}

/// Loads `checkpoint` onto `device`, which is called `name` in the figures.
///
/// # Errors
/// As [`Cube::new`] and [`OnDevice::new`].
pub fn load<R: CubeRuntime>(
    device: R::Device,
    name: &str,
    transfer: Box<dyn Transfer<R>>,
    checkpoint: &Checkpoint,
    options: &EngineOptions,
) -> Result<Box<dyn LanguageModel>, Error> {
    let engine = Cube::new(device, name, transfer, &checkpoint.config, options)?;
    Ok(Box::new(OnDevice::new(engine, checkpoint, options)?))
}

impl<R: CubeRuntime> OnDevice<R> {
    /// The weights of `checkpoint` on `engine`, an empty cache, and every kernel ready.
    ///
    /// # Errors
    /// As [`Loaded::new`]; [`Error::Stopped`], and what the first forward passes say.
    pub fn new(
        engine: Cube<R>,
        checkpoint: &Checkpoint,
        options: &EngineOptions,
    ) -> Result<Self, Error> {
        let progress = &options.progress;
        let room = Room(engine.gpu.client.clone());
        progress.upload(weight_bytes(checkpoint, options));
        let mut loaded = Loaded::new(engine, checkpoint, options)?;
        progress.compile();
        for (tokens, k) in PASSES {
            let tokens = vec![0; tokens.min(loaded.context())];
            let pass = loaded.likeliest(&tokens, k, progress.stop())?;
            loaded.truncate(0);
            pass.ok_or(Error::Stopped)?;
        }
        let pass = loaded.draw(&[0], DRAW, progress.stop())?;
        loaded.truncate(0);
        pass.ok_or(Error::Stopped)?;
        devices::keep_kernels();
        Ok(Self {
            loaded,
            _room: room,
        })
    }

    fn engine(&self) -> &Cube<R> {
        self.loaded.transformer.engine()
    }
}

impl<R: CubeRuntime> LanguageModel for OnDevice<R> {
    fn vocab_size(&self) -> usize {
        self.loaded.vocab_size()
    }

    fn context(&self) -> usize {
        self.loaded.context()
    }

    fn truncate(&mut self, len: usize) {
        self.loaded.truncate(len);
    }

    fn forward(
        &mut self,
        tokens: &[u32],
        logits: usize,
        cancel: &Cancel,
    ) -> Result<Option<Vec<f32>>, Error> {
        self.loaded.forward(tokens, logits, cancel)
    }

    fn likeliest(
        &mut self,
        tokens: &[u32],
        k: usize,
        cancel: &Cancel,
    ) -> Result<Option<Likeliest>, Error> {
        self.loaded.likeliest(tokens, k, cancel)
    }

    fn draw(
        &mut self,
        tokens: &[u32],
        draw: Draw,
        cancel: &Cancel,
    ) -> Result<Option<Drawn>, Error> {
        self.loaded.draw(tokens, draw, cancel)
    }

    fn describe(&self) -> String {
        self.loaded.describe()
    }

    fn device_figures(&self) -> Option<DeviceFigures> {
        let engine = self.engine();
        Some(DeviceFigures {
            launches: engine.launches(),
            crossed: engine.crossed(),
            memory: engine.reserved(),
        })
    }
}

/// Bytes a second that the memory of `device` reads and writes together, with at most `most` bytes of it, and how long
/// measuring took. What it takes it gives back.
///
/// # Errors
/// [`Error::Device`] where the device failed.
pub fn bandwidth<R: Runtime>(device: &R::Device, most: u64) -> Result<(f64, Duration), Error> {
    let gpu = Gpu::<R>::new(R::client(device));
    let start = Instant::now();
    let measured = copying(&gpu, most / 2).map_err(Error::Device);
    gpu.client.memory_cleanup();
    Ok((measured?, start.elapsed()))
}

/// Bytes a second between two buffers of at most `most` bytes, the best of many goes.
fn copying<R: Runtime>(gpu: &Gpu<R>, most: u64) -> Result<f64, String> {
    let most = gpu.binding_limit().min(BUFFER).min(most);
    let words = (most / 16 * 4) as usize;
    let (from, to) = (gpu.empty(words), gpu.empty(words));
    stream(gpu, &from, &to);
    gpu.finish()?;
    let (mut launches, mut best) = (1, 0.0_f64);
    let begin = Instant::now();
    while begin.elapsed() < TIME {
        let start = Instant::now();
        for _ in 0..launches {
            stream(gpu, &from, &to);
        }
        gpu.finish()?;
        let time = start.elapsed();
        best = best.max((2 * 4 * words * launches) as f64 / time.as_secs_f64());
        // Waiting for the end takes time too, of which little is to be measured.
        if time < TIME / 10 {
            launches *= 2;
        }
    }
    Ok(best)
}
