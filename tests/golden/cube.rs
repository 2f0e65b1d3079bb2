//! The GPU kernels against the reference, on every device of this machine that is not the CPU; lavapipe is one. What
//! needs the inside of an engine is tried on Vulkan and Metal.

use std::time::Duration;

use burn_wgpu::WgpuRuntime;
use gptoss::checkpoint::Checkpoint;
use gptoss::engine::cube::{Cube, Steps, Transfer};
use gptoss::engine::devices::{self, Api, Device};
use gptoss::engine::{
    Cancel, Dense, Draw, EngineOptions, Error, KvType, LanguageModel, LoadProgress, LoadStep,
    Loaded, load,
};

use crate::model::{GREEDY, bf16_history, exact, follows_the_reference, prefill, prompts};

/// Logits of a GPU against the oracle.
const LOGITS: f32 = 5e-3;

/// A draw in the middle.
const HALF: Draw = Draw {
    temperature: 1.0,
    min_p: 0.0,
    at: 0.5,
};

/// Those that can be used, CUDA's too.
fn everywhere() -> Vec<Device> {
    let devices = devices::list().into_iter();
    devices.filter(|device| device.usable.is_ok()).collect()
}

/// An id or so may lie among weights of its size, which are counted one by one. A token's activations are far more.
const SMALL: u64 = 512;

fn here() -> Vec<Device> {
    let devices: Vec<_> = everywhere()
        .into_iter()
        .filter(|device| device.api != Api::Cuda)
        .collect();
    assert!(
        !devices.is_empty(),
        "no device; on Debian `mesa-vulkan-drivers` has one"
    );
    devices
}

/// The built-in model as the program has it.
fn model(device: &Device, options: &EngineOptions) -> Box<dyn LanguageModel> {
    let options = EngineOptions {
        device: device.choice(),
        ..options.clone()
    };
    load(&Checkpoint::tiny(), &options).unwrap()
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
    for device in everywhere() {
        let mut model = model(&device, &exact());
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
    for device in everywhere() {
        for kv_type in [KvType::F32, KvType::Bf16, KvType::Q8] {
            let options = EngineOptions { kv_type, ..exact() };
            let mut model = model(&device, &options);
            let whole = prefill(model.as_mut(), prompt, 512);
            for chunk in [8, 9, 64, 129] {
                model.truncate(37);
                let again = prefill(model.as_mut(), &prompt[37..], chunk);
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
    let layers = Checkpoint::tiny().config.num_hidden_layers as u64;
    for device in everywhere() {
        let mut model = model(&device, &bf16_history());
        let mut step = |tokens: &[u32], k| {
            let before = model.device_figures().unwrap();
            let found = model.likeliest(tokens, k, &Cancel::new()).unwrap();
            assert_eq!(found.unwrap().unwrap().len(), k);
            let after = model.device_figures().unwrap();
            let (launches, crossed) = (
                after.launches - before.launches,
                after.crossed - before.crossed,
            );
            (launches, crossed, after.memory)
        };
        step(&prompts()[0].ids, 1);
        for _ in 0..4 {
            step(&[7], 1);
            step(&[7], 40);
        }
        let (_, _, memory) = step(&[7], 1);
        // Norm and qkv, append, attention, out; norm and router, route, gate and up, down.
        let launches = 1 + 8 * layers + 2;
        for _ in 0..20 {
            // Up: the id; back: id, logit and whether all were finite.
            let (launched, crossed, now) = step(&[7], 1);
            assert_eq!((launched, crossed), (launches + 2, 4 + 12));
            assert!(now < memory + SMALL, "{memory}, then {now}");
        }
        assert_eq!(step(&[7], 40).1, 4 + 4 * 81);

        let mut draw = |min_p| {
            let before = model.device_figures().unwrap();
            let draw = Draw { min_p, ..HALF };
            let found = model.draw(&[7], draw, &Cancel::new()).unwrap();
            assert!(found.unwrap().is_some());
            let after = model.device_figures().unwrap();
            (
                after.launches - before.launches,
                after.crossed - before.crossed,
                after.memory,
            )
        };
        let (_, _, memory) = draw(0.0);
        for _ in 0..20 {
            // Up: the id; back: the one drawn and whether all were finite.
            let (launched, crossed, now) = draw(0.0);
            assert_eq!((launched, crossed), (launches + 2, 4 + 8));
            assert!(now < memory + SMALL, "{memory}, then {now}");
        }
        let (launched, crossed, _) = draw(0.1);
        assert_eq!((launched, crossed), (launches + 3, 4 + 8));
    }
}

#[test]
fn what_a_model_held_is_given_back_with_it() {
    for device in here() {
        // A stream of its own, of which nothing else has memory.
        let memory = std::thread::spawn(move || {
            let taken = || {
                let model = model(&device, &bf16_history());
                model.device_figures().unwrap().memory
            };
            [taken(), taken(), taken()]
        });
        let [first, second, third] = memory.join().unwrap();
        assert!(first > 6_000_000, "{first}");
        assert!(
            second < first + SMALL && third < second + SMALL,
            "{first}, {second}, {third}"
        );
    }
}

#[test]
fn a_load_says_how_far_it_is_and_can_be_stopped_at_every_step() {
    for device in everywhere() {
        let progress = LoadProgress::default();
        let options = EngineOptions {
            device: device.choice(),
            progress: progress.clone(),
            ..bf16_history()
        };
        load(&Checkpoint::tiny(), &options).unwrap();
        assert_eq!(progress.step(), LoadStep::Compiling);

        let with = |progress: &LoadProgress| EngineOptions {
            progress: progress.clone(),
            ..options.clone()
        };
        let before = LoadProgress::default();
        before.cancel();
        let stopped = load(&Checkpoint::tiny(), &with(&before)).err();
        assert_eq!(stopped, Some(Error::Stopped), "{device}");

        // On a busy machine the one who asks may come too late.
        let stopped = (0..10).any(|_| {
            let progress = LoadProgress::default();
            let look = |step| {
                if step == LoadStep::Compiling {
                    progress.cancel();
                }
            };
            let load = || load(&Checkpoint::tiny(), &with(&progress)).err();
            progress.watched(look, load) == Some(Error::Stopped)
        });
        assert!(stopped, "{device}");
    }
}

#[test]
fn the_likeliest_tokens_are_those_of_the_logits() {
    for device in everywhere() {
        let mut model = model(&device, &exact());
        let ids = &prompts()[3].ids;
        let logits = prefill(model.as_mut(), ids, 512);
        for k in [1, 2, 50, 64, 65, 2944] {
            model.truncate(ids.len() - 1);
            let found = model.likeliest(&ids[ids.len() - 1..], k, &Cancel::new());
            let found = found.unwrap().unwrap().unwrap();
            assert_eq!(found.len(), k);
            for pair in found.windows(2) {
                let falls = pair[1].1.total_cmp(&pair[0].1);
                assert!(falls.then(pair[0].0.cmp(&pair[1].0)).is_lt());
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
fn draws_fall_where_the_logits_have_them() {
    for device in everywhere() {
        let mut model = model(&device, &exact());
        let ids = &prompts()[3].ids;
        prefill(model.as_mut(), ids, 512);
        let (start, last) = (ids.len() - 1, &ids[ids.len() - 1..]);
        // Of one token like the draws: more tokens have other kernels, which add up in another order.
        model.truncate(start);
        let logits = model.forward(last, 1, &Cancel::new()).unwrap().unwrap();
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        for (temperature, min_p) in [(1.0, 0.0), (3.0, 0.0), (2.0, 0.01)] {
            let weight = |logit: &f32| {
                let p = f64::from((logit - largest) / temperature).exp();
                if p < f64::from(min_p) { 0.0 } else { p }
            };
            let weights: Vec<f64> = logits.iter().map(weight).collect();
            let total: f64 = weights.iter().sum();
            for i in 0..16 {
                let draw = Draw {
                    temperature,
                    min_p,
                    at: f64::from(i) / 16.0,
                };
                model.truncate(start);
                let found = model.draw(last, draw, &Cancel::new());
                let id = found.unwrap().unwrap().unwrap() as usize;
                let before = weights[..id].iter().sum::<f64>() / total;
                let (from, to) = (before - 1e-5, before + weights[id] / total + 1e-5);
                assert!(
                    weights[id] > 0.0 && from <= draw.at && draw.at < to,
                    "{device}: {id} by {draw:?}, which has {from} to {to}"
                );
            }
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
    for device in everywhere() {
        let found = prefill(model(&device, &options).as_mut(), ids, 512);
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
