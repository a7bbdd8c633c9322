//! From symbols to values: strips of tiles are predicted and put together.

use bmgard_core::closed::TILE_NODES;

use super::encode::Scheme;
use super::plan::{Class, Plan, Strip};
use super::rows;
use super::strip::{Nodes, Row};
use super::tile::ESCAPED;
use crate::Value;
use crate::backend::cpu::shared::Shared;
use crate::special::Mask;

/// The symbols and escapes of some tiles, those numbered from `first` on.
pub(super) struct Symbols<T> {
    pub(super) first: usize,
    pub(super) places: Vec<[i32; TILE_NODES]>,
    /// Of each tile, ascending nodes in C order of a full tile.
    pub(super) escapes: Vec<Vec<(u16, T)>>,
}

impl<T: Value> Symbols<T> {
    fn escape(&self, tile: usize, node: u16) -> Option<T> {
        let escapes = &self.escapes[tile - self.first];
        escapes.binary_search_by_key(&node, |&(node, _)| node).ok().map(|index| escapes[index].1)
    }
}

/// What a strip is decoded from.
#[derive(Clone, Copy)]
pub(super) struct Coded<'a, T> {
    pub(super) scheme: &'a Scheme<T>,
    /// Of all tiles.
    pub(super) anchors: &'a [T],
    /// Of the tiles of the strip's closed box, at least.
    pub(super) symbols: &'a Symbols<T>,
    pub(super) mask: Option<&'a Mask>,
}

/// Buffers for one strip after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoder<T> {
    nodes: Nodes<T>,
    predictions: Vec<T>,
    symbols: Vec<i32>,
    masked: bool,
}

impl<T: Value> Decoder<T> {
    /// Decodes a strip. Its own nodes go to their places in the chunk.
    pub(super) fn run(&mut self, plan: &Plan, strip: &Strip, coded: Coded<'_, T>, out: &Shared<'_, T>) {
        let Coded { scheme, anchors, symbols, mask } = coded;
        self.nodes.start(plan, strip, anchors);
        self.masked = mask.is_some_and(|mask| self.nodes.box_rows(plan).any(|range| mask.any(range)));
        let mut level = plan.shape.levels() - 1;
        for (&class, &predictor) in plan.classes.iter().zip(&scheme.predictors) {
            if class.level < level {
                level = class.level;
                self.nodes.refine(plan, level);
            }
            for row in self.nodes.rows(class) {
                self.predictions.resize(row.len, T::ZERO);
                self.nodes.predict(predictor, class, &row, &mut self.predictions);
                self.load(plan, strip, class, &row, symbols);
                let quantiser = &scheme.quantisers[class.level];
                let out = self.nodes.row_mut(class, &row);
                let any = rows::reconstruct(quantiser, ESCAPED, &self.predictions, &self.symbols, out);
                if any || self.masked {
                    self.correct_each(plan, scheme, class, &row, symbols, mask);
                }
            }
        }
        self.store(plan, out);
    }

    /// The symbols of a row, those of far faces from the tiles that own them.
    fn load(&mut self, plan: &Plan, strip: &Strip, class: Class, row: &Row, symbols: &Symbols<T>) {
        let [ez, ey, ex] = plan.shape.extent_log2(class.level);
        let start = plan.shape.class_start(class.level, class.axes);
        let within = |index: usize, extent: usize| index & ((1 << extent) - 1);
        let place = start + (((within(row.z, ez) << ey) + within(row.y, ey)) << ex);
        let first = plan.tile_index([strip.tile[0] + (row.z >> ez), strip.tile[1] + (row.y >> ey), strip.tile[2]]) - symbols.first;
        self.symbols.resize(row.len, 0);
        for (out, tile) in self.symbols.chunks_mut(1 << ex).zip(&symbols.places[first..]) {
            out.copy_from_slice(&tile[place..][..out.len()]);
        }
    }

    /// Puts escaped and missing nodes right.
    #[cold]
    fn correct_each(&mut self, plan: &Plan, scheme: &Scheme<T>, class: Class, row: &Row, symbols: &Symbols<T>, mask: Option<&Mask>) {
        let [z, y, x] = row.node;
        let first = (z * plan.dims[1] + y) * plan.dims[2] + x;
        let log2 = plan.shape.log2();
        for index in 0..row.len {
            let offset = index << row.spacing;
            let value = if self.symbols[index] == ESCAPED {
                let node = [z, y, x + offset];
                let tile = plan.tile_index([0, 1, 2].map(|axis| node[axis] >> log2[axis]));
                let within = [0, 1, 2].map(|axis| node[axis] & (plan.shape.side(axis) - 1));
                symbols.escape(tile, ((((within[0] << log2[1]) + within[1]) << log2[2]) + within[2]) as u16)
            } else if mask.is_some_and(|mask| mask.get(first + offset)) {
                Some(scheme.quantisers[class.level].missing(self.predictions[index]))
            } else {
                None
            };
            if let Some(value) = value {
                self.nodes.row_mut(class, row)[index] = value;
            }
        }
    }

    fn store(&mut self, plan: &Plan, out: &Shared<'_, T>) {
        let [nz, ny, nx] = self.nodes.owned;
        self.predictions.resize(nx, T::ZERO);
        let low = self.nodes.low;
        for (z, y) in (0..nz).flat_map(|z| (0..ny).map(move |y| (z, y))) {
            self.nodes.copy_row(z, y, &mut self.predictions[..nx]);
            let at = ((low[0] + z) * plan.dims[1] + low[1] + y) * plan.dims[2] + low[2];
            // SAFETY: every node is owned by one tile, and every tile belongs to one strip.
            #[allow(unsafe_code, reason = "strips are no contiguous parts of the chunk")]
            unsafe {
                out.write(at, &self.predictions[..nx]);
            }
        }
    }
}
