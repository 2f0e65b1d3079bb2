//! What happens to each activation by itself, or within its row.

use rayon::prelude::*;

/// `y = x / sqrt(mean(x^2) + eps) * gain`, row by row.
///
/// # Shapes
/// `x`, `y`: `[n, hidden]`; `gain`: `[hidden]`.
pub fn rms_norm(x: &[f32], gain: &[f32], eps: f32, y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "values in and out");
    let hidden = gain.len();
    let row = |(x, y): (&[f32], &mut [f32])| {
        let scale = 1.0 / (sum_of_squares(x) / hidden as f32 + eps).sqrt();
        for ((y, x), gain) in y.iter_mut().zip(x).zip(gain) {
            *y = x * scale * gain;
        }
    };
    x.par_chunks_exact(hidden)
        .zip(y.par_chunks_exact_mut(hidden))
        .with_min_len(16)
        .for_each(row);
}

/// In sixteen partial sums, which the compiler vectorises.
fn sum_of_squares(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<16>();
    let mut sums = [0.0; 16];
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += x * x;
        }
    }
    sums.iter().sum::<f32>() + rest.iter().map(|x| x * x).sum::<f32>()
}

/// The rotary embedding over the two halves of a head, in place:
/// `(a, b) -> (a cos - b sin, b cos + a sin)` with `a` from the first half and `b` from the second.
///
/// # Shapes
/// `x`: `[n, width]`, of which each row begins with `heads` of `head_dim`; `cos`, `sin`: `[n, head_dim / 2]`.
pub fn rotate(
    x: &mut [f32],
    width: usize,
    heads: usize,
    head_dim: usize,
    cos: &[f32],
    sin: &[f32],
) {
    let half = head_dim / 2;
    assert_eq!(cos.len(), sin.len(), "cosines and sines");
    assert_eq!(
        x.len() / width * half,
        cos.len(),
        "a row of cosines for each token"
    );
    let token = |((x, cos), sin): ((&mut [f32], &[f32]), &[f32])| {
        for x in x.chunks_exact_mut(head_dim).take(heads) {
            let (a, b) = x.split_at_mut(half);
            for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    };
    x.par_chunks_exact_mut(width)
        .zip(cos.par_chunks_exact(half))
        .zip(sin.par_chunks_exact(half))
        .with_min_len(16)
        .for_each(token);
}
