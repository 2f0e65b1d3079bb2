//! What happens to each activation by itself, or within its row.

use rayon::prelude::*;

/// The gated activation of gpt-oss: `gate * sigmoid(1.702 * gate) * (up + 1)`, gate clamped from above and up from
/// both sides. `gate_up` alternates gate and up and is twice as long as `out`. NaN stays NaN.
pub fn swiglu(gate_up: &[f32], limit: f32, out: &mut [f32]) {
    const ALPHA: f32 = 1.702;
    for (out, [gate, up]) in out.iter_mut().zip(gate_up.as_chunks().0) {
        let gate = if *gate > limit { limit } else { *gate };
        let up = up.clamp(-limit, limit);
        *out = gate * (1.0 / (1.0 + (-ALPHA * gate).exp())) * (up + 1.0);
    }
}

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
/// `x`: `[n, heads, head_dim]`; `cos`, `sin`: `[n, head_dim / 2]`.
pub fn rotate(x: &mut [f32], heads: usize, head_dim: usize, cos: &[f32], sin: &[f32]) {
    let half = head_dim / 2;
    assert_eq!(cos.len(), sin.len(), "cosines and sines");
    assert_eq!(
        x.len() / (heads * head_dim) * half,
        cos.len(),
        "a row of cosines for each token"
    );
    let tokens = x.chunks_exact_mut(heads * head_dim);
    for ((x, cos), sin) in tokens
        .zip(cos.chunks_exact(half))
        .zip(sin.chunks_exact(half))
    {
        for x in x.chunks_exact_mut(head_dim) {
            let (a, b) = x.split_at_mut(half);
            for (((a, b), cos), sin) in a.iter_mut().zip(b).zip(cos).zip(sin) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}
