use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn sampler(mut sampling: Sampling) -> Sampler {
    sampling.seed = Some(7);
    Sampler::new(sampling).unwrap()
}

/// How often each id comes in `draws` draws.
fn count(sampling: Sampling, logits: &[f32], draws: usize) -> BTreeMap<u32, usize> {
    let mut sampler = sampler(sampling);
    let mut counts = BTreeMap::new();
    for _ in 0..draws {
        *counts
            .entry(sampler.sample(&mut logits.to_vec(), &[]))
            .or_default() += 1;
    }
    counts
}

#[test]
fn temperature_zero_takes_the_first_of_the_largest() {
    let mut sampler = sampler(Sampling::greedy());
    assert_eq!(sampler.sample(&mut [1.0, 3.0, -2.0, 3.0], &[]), 1);
}

#[test]
fn draws_follow_the_softmax() {
    // Softmax of ln(1), ln(2), ln(5) is 1/8, 2/8, 5/8.
    let logits = [1.0f32, 2.0, 5.0].map(f32::ln);
    let counts = count(Sampling::default(), &logits, 80_000);
    for (id, expected) in [(0, 10_000.0), (1, 20_000.0), (2, 50_000.0)] {
        let found = counts[&id] as f64;
        assert!(
            (found - expected).abs() < 700.0,
            "id {id}: {found} draws, expected {expected}"
        );
    }
}

#[test]
fn temperature_divides_the_logits() {
    // At temperature 1/2 the weights 1, 2, 5 become 1, 4, 25.
    let logits = [1.0f32, 2.0, 5.0].map(f32::ln);
    let counts = count(
        Sampling {
            temperature: 0.5,
            ..Sampling::default()
        },
        &logits,
        30_000,
    );
    assert!((counts[&2] as f64 - 25_000.0).abs() < 400.0, "{counts:?}");
}

#[test]
fn top_k_keeps_the_k_likeliest() {
    let sampling = Sampling {
        top_k: 2,
        ..Sampling::default()
    };
    let counts = count(sampling, &[0.0, 0.5, 0.4, 0.1], 1_000);
    assert_eq!(counts.into_keys().collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn top_p_keeps_the_smallest_set_that_holds_p() {
    // 0.5, 0.3, 0.15, 0.05
    let logits = [0.5f32, 0.3, 0.15, 0.05].map(f32::ln);
    for (top_p, expected) in [
        (0.4, vec![0]),
        (0.6, vec![0, 1]),
        (0.9, vec![0, 1, 2]),
        (1.0, vec![0, 1, 2, 3]),
    ] {
        let counts = count(
            Sampling {
                top_p,
                ..Sampling::default()
            },
            &logits,
            3_000,
        );
        assert_eq!(
            counts.into_keys().collect::<Vec<_>>(),
            expected,
            "top_p {top_p}"
        );
    }
}

#[test]
fn min_p_keeps_what_is_likely_enough_beside_the_likeliest() {
    let logits = [0.5f32, 0.3, 0.15, 0.05].map(f32::ln);
    let counts = count(
        Sampling {
            min_p: 0.25,
            ..Sampling::default()
        },
        &logits,
        3_000,
    );
    assert_eq!(counts.into_keys().collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn the_repetition_penalty_counts_a_token_once_and_follows_the_sign() {
    let mut logits = [2.0, -1.0, 0.5];
    penalise(&mut logits, &[0, 0, 1, 99], 2.0);
    assert_eq!(logits, [1.0, -2.0, 0.5]);
}

#[test]
fn one_seed_gives_one_sequence_and_another_seed_another() {
    let logits = vec![0.0; 1000];
    let draw = |seed| {
        let mut sampler = Sampler::new(Sampling {
            seed: Some(seed),
            ..Sampling::default()
        })
        .unwrap();
        (0..20)
            .map(|_| sampler.sample(&mut logits.clone(), &[]))
            .collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    // The sequence is part of what a seed promises: a new version of a crate must not change it unseen.
    assert_eq!(draw(42)[..4], [681, 950, 427, 627]);
}

/// A draw as the sampler had it when a seed first gave its sequence: among candidates, without what `min_p` leaves out.
fn among_candidates(logits: &[f32], draw: Draw) -> u32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let probability = |logit: f32| ((logit - largest) / draw.temperature).exp();
    let mut candidates: Vec<(u32, f32)> =
        (0..).zip(logits.iter().copied().map(probability)).collect();
    candidates.retain(|&(_, p)| p >= draw.min_p);
    let total: f64 = candidates.iter().map(|&(_, p)| f64::from(p)).sum();
    let mut left = draw.at * total;
    for &(id, p) in &candidates {
        left -= f64::from(p);
        if left < 0.0 {
            return id;
        }
    }
    let (id, _) = candidates.iter().rev().find(|(_, p)| *p > 0.0).unwrap();
    *id
}

#[test]
fn a_draw_among_all_is_what_the_sampler_of_that_seed_gives() {
    let logits: Vec<f32> = (0..3000)
        .map(|i| 9.0 * (i as f32 * 0.7).sin() * (i as f32 * 0.013).cos())
        .collect();
    for seed in 0..50 {
        for (temperature, min_p) in [
            (1.0, 0.0),
            (0.01, 0.0),
            (100.0, 0.0),
            (0.8, 0.05),
            (5.0, 1.0),
        ] {
            let sampling = Sampling {
                temperature,
                min_p,
                seed: Some(seed),
                ..Sampling::default()
            };
            let mut first = Sampler::new(sampling.clone()).unwrap();
            let mut second = Sampler::new(sampling).unwrap();
            assert_eq!(second.needs(), Needs::Draw);
            for _ in 0..4 {
                let expected = first.sample(&mut logits.clone(), &[]);
                let next = second.next_draw();
                assert_eq!(draw(&mut logits.clone(), next), Some(expected));
                assert_eq!(among_candidates(&logits, next), expected);
            }
        }
    }
}

#[test]
fn draws_at_both_ends_are_tokens_with_probability() {
    let logits = [-200.0, 1.0, -200.0, 1.0, 0.0, -200.0];
    let at = |at, min_p| {
        let draw_at = Draw {
            temperature: 1.0,
            min_p,
            at,
        };
        draw(&mut logits.clone(), draw_at)
    };
    let last = 1.0 - f64::EPSILON / 2.0;
    assert_eq!([at(0.0, 0.0), at(last, 0.0)], [Some(1), Some(4)]);
    assert_eq!([at(0.0, 0.5), at(last, 0.5)], [Some(1), Some(3)]);
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let draw_at = Draw {
            temperature: 1.0,
            min_p: 0.0,
            at: 0.5,
        };
        assert_eq!(draw(&mut [0.0, bad], draw_at), None);
    }
}

#[test]
fn no_more_of_the_logits_is_needed_than_decides() {
    let needs = |sampling| sampler(sampling).needs();
    let good = Sampling::default;
    assert_eq!(needs(good()), Needs::Draw);
    let min_p = Sampling {
        min_p: 0.1,
        ..good()
    };
    assert_eq!(needs(min_p), Needs::Draw);
    assert_eq!(needs(Sampling::greedy()), Needs::Likeliest(1));
    let top_k = Sampling {
        top_k: 40,
        top_p: 0.5,
        ..good()
    };
    assert_eq!(needs(top_k), Needs::Likeliest(40));
    let top_p = Sampling {
        top_p: 0.9,
        ..good()
    };
    assert_eq!(needs(top_p), Needs::All);
    let penalty = Sampling {
        repetition_penalty: 1.1,
        ..Sampling::greedy()
    };
    assert_eq!(needs(penalty), Needs::All);
}

#[test]
fn a_seed_is_drawn_where_none_is_given() {
    let draw = || Sampler::new(Sampling::default()).unwrap().seed();
    assert_ne!(draw(), draw());
}

#[test]
fn values_outside_their_interval_are_refused_with_the_interval() {
    let message = |sampling: Sampling| sampling.validate().unwrap_err().to_string();
    let good = Sampling::default;
    assert_eq!(
        message(Sampling {
            temperature: -1.0,
            ..good()
        }),
        "`temperature` is -1, expected 0 (the likeliest token) to 100"
    );
    assert_eq!(
        message(Sampling {
            top_p: 0.0,
            ..good()
        }),
        "`top-p` is 0, expected above 0, at most 1 (keeps all)"
    );
    assert_eq!(
        message(Sampling {
            min_p: 1.5,
            ..good()
        }),
        "`min-p` is 1.5, expected 0 (keeps all) to 1"
    );
    assert_eq!(
        message(Sampling {
            repetition_penalty: f32::NAN,
            ..good()
        }),
        "`repetition-penalty` is NaN, expected above 0, at most 100; 1 is off"
    );
}

proptest! {
    #[test]
    fn every_draw_is_a_token_that_the_values_allow(
        logits in proptest::collection::vec(-50.0f32..50.0, 1..200),
        temperature in 0.01f32..5.0,
        top_k in 0usize..20,
        top_p in 0.01f32..=1.0,
        min_p in 0.0f32..=1.0,
    ) {
        let sampling = Sampling { temperature, top_k, top_p, min_p, ..Sampling::default() };
        let mut sampler = sampler(sampling);
        let id = sampler.sample(&mut logits.clone(), &[]) as usize;
        prop_assert!(id < logits.len());
        let larger: BTreeSet<usize> = (0..logits.len()).filter(|&other| logits[other] > logits[id]).collect();
        prop_assert!(top_k == 0 || larger.len() < top_k, "{} tokens are likelier", larger.len());
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        prop_assert!(((logits[id] - largest) / temperature).exp() >= min_p);
    }
}
