//! Tiles of the same extents, several at a time: a vector's lanes are tiles.

use bmgard_core::Real;
use bmgard_core::closed::Quantiser;
use bmgard_core::packed::{GROUP, TILE_NODES, extent, four, linear, three, width};

use super::plan::{Program, Step, TileBox};
use super::tile::{Coded, Opening};
use crate::backend::cpu::simd::simd;

/// Tiles of a batch.
pub(super) const LANES: usize = 8;

/// The nodes of a batch's tiles by slot.
pub(super) type Nodes<T> = [[T; LANES]; TILE_NODES];
/// Their symbols.
pub(super) type Symbols = [[i32; LANES]; TILE_NODES];

/// Groups of a tile.
pub(super) const GROUPS: usize = TILE_NODES / GROUP;

/// The prediction of a node of each tile.
#[inline(always)]
fn predict<T: Real>(step: &Step<T>, nodes: &Nodes<T>) -> [T; LANES] {
    let [a, b, c, d] = step.from.map(|slot| &nodes[usize::from(slot) % TILE_NODES]);
    let w = step.weights;
    let mut out = [T::ZERO; LANES];
    match step.stencil {
        None => out = nodes[0],
        Some(stencil) => match (stencil.before2, stencil.after2) {
            (0, 0) => {
                for i in 0..LANES {
                    out[i] = linear(b[i], c[i], w[2]);
                }
            }
            (0, _) => {
                for i in 0..LANES {
                    out[i] = three(b[i], c[i], d[i], [w[1], w[2], w[3]]);
                }
            }
            (_, 0) => {
                for i in 0..LANES {
                    out[i] = three(b[i], c[i], a[i], [w[1], w[2], w[0]]);
                }
            }
            _ => {
                for i in 0..LANES {
                    out[i] = four([a[i], b[i], c[i], d[i]], w);
                }
            }
        },
    }
    out
}

simd! {
    /// Takes a tile's values to a lane.
    pub(super) fn load<T: Real>(program: &Program<T>, values: &[T], tile: &TileBox, nodes: &mut Nodes<T>, lane: usize) {
        let lane = lane % LANES;
        // Rows of 16 in one piece.
        if program.row.len() == 16 && program.row[15] == 15 {
            for (&start, position) in program.rows.iter().zip(tile.rows()) {
                let from: &[T; 16] = values[position..].first_chunk().expect("rows are inside");
                let to: &mut [[T; LANES]; 16] = nodes[usize::from(start)..].first_chunk_mut().expect("so are slots");
                for x in 0..16 {
                    to[x][lane] = from[x];
                }
            }
            return;
        }
        for (&start, position) in program.rows.iter().zip(tile.rows()) {
            for (&x, &value) in program.row.iter().zip(&values[position..]) {
                nodes[usize::from(start + x)][lane] = value;
            }
        }
    }

    /// Replaces the values of a batch's nodes by reconstructed ones; the anchors are that already. A tile whose greatest |v - r| is more
    /// than `most`, or which is lost, holds a node that cannot be kept so; what is found of it means nothing then.
    pub(super) fn quantise<T: Real>(
        steps: &[Step<T>],
        quantiser: &Quantiser<T>,
        nodes: &mut Nodes<T>,
        symbols: &mut Symbols,
        worst: &mut [T; LANES],
        lost: &mut [u32; LANES],
    ) {
        let (mut greatest, mut far) = ([T::ZERO; LANES], [0u32; LANES]);
        for step in steps {
            let predictions = predict(step, nodes);
            let slot = usize::from(step.slot) % TILE_NODES;
            let values = &mut nodes[slot];
            let symbols = &mut symbols[slot];
            for i in 0..LANES {
                let (symbol, reconstructed, fits) = quantiser.quantise(values[i], predictions[i]);
                let error = (values[i] - reconstructed).abs();
                // So that NaN stays.
                greatest[i] = if error <= greatest[i] { greatest[i] } else { error };
                far[i] |= u32::from(!fits) | u32::from(!error.is_finite());
                symbols[i] = symbol;
                values[i] = reconstructed;
            }
        }
        *worst = greatest;
        *lost = far;
    }

    /// The widths of the groups of each tile.
    pub(super) fn widths<T: Real>(program: &Program<T>, symbols: &Symbols, widths: &mut [[u8; LANES]; GROUPS]) {
        let mut start = 0;
        for (&end, widths) in program.group_ends.iter().zip(widths) {
            let (mut extents, mut any) = ([0u32; LANES], [0u32; LANES]);
            for &slot in &program.order[start..usize::from(end)] {
                let symbols = &symbols[usize::from(slot) % TILE_NODES];
                for i in 0..LANES {
                    extents[i] |= extent(symbols[i]);
                    any[i] |= symbols[i] as u32;
                }
            }
            for i in 0..LANES {
                widths[i] = width(extents[i], any[i] != 0) as u8;
            }
            start = usize::from(end);
        }
    }

    /// Codes a tile: whole words.
    pub(super) fn pack<T: Real>(
        program: &Program<T>,
        symbols: &Symbols,
        lane: usize,
        widths: &[[u8; LANES]; GROUPS],
        coded: &mut Coded<'_>,
    ) -> usize {
        coded.write(program, lane % LANES, widths, |slot| symbols[usize::from(slot) % TILE_NODES][lane % LANES])
    }

    /// The symbols of a lane's tile: all are 0 where it has no bytes.
    pub(super) fn unpack<T: Real>(program: &Program<T>, opening: Option<&Opening>, bytes: &[u8], symbols: &mut Symbols, lane: usize) {
        let lane = lane % LANES;
        for symbols in symbols.iter_mut() {
            symbols[lane] = 0;
        }
        if let Some(opening) = opening {
            opening.symbols(program, bytes, |slot, symbol| symbols[usize::from(slot) % TILE_NODES][lane] = symbol);
        }
    }

    /// The values of a batch's nodes from their symbols and the anchors.
    pub(super) fn reconstruct<T: Real>(steps: &[Step<T>], quantiser: &Quantiser<T>, nodes: &mut Nodes<T>, symbols: &Symbols) {
        for step in steps {
            let predictions = predict(step, nodes);
            let slot = usize::from(step.slot) % TILE_NODES;
            let (values, symbols) = (&mut nodes[slot], &symbols[slot]);
            for i in 0..LANES {
                values[i] = quantiser.reconstruct(symbols[i], predictions[i]);
            }
        }
    }

    /// Puts a lane's values in rows, in C order of the tile.
    pub(super) fn store<T: Real>(program: &Program<T>, nodes: &Nodes<T>, lane: usize, out: &mut [T; TILE_NODES]) {
        let lane = lane % LANES;
        let mut rows = out.chunks_exact_mut(program.row.len());
        for (&start, out) in program.rows.iter().zip(&mut rows) {
            for (&x, out) in program.row.iter().zip(out) {
                *out = nodes[usize::from(start + x) % TILE_NODES][lane];
            }
        }
    }
}
