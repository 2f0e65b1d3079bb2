//! Many tokens: tiled products over the slots of one expert at a time.
//!
//! A cube multiplies `ROWS` rows of an expert with a tile of its slots. 32 columns at a time go through shared
//! memory, each weight unpacked once; a unit adds up 4 rows times `Tile::slots / 16` slots in registers, while the
//! next 32 columns are on their way.

use cubecl::prelude::*;

use super::super::words::{bf16_high, bf16_low};
use super::super::{Buffer, Gpu};
use super::packed::{Kind, Quad, activation, byte_at, e2m1_quarter, scaled};
use super::{ExpertWeights, Piece, Work};

/// Rows of a tile.
const ROWS: u32 = 64;
/// Quads of the 32 columns that a tile holds at a time.
const QUADS: u32 = 8;
/// Units of a cube: 16 along rows, 16 along slots.
const UNITS: u32 = 256;

/// How many slots of an expert make a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Slots for each unit.
    pub per_unit: u32,
}

impl Tile {
    /// What wastes little when all experts are chosen equally often.
    pub const fn new(slots: usize, experts: usize) -> Self {
        let per_unit = match slots / experts {
            0..10 => 1,
            10..24 => 2,
            24..384 => 4,
            _ => 8,
        };
        Self { per_unit }
    }

    const fn slots(self) -> u32 {
        16 * self.per_unit
    }

    /// Loads of 16 bytes by each unit for the slots of a tile.
    const fn loads(self) -> u32 {
        (self.slots() * QUADS).div_ceil(UNITS)
    }

    /// The most tiles that `slots` slots of `experts` experts can need.
    const fn most(self, slots: usize, experts: usize) -> u32 {
        slots as u32 / self.slots() + experts as u32
    }
}

/// What the product reads and writes, beside the weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Product {
    /// From the token of each slot; activations, in the order of the slots by expert.
    GateUp,
    /// From the slots in order by expert, to the slots as they are by token.
    Down,
}

/// `work.t[i]`: the activation of slot `work.order[i]`.
pub fn gate_up<R: Runtime>(
    gpu: &Gpu<R>,
    x: &Buffer,
    (n, top_k): (usize, usize),
    weights: &ExpertWeights,
    limit: f32,
    tile: Tile,
    work: &Work,
) {
    assert!(x.len >= n * weights.cols && work.t.len >= n * top_k * weights.rows / 2);
    launch(
        gpu,
        Product::GateUp,
        (x, &work.t),
        (n, top_k),
        weights,
        limit,
        tile,
        work,
    );
}

/// `work.products[slot]`: down of the slot's activation, with its bias.
pub fn down<R: Runtime>(
    gpu: &Gpu<R>,
    (n, top_k): (usize, usize),
    weights: &ExpertWeights,
    tile: Tile,
    work: &Work,
) {
    let slots = n * top_k;
    assert!(work.t.len >= slots * weights.cols && work.products.len >= slots * weights.rows);
    launch(
        gpu,
        Product::Down,
        (&work.t, &work.products),
        (n, top_k),
        weights,
        0.0,
        tile,
        work,
    );
}

#[allow(
    clippy::too_many_arguments,
    reason = "what both products have in common"
)]
fn launch<R: Runtime>(
    gpu: &Gpu<R>,
    product: Product,
    (input, output): (&Buffer, &Buffer),
    (n, top_k): (usize, usize),
    weights: &ExpertWeights,
    limit: f32,
    tile: Tile,
    work: &Work,
) {
    assert!(work.order.len >= n * top_k && work.offsets.len > weights.experts);
    assert!(weights.experts <= UNITS as usize);
    // The kernels count in 32 bits.
    assert!(u32::try_from(n * top_k * weights.rows.max(weights.cols)).is_ok());
    for piece in &weights.pieces {
        let Piece {
            experts,
            words,
            scales,
        } = piece;
        let tiles = tile.most(n * top_k, experts.len());
        assert!(tiles <= 65_535, "{n} tokens at once");
        gpu.count();
        // SAFETY: tiles are of experts in the piece, slots come from `order` between the offsets of their expert,
        // rows are held below their number; the lengths are asserted here, in the callers, and in `ExpertWeights`.
        #[allow(unsafe_code, reason = "kernels without bounds checks")]
        unsafe {
            tiled::launch_unchecked::<R>(
                &gpu.client,
                CubeCount::Static((weights.rows as u32).div_ceil(ROWS), tiles, 1),
                CubeDim::new_2d(16, 16),
                words.arg(),
                scales.as_ref().unwrap_or(&work.offsets).arg(),
                weights.bias.arg(),
                work.offsets.arg(),
                work.order.arg(),
                input.arg(),
                output.arg(),
                weights.rows as u32,
                weights.cols as u32,
                top_k as u32,
                experts.start as u32,
                experts.len() as u32,
                limit,
                product,
                weights.kind,
                tile,
            );
        }
    }
}

/// `y[token] = residual[token] + sum over slots of weight * products[slot]`.
pub fn sum<R: Runtime>(
    gpu: &Gpu<R>,
    residual: &Buffer,
    slot_weights: &Buffer,
    (n, top_k): (usize, usize),
    hidden: usize,
    work: &Work,
    y: &Buffer,
) {
    assert!(hidden.is_multiple_of(4) && slot_weights.len >= n * top_k && n <= 65_535);
    assert!(residual.len >= n * hidden && y.len >= n * hidden);
    assert!(work.products.len >= n * top_k * hidden);
    gpu.count();
    // SAFETY: a unit below the quads of a row reads and writes that quad of its token; lengths are asserted above.
    #[allow(unsafe_code, reason = "kernels without bounds checks")]
    unsafe {
        sum_kernel::launch_unchecked::<R>(
            &gpu.client,
            CubeCount::Static((hidden as u32 / 4).div_ceil(UNITS), n as u32, 1),
            CubeDim::new_1d(UNITS),
            residual.arg(),
            slot_weights.arg(),
            work.products.arg(),
            y.arg(),
            hidden as u32 / 4,
            top_k as u32,
        );
    }
}

#[cube(launch_unchecked)]
#[allow(
    clippy::too_many_arguments,
    reason = "buffers and numbers are all that a kernel takes"
)]
fn tiled(
    words: &Array<u32>,
    scales: &Array<u32>,
    bias: &Array<f32>,
    offsets: &Array<u32>,
    order: &Array<u32>,
    input: &Array<Quad<f32>>,
    output: &mut Array<f32>,
    rows: u32,
    cols: u32,
    top_k: u32,
    first: u32,
    count: u32,
    limit: f32,
    #[comptime] product: Product,
    #[comptime] kind: Kind,
    #[comptime] tile: Tile,
) {
    let unit = UNIT_POS_Y * 16u32 + UNIT_POS_X;
    let mut place = SharedMemory::<u32>::new(3usize);
    find(offsets, &mut place, first, count, tile);
    let id = place[0];
    if id >= first + count {
        terminate!();
    }
    let begin = place[1];
    let end = place[2];

    // What this unit copies: 8 values of one row, and some quads of the slots' input.
    let row = tile_row(unit / 4u32, rows, product);
    let part = unit % 4u32;
    let row_from = ((id - first) * rows + row) * cols;
    let mut froms = Array::<u32>::new(comptime!(tile.loads() as usize));
    #[unroll]
    for load in 0..tile.loads() {
        let at = begin + (load * UNITS + unit) / QUADS;
        let sorted = u32::min(at, end - 1u32);
        let from = match product {
            Product::GateUp => order[sorted as usize] / top_k,
            Product::Down => sorted,
        };
        froms[load as usize] = from * (cols / 4u32) + unit % QUADS;
    }

    let mut weight = SharedMemory::<Quad<f32>>::new(comptime!((ROWS * QUADS) as usize));
    let mut x = SharedMemory::<Quad<f32>>::new(comptime!((tile.slots() * QUADS) as usize));
    let mut sums = Array::<f32>::new(comptime!((4 * tile.per_unit) as usize));
    #[unroll]
    for i in 0..4 * tile.per_unit {
        sums[i as usize] = 0.0f32;
    }

    let mut loaded = Array::<u32>::new(5usize);
    let mut quads = Array::<Quad<f32>>::new(comptime!(tile.loads() as usize));
    load_weight(words, scales, &mut loaded, row_from, part, kind);
    load_input(input, &mut quads, &froms, 0u32, tile);
    let mut col = 0u32;
    while col < cols {
        store_weight(&loaded, &mut weight, unit / 4u32, part, kind);
        #[unroll]
        for load in 0..tile.loads() {
            let at = load * UNITS + unit;
            if comptime!(tile.slots() * QUADS >= UNITS) || at < comptime!(tile.slots() * QUADS) {
                x[place_of(at / QUADS, at % QUADS) as usize] = quads[load as usize];
            }
        }
        sync_cube();
        col += 32u32;
        // The last step loads its columns again, which nobody reads.
        let next = u32::min(col, cols - 32u32);
        load_weight(words, scales, &mut loaded, row_from + next, part, kind);
        load_input(input, &mut quads, &froms, next, tile);
        multiply(weight, x, &mut sums, tile);
        sync_cube();
    }

    #[unroll]
    for j in 0..tile.per_unit {
        let sorted = begin + UNIT_POS_Y + 16 * j;
        if sorted < end {
            match product {
                Product::GateUp => {
                    let pairs = rows / 2u32;
                    #[unroll]
                    for i in 0..2u32 {
                        let pair = CUBE_POS_X * comptime!(ROWS / 2) + UNIT_POS_X + 16 * i;
                        if pair < pairs {
                            let at = ((id * pairs + pair) * 2u32) as usize;
                            let gate = sums[(j * 4 + i) as usize] + bias[at];
                            let up = sums[(j * 4 + i + 2) as usize] + bias[at + 1];
                            output[(sorted * pairs + pair) as usize] = activation(gate, up, limit);
                        }
                    }
                }
                Product::Down => {
                    let slot = order[sorted as usize];
                    #[unroll]
                    for i in 0..4u32 {
                        let row = CUBE_POS_X * ROWS + UNIT_POS_X + 16 * i;
                        if row < rows {
                            output[(slot * rows + row) as usize] =
                                sums[(j * 4 + i) as usize] + bias[(id * rows + row) as usize];
                        }
                    }
                }
            }
        }
    }
}

/// The expert of this cube's tile, and where in the order its slots begin and end, into `place`. No expert of the
/// piece where there are fewer tiles.
#[cube]
fn find(
    offsets: &Array<u32>,
    place: &mut SharedMemory<u32>,
    first: u32,
    count: u32,
    #[comptime] tile: Tile,
) {
    let unit = UNIT_POS_Y * 16u32 + UNIT_POS_X;
    let mut tiles = SharedMemory::<u32>::new(UNITS as usize);
    let at = (first + u32::min(unit, count - 1u32)) as usize;
    let begin = offsets[at];
    let end = offsets[at + 1];
    let own = select(
        unit < count,
        (end - begin).div_ceil(comptime!(tile.slots())),
        0u32,
    );
    tiles[unit as usize] = own;
    if unit == 0u32 {
        place[0] = first + count;
    }
    sync_cube();
    let mut before = 0u32;
    for other in 0..u32::min(unit, count) {
        before += tiles[other as usize];
    }
    if before <= CUBE_POS_Y && CUBE_POS_Y < before + own {
        let from = begin + (CUBE_POS_Y - before) * comptime!(tile.slots());
        place[0] = first + unit;
        place[1] = from;
        place[2] = u32::min(from + comptime!(tile.slots()), end);
    }
    sync_cube();
}

/// The row of the weight at place `at` of the tile: for gate and up first the gates, then their ups, so that a unit
/// has both.
#[cube]
fn tile_row(at: u32, rows: u32, #[comptime] product: Product) -> u32 {
    let row = match product {
        Product::GateUp => {
            let half = comptime!(ROWS / 2);
            (CUBE_POS_X * half + at % half) * 2u32 + at / half
        }
        Product::Down => CUBE_POS_X * ROWS + at,
    };
    u32::min(row, rows - 1u32)
}

/// 8 of the 32 values from `from` on: a word and its block's scale (MXFP4), or four words.
#[cube]
fn load_weight(
    words: &Array<u32>,
    scales: &Array<u32>,
    loaded: &mut Array<u32>,
    from: u32,
    part: u32,
    #[comptime] kind: Kind,
) {
    match kind {
        Kind::Mxfp4 => {
            let block = from / 32u32;
            loaded[0] = words[(block * 4u32 + part) as usize];
            loaded[4] = byte_at(scales, block);
        }
        Kind::Bf16 => {
            let at = (from / 2u32 + part * 4u32) as usize;
            #[unroll]
            for i in 0..4usize {
                loaded[i] = words[at + i];
            }
        }
    }
}

/// Unpacks what was loaded into two quads of the tile.
#[cube]
fn store_weight(
    loaded: &Array<u32>,
    weight: &mut SharedMemory<Quad<f32>>,
    row: u32,
    part: u32,
    #[comptime] kind: Kind,
) {
    #[unroll]
    for half in 0..2usize {
        let mut quad = Quad::<f32>::empty();
        match kind {
            Kind::Mxfp4 =>
            {
                #[unroll]
                for i in 0..4usize {
                    let value = e2m1_quarter(loaded[0] >> (half * 16 + i * 4) as u32);
                    quad[i] = scaled(value, loaded[4]);
                }
            }
            Kind::Bf16 =>
            {
                #[unroll]
                for i in 0..2usize {
                    quad[i * 2] = bf16_low(loaded[half * 2 + i]);
                    quad[i * 2 + 1] = bf16_high(loaded[half * 2 + i]);
                }
            }
        }
        weight[place_of(row, part * 2u32 + half as u32) as usize] = quad;
    }
}

#[cube]
fn load_input(
    input: &Array<Quad<f32>>,
    quads: &mut Array<Quad<f32>>,
    froms: &Array<u32>,
    col: u32,
    #[comptime] tile: Tile,
) {
    #[unroll]
    for load in 0..tile.loads() {
        quads[load as usize] = input[(froms[load as usize] + col / 4u32) as usize];
    }
}

/// Where quad `quad` of line `line` lies: mixed with the line, so that units that read the same quad of neighbouring
/// lines read from different banks.
#[cube]
fn place_of(line: u32, quad: u32) -> u32 {
    line * QUADS + (quad ^ (line % QUADS))
}

/// Adds 32 columns: the unit's rows are `x + 16 i`, its slots `y + 16 j`, their sum at `4 j + i`.
#[cube]
fn multiply(
    weight: SharedMemory<Quad<f32>>,
    x: SharedMemory<Quad<f32>>,
    sums: &mut Array<f32>,
    #[comptime] tile: Tile,
) {
    for quad in 0..QUADS {
        // 16 lines further a quad lies 16 lines further.
        let row = place_of(UNIT_POS_X, quad);
        let slot = place_of(UNIT_POS_Y, quad);
        let mut w = Array::<Quad<f32>>::new(4usize);
        #[unroll]
        for i in 0..4u32 {
            w[i as usize] = weight[(row + 16 * i * QUADS) as usize];
        }
        #[unroll]
        for j in 0..tile.per_unit {
            let value = x[(slot + 16 * j * QUADS) as usize];
            #[unroll]
            for i in 0..4u32 {
                #[unroll]
                for k in 0..4usize {
                    sums[(j * 4 + i) as usize] += w[i as usize][k] * value[k];
                }
            }
        }
    }
}

/// One unit for each quad of a token's row.
#[cube(launch_unchecked)]
fn sum_kernel(
    residual: &Array<Quad<f32>>,
    slot_weights: &Array<f32>,
    products: &Array<Quad<f32>>,
    y: &mut Array<Quad<f32>>,
    quads: u32,
    top_k: u32,
) {
    let quad = CUBE_POS_X * UNITS + UNIT_POS_X;
    let token = CUBE_POS_Y;
    if quad < quads {
        let at = (token * quads + quad) as usize;
        let mut sum = residual[at];
        for slot in token * top_k..(token + 1u32) * top_k {
            let slot_weight = Quad::<f32>::new(slot_weights[slot as usize]);
            sum += slot_weight * products[(slot * quads + quad) as usize];
        }
        y[at] = sum;
    }
}
