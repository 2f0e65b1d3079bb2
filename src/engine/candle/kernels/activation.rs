//! What is done to results one by one. Plain loops, which the compiler vectorises inside the functions that enable the
//! instructions; `FMA` says whether a fused multiply-add is one.

#[inline(always)]
fn mul_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `e^x`, within two units in the last place; above 88 it is that of 88, below -87 that of -87. NaN stays NaN.
///
/// `2^n e^r` with `n` the nearest integer to `x / ln 2`, and a polynomial for `e^r` (Cephes, `expf`).
#[inline(always)]
pub fn exp<const FMA: bool>(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: what is added to it is rounded to an integer
    const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
    const COEFFICIENTS: [f32; 6] = [
        1.987_569_1e-4,
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ];
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = mul_add::<FMA>(x, std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = mul_add::<FMA>(n, -LN_2[0], x);
    let r = mul_add::<FMA>(n, -LN_2[1], r);
    let mut p = COEFFICIENTS[0];
    for coefficient in &COEFFICIENTS[1..] {
        p = mul_add::<FMA>(p, r, *coefficient);
    }
    let p = mul_add::<FMA>(p, r * r, r + 1.0);
    // n to the exponent; the bits of MAGIC above it fall off.
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// The gated activation of gpt-oss over `gate_up + bias`, which alternate gate and up and are twice as long as `out`:
/// `gate * sigmoid(1.702 * gate) * (up + 1)`, gate clamped from above and up from both sides. NaN stays NaN.
#[inline(always)]
pub fn swiglu<const FMA: bool>(gate_up: &[f32], bias: &[f32], limit: f32, out: &mut [f32]) {
    const ALPHA: f32 = 1.702;
    let pairs = gate_up
        .as_chunks::<2>()
        .0
        .iter()
        .zip(bias.as_chunks::<2>().0);
    for (out, (x, bias)) in out.iter_mut().zip(pairs) {
        let (gate, up) = (x[0] + bias[0], x[1] + bias[1]);
        let gate = if gate > limit { limit } else { gate };
        let up = if up > limit { limit } else { up };
        let up = if up < -limit { -limit } else { up };
        *out = gate / (1.0 + exp::<FMA>(-ALPHA * gate)) * (up + 1.0);
    }
}

/// `out = x + bias`
#[inline(always)]
pub fn add(x: &[f32], bias: &[f32], out: &mut [f32]) {
    for ((out, x), bias) in out.iter_mut().zip(x).zip(bias) {
        *out = x + bias;
    }
}

/// Turns logits into `e^(logit - largest)` and gives their sum, in sixteen partial sums.
#[inline(always)]
pub fn exponentials<const FMA: bool>(logits: &mut [f32], largest: f32) -> f32 {
    let mut sums = [0.0; 16];
    let (chunks, rest) = logits.as_chunks_mut::<16>();
    for chunk in chunks {
        for (logit, sum) in chunk.iter_mut().zip(&mut sums) {
            *logit = exp::<FMA>(*logit - largest);
            *sum += *logit;
        }
    }
    for (logit, sum) in rest.iter_mut().zip(&mut sums) {
        *logit = exp::<FMA>(*logit - largest);
        *sum += *logit;
    }
    sums.iter().sum()
}

/// The largest of `logits` and `start`.
#[inline(always)]
pub fn largest(logits: &[f32], start: f32) -> f32 {
    let mut tops = [start; 16];
    let (chunks, rest) = logits.as_chunks::<16>();
    for chunk in chunks {
        for (top, logit) in tops.iter_mut().zip(chunk) {
            *top = if *logit > *top { *logit } else { *top };
        }
    }
    rest.iter()
        .chain(&tops)
        .fold(start, |top, logit| top.max(*logit))
}
