use cubecl::wgpu::WgpuRuntime;

use super::super::testing::{Numbers, gpus, read_words};
use super::*;

/// All logits in order, by value and then by id.
fn sorted(logits: &[f32]) -> Vec<(u32, f32)> {
    let mut all: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    all.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
    all
}

fn run_argmax(gpu: &Gpu<WgpuRuntime>, logits: &[f32]) -> Option<Vec<(u32, f32)>> {
    let found = gpu.upload(&[77_u32; best_len(1)]);
    argmax(
        gpu,
        &gpu.upload(logits),
        &Candidates::new(gpu, logits.len()),
        &found,
    );
    best(&read_words(gpu, &found))
}

fn run_top_k(gpu: &Gpu<WgpuRuntime>, logits: &[f32], k: usize) -> Option<Vec<(u32, f32)>> {
    let found = gpu.upload(&vec![77_u32; best_len(k)]);
    top_k(
        gpu,
        &gpu.upload(logits),
        k,
        &Candidates::new(gpu, logits.len()),
        &found,
    );
    best(&read_words(gpu, &found))
}

fn check(gpu: &Gpu<WgpuRuntime>, logits: &[f32], ks: &[usize]) {
    let expected = sorted(logits);
    let vocab = logits.len();
    assert_eq!(
        run_argmax(gpu, logits).unwrap(),
        expected[..1],
        "of {vocab}"
    );
    for &k in ks {
        assert_eq!(
            run_top_k(gpu, logits, k).unwrap(),
            expected[..k],
            "{k} of {vocab}"
        );
    }
}

#[test]
fn random_logits_of_many_lengths() {
    let mut numbers = Numbers::new(5);
    for gpu in gpus() {
        for vocab in [1, 5, 256, 257, 1024, 1025, 2944, 20_011] {
            let logits = numbers.values(vocab);
            check(&gpu, &logits, &[1, 3, 64].map(|k: usize| k.min(vocab)));
        }
    }
}

#[test]
fn the_whole_vocabulary() {
    let logits: Vec<f32> = Numbers::new(6)
        .values(201_088)
        .iter()
        .map(|x| 30.0 * x)
        .collect();
    for gpu in gpus() {
        check(&gpu, &logits, &[50]);
        let before = gpu.launches();
        run_argmax(&gpu, &logits);
        assert_eq!(gpu.launches() - before, 2);
        run_top_k(&gpu, &logits, 64);
        assert_eq!(gpu.launches() - before, 2 + 3);
    }
}

#[test]
fn ties_go_to_the_smaller_id() {
    let mut numbers = Numbers::new(7);
    for gpu in gpus() {
        let few: Vec<f32> = numbers
            .values(5000)
            .iter()
            .map(|x| (x * 3.0).round())
            .collect();
        check(&gpu, &few, &[7, 64]);
        check(&gpu, &[-2.5; 3000], &[64]);
        // The two zeros are equal, and less than the smallest number above them.
        let mut zeros = vec![-1.0; 2100];
        zeros[3] = -0.0;
        zeros[1500] = 0.0;
        zeros[1501] = -0.0;
        let found = run_top_k(&gpu, &zeros, 4).unwrap();
        assert_eq!(
            found.iter().map(|pair| pair.0).collect::<Vec<_>>(),
            [3, 1500, 1501, 0]
        );
        zeros[2099] = f32::from_bits(1);
        check(&gpu, &zeros, &[5]);
    }
}

#[test]
fn extremes_are_finite() {
    for gpu in gpus() {
        let mut logits = vec![f32::MIN; 1300];
        check(&gpu, &logits, &[2]);
        logits[1299] = f32::MAX;
        check(&gpu, &logits, &[2]);
    }
}

#[test]
fn what_is_not_finite_is_reported_wherever_it_is() {
    let mut logits = Numbers::new(8).values(2503);
    for gpu in gpus() {
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for at in [0, 1023, 1024, 1777, 2502] {
                let good = std::mem::replace(&mut logits[at], bad);
                assert_eq!(run_argmax(&gpu, &logits), None, "{bad} at {at}");
                assert_eq!(run_top_k(&gpu, &logits, 3), None, "{bad} at {at}");
                logits[at] = good;
            }
        }
        assert!(run_argmax(&gpu, &logits).is_some());
    }
}
