//! The GPU kernels against the reference, on every Vulkan or Metal device of this machine; lavapipe is one.

use std::ops::ControlFlow;
use std::time::Duration;

use burn_wgpu::WgpuRuntime;
use gptoss::checkpoint::Checkpoint;
use gptoss::engine::cube::{Cube, Steps, Transfer};
use gptoss::engine::devices::{self, Api, Device};
use gptoss::engine::model::Transformer;
use gptoss::engine::{Cancel, Dense, EngineOptions, Error, KvType, LanguageModel, Loaded, load};

use crate::model::{GREEDY, exact, follows_the_reference, prefill, prompts};

/// Logits of a GPU against the oracle.
const LOGITS: f32 = 5e-3;

fn here() -> Vec<Device> {
    let devices = devices::list().into_iter();
    let devices: Vec<_> = devices
        .filter(|device| device.api != Api::Cuda && device.usable.is_ok())
        .collect();
    assert!(
        !devices.is_empty(),
        "no device; on Debian `mesa-vulkan-drivers` has one"
    );
    devices
}

fn engine(device: &Device, options: &EngineOptions) -> Cube<WgpuRuntime> {
    let open = devices::open_wgpu(device, None).unwrap();
    let id = open.device.clone();
    let config = Checkpoint::tiny().config;
    Cube::new(id, "test", Box::new(open), &config, options).unwrap()
}

fn loaded(device: &Device, options: &EngineOptions) -> Loaded<Cube<WgpuRuntime>> {
    Loaded::new(engine(device, options), &Checkpoint::tiny(), options).unwrap()
}

#[test]
fn the_kernels_follow_the_reference_token_for_token() {
    for device in here() {
        let options = EngineOptions {
            device: device.choice(),
            ..exact()
        };
        let mut model = load(&Checkpoint::tiny(), &options).unwrap();
        let worst = follows_the_reference(model.as_mut(), LOGITS, GREEDY);
        println!(
            "{}: largest difference of a logit {worst:e}",
            model.describe()
        );
    }
}

#[test]
fn sums_within_planes_follow_the_reference_too() {
    for device in here() {
        let Some(engine) = engine(&device, &exact()).with_planes() else {
            println!("{device}: its planes have no fixed size");
            continue;
        };
        let mut model = Loaded::new(engine, &Checkpoint::tiny(), &exact()).unwrap();
        let worst = follows_the_reference(&mut model, LOGITS, 4);
        println!("{device} with planes: largest difference of a logit {worst:e}");
    }
}

#[test]
fn chunks_and_rewinding_change_nothing_but_rounding() {
    let prompt = &prompts()[0].ids.repeat(12)[..300];
    for device in here() {
        for kv_type in [KvType::F32, KvType::Bf16, KvType::Q8] {
            let options = EngineOptions { kv_type, ..exact() };
            let mut model = loaded(&device, &options);
            let whole = prefill(&mut model, prompt, 512);
            for chunk in [8, 9, 64, 129] {
                model.truncate(37);
                let again = prefill(&mut model, &prompt[37..], chunk);
                let worst = whole.iter().zip(&again).map(|(a, b)| (a - b).abs());
                let worst = worst.fold(0.0, f32::max);
                // A stored key that falls to the other side of a step of its type is what chunks may change.
                let tolerance = match kv_type {
                    KvType::F32 => 1e-3,
                    KvType::Bf16 => 0.1,
                    KvType::Q8 => 0.3,
                };
                assert!(worst < tolerance, "{device}, chunks of {chunk}: {worst}");
            }
        }
    }
}

#[test]
fn a_token_costs_few_launches_no_memory_and_nothing_crosses_but_its_id() {
    let checkpoint = Checkpoint::tiny();
    let layers = checkpoint.config.num_hidden_layers as u64;
    for device in here() {
        let transformer = Transformer::new(engine(&device, &exact()), &checkpoint);
        let mut cache = transformer.new_cache(KvType::Bf16, 4096);
        let engine = transformer.engine();
        let mut step = |tokens: &[u32], k| {
            let (launches, crossed) = (engine.launches(), engine.crossed());
            let after = &mut |_: usize, _: &_| ControlFlow::Continue(());
            let found = transformer.likeliest(tokens, k, &mut cache, after).unwrap();
            assert_eq!(found.unwrap().unwrap().len(), k);
            (engine.launches() - launches, engine.crossed() - crossed)
        };
        step(&prompts()[0].ids, 1);
        for _ in 0..4 {
            step(&[7], 1);
            step(&[7], 40);
        }
        let reserved = engine.reserved();
        // Norm, qkv, append, attention, out; norm, router, route, gate and up, down.
        let launches = 1 + 10 * layers + 2;
        for _ in 0..20 {
            // Up: the id; back: id, logit and whether all were finite.
            assert_eq!(step(&[7], 1), (launches + 2, 4 + 12));
        }
        assert_eq!(step(&[7], 40).1, 4 + 4 * 81);
        assert_eq!(engine.reserved(), reserved);
    }
}

#[test]
fn the_likeliest_tokens_are_those_of_the_logits() {
    for device in here() {
        let mut model = loaded(&device, &exact());
        let ids = &prompts()[3].ids;
        let logits = prefill(&mut model, ids, 512);
        for k in [1, 2, 50, 64, 65, 2944] {
            model.truncate(ids.len() - 1);
            let found = model.likeliest(&ids[ids.len() - 1..], k, &Cancel::new());
            let found = found.unwrap().unwrap().unwrap();
            assert_eq!(found.len(), k);
            for pair in found.windows(2) {
                assert!(pair[0].1 > pair[1].1 || pair[0].1 == pair[1].1 && pair[0].0 < pair[1].0);
            }
            for (id, logit) in &found {
                assert!((logits[*id as usize] - logit).abs() < 1e-3);
            }
            let least = found[k - 1].1;
            let better = logits.iter().filter(|logit| **logit > least + 1e-3).count();
            assert!(better < k, "{better} are likelier than the last of {k}");
        }
    }
}

#[test]
fn experts_that_stay_on_the_cpu_follow_the_reference_too() {
    let device = here().remove(0);
    for gpu_layers in [0, 3] {
        let options = EngineOptions {
            gpu_layers: Some(gpu_layers),
            ..exact()
        };
        let mut model = loaded(&device, &options);
        let worst = follows_the_reference(&mut model, LOGITS, 4);
        println!("{}: {worst:e}", model.describe());
        let stay = format!("experts of {} of 6 layers on cpu", 6 - gpu_layers);
        assert!(model.describe().contains(&stay), "{}", model.describe());
    }
}

#[test]
fn eight_bit_weights_are_as_near_as_on_the_cpu() {
    let ids = &prompts()[5].ids;
    let options = EngineOptions {
        dense: Dense::Q8,
        ..exact()
    };
    let cpu = EngineOptions {
        device: devices::Choice::Cpu,
        ..options.clone()
    };
    let expected = prefill(load(&Checkpoint::tiny(), &cpu).unwrap().as_mut(), ids, 512);
    for device in here() {
        let found = prefill(&mut loaded(&device, &options), ids, 512);
        let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
        let worst = worst.fold(0.0, f32::max);
        assert!(worst < LOGITS, "{device}: {worst}");
    }
}

#[test]
fn weights_that_come_in_steps_are_the_same() {
    let ids = &prompts()[2].ids;
    for device in here() {
        let expected = prefill(&mut loaded(&device, &exact()), ids, 512);
        let id = devices::open_wgpu(&device, None).unwrap().device;
        let config = Checkpoint::tiny().config;
        let steps = Box::new(Steps);
        let engine = Cube::<WgpuRuntime>::new(id, "steps", steps, &config, &exact()).unwrap();
        let mut model = Loaded::new(engine, &Checkpoint::tiny(), &exact()).unwrap();
        assert_eq!(prefill(&mut model, ids, 512), expected);
    }
}

/// Fails after some writes, as a device that runs out of memory.
struct Failing(std::sync::atomic::AtomicUsize);

impl Transfer<WgpuRuntime> for Failing {
    fn write(
        &self,
        _: &gptoss::engine::cube::kernels::Gpu<WgpuRuntime>,
        _: &gptoss::engine::cube::kernels::Buffer,
        _: usize,
        _: &[u8],
    ) -> Result<(), Error> {
        let before = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        assert!(before <= 10, "written after it had failed");
        if before == 10 {
            return Err(Error::Device("no room".into()));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn an_upload_that_fails_ends_the_load_at_once() {
    let device = &here()[0];
    let id = devices::open_wgpu(device, None).unwrap().device;
    let failing = Box::new(Failing(std::sync::atomic::AtomicUsize::new(0)));
    let config = Checkpoint::tiny().config;
    let engine = Cube::<WgpuRuntime>::new(id, "failing", failing, &config, &exact()).unwrap();
    let error = Loaded::new(engine, &Checkpoint::tiny(), &exact())
        .err()
        .unwrap();
    assert_eq!(error, Error::Device("no room".into()));
}

#[test]
fn a_stop_is_heeded_between_layers_and_nothing_is_kept_of_the_pass() {
    let device = &here()[0];
    let mut model = loaded(device, &exact());
    let ids = &prompts()[1].ids;
    let expected = prefill(&mut model, ids, 512);
    model.truncate(0);
    let cancel = Cancel::new();
    let other = cancel.clone();
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(5));
        other.cancel();
    });
    let long = ids.repeat(2000 / ids.len());
    assert_eq!(model.forward(&long, 1, &cancel).unwrap(), None);
    late.join().unwrap();
    assert_eq!(prefill(&mut model, ids, 512), expected);
}

#[test]
fn a_model_loaded_by_one_thread_runs_on_another() {
    let device = here().remove(0);
    let ids = prompts()[1].ids.clone();
    let mut model = loaded(&device, &exact());
    let expected = prefill(&mut model, &ids, 512);
    let other = std::thread::spawn(move || {
        let mut model = loaded(&device, &exact());
        prefill(&mut model, &ids[..1], 1);
        (model, ids)
    });
    let (mut model, ids) = other.join().unwrap();
    model.truncate(0);
    assert_eq!(prefill(&mut model, &ids, 512), expected);
}
