//! From values to symbols: strips of tiles are predicted and quantised.

use bmgard_core::Real;
use bmgard_core::closed::{Anchors, Predictor, Quantiser, TILE_NODES};
use rayon::prelude::*;

use super::plan::{Class, Plan, Strip};
use super::rows;
use super::strip::{Nodes, Row};
use crate::Value;
use crate::special::Mask;

/// A chunk's values and what must be kept of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a, T> {
    pub(super) values: &'a [T],
    pub(super) mask: Option<&'a Mask>,
    pub(super) bound: f64,
    /// No valid value may be reconstructed to this one, which stands for missing data; NaN where there is none.
    pub(super) forbidden: T,
}

impl<T: Value> Source<'_, T> {
    pub(super) fn is_masked(&self, position: usize) -> bool {
        self.mask.is_some_and(|mask| mask.get(position))
    }

    /// The error of a reconstruction, if that may stand for the value.
    fn error(&self, value: T, reconstructed: T) -> Option<f64> {
        let error = Real::abs(value.to_f64() - reconstructed.to_f64());
        (error <= self.bound && reconstructed != self.forbidden).then_some(error)
    }
}

/// What all strips have in common.
#[derive(Clone, Debug)]
pub(crate) struct Scheme<T> {
    /// For each level, the finest first.
    pub(crate) quantisers: Vec<Quantiser<T>>,
    pub(super) anchors: Anchors,
    /// In the order of the plan's classes.
    pub(crate) predictors: Vec<Predictor>,
}

impl<T: Value> Scheme<T> {
    /// From the steps of all levels, the finest first, the anchors' last.
    pub(super) fn new(steps: &[T], predictors: Vec<Predictor>) -> Self {
        let (&anchors, levels) = steps.split_last().expect("anchors always have a step");
        Self { quantisers: levels.iter().copied().map(Quantiser::new).collect(), anchors: Anchors::new(anchors), predictors }
    }
}

/// The anchors of a chunk.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnchorGrid<T> {
    /// Reconstructed, one for each tile.
    pub(crate) values: Vec<T>,
    /// In steps; what is escaped or missing repeats another.
    pub(super) steps: Vec<i64>,
    /// Tiles whose anchor is stored exactly.
    pub(crate) escaped: Vec<usize>,
    pub(crate) worst: f64,
}

/// Where the first node of a tile is in the chunk.
pub(crate) fn anchor_position(plan: &Plan, tile: [usize; 3]) -> usize {
    let [z, y, x] = plan.tile_box(tile).0;
    (z * plan.dims[1] + y) * plan.dims[2] + x
}

/// Quantises the anchors, whose values are given.
pub(super) fn anchors<T: Value>(plan: &Plan, source: &Source<'_, T>, values: &[T], quantiser: &Anchors) -> AnchorGrid<T> {
    let mut grid = AnchorGrid { worst: 0.0, ..AnchorGrid::default() };
    for index in 0..plan.tile_count() {
        let tile = plan.tile_at(index);
        let position = anchor_position(plan, tile);
        let value = values[index];
        let before = [2, 1, 0].into_iter().find(|&axis| tile[axis] > 0).map_or(0, |axis| {
            let mut tile = tile;
            tile[axis] -= 1;
            grid.steps[plan.tile_index(tile)]
        });
        if source.is_masked(position) {
            grid.steps.push(before);
            grid.values.push(quantiser.reconstruct(before));
            continue;
        }
        let steps = quantiser.quantise(value);
        let kept = steps.map(|steps| (steps, quantiser.reconstruct::<T>(steps)));
        if let Some((steps, reconstructed, error)) = kept.and_then(|(k, r)| Some((k, r, source.error(value, r)?))) {
            grid.steps.push(steps);
            grid.values.push(reconstructed);
            grid.worst = grid.worst.max(error);
        } else {
            grid.steps.push(before);
            grid.values.push(value);
            grid.escaped.push(index);
        }
    }
    grid
}

/// Buffers for one strip after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoder<T> {
    nodes: Nodes<T>,
    values: Vec<T>,
    predictions: Vec<T>,
    symbols: Vec<i32>,
    reconstructed: Vec<T>,
    /// The symbols of each tile by place.
    pub(super) places: Vec<i32>,
    /// The escapes of each tile: the node in C order of a full tile, and its value.
    pub(super) escapes: Vec<Vec<(u16, T)>>,
    pub(super) worst: f64,
    masked: bool,
    counts: bool,
    /// If they are to be counted: symbols that are 0, and all, of the nodes that the strip's tiles own.
    zeros: [u64; 2],
}

impl<T: Value> Encoder<T> {
    /// Starts a strip.
    pub(super) fn start(&mut self, plan: &Plan, strip: &Strip, source: &Source<'_, T>, anchors: &[T]) {
        self.nodes.start(plan, strip, anchors);
        self.places.clear();
        self.places.resize(strip.count * TILE_NODES, 0);
        self.escapes.iter_mut().for_each(Vec::clear);
        self.escapes.resize_with(strip.count, Vec::new);
        self.worst = 0.0;
        self.zeros = [0; 2];
        self.masked = source.mask.is_some_and(|mask| self.nodes.box_rows(plan).any(|range| mask.any(range)));
    }

    /// Goes on to the next level.
    pub(super) fn refine(&mut self, plan: &Plan, level: usize) {
        if level + 1 < plan.shape.levels() {
            self.nodes.refine(plan, level);
        }
    }

    fn load(&mut self, plan: &Plan, source: &Source<'_, T>, row: &Row) {
        let [z, y, x] = row.node;
        let first = (z * plan.dims[1] + y) * plan.dims[2] + x;
        let end = plan.dims[2] - x;
        self.values.resize(row.len, T::ZERO);
        self.predictions.resize(row.len, T::ZERO);
        rows::gather(&mut self.values, &source.values[first..][..end], row.spacing);
    }

    /// Predicts and quantises the nodes of a class.
    pub(super) fn quantise(&mut self, plan: &Plan, source: &Source<'_, T>, scheme: &Scheme<T>, class: Class, predictor: Predictor) {
        let quantiser = &scheme.quantisers[class.level];
        for row in self.nodes.rows(class) {
            self.load(plan, source, &row);
            self.nodes.predict(predictor, class, &row, &mut self.predictions);
            self.symbols.resize(row.len, 0);
            self.reconstructed.resize(row.len, T::ZERO);
            let (symbols, reconstructed) = (&mut self.symbols, &mut self.reconstructed);
            let kept = rows::quantise(quantiser, source.bound, source.forbidden, &self.values, &self.predictions, symbols, reconstructed);
            match kept.filter(|_| !self.masked) {
                Some(worst) => self.worst = if worst > self.worst { worst } else { self.worst },
                None => self.quantise_each(plan, source, quantiser, &row),
            }
            self.nodes.row_mut(class, &row).copy_from_slice(&self.reconstructed);
            self.store(plan, class, &row);
        }
    }

    #[cold]
    fn quantise_each(&mut self, plan: &Plan, source: &Source<'_, T>, quantiser: &Quantiser<T>, row: &Row) {
        let [z, y, x] = row.node;
        let owned = self.nodes.owned;
        let first = (z * plan.dims[1] + y) * plan.dims[2] + x;
        for index in 0..row.len {
            let (value, prediction) = (self.values[index], self.predictions[index]);
            let offset = index << row.spacing;
            let (symbol, reconstructed) = if source.is_masked(first + offset) {
                (0, quantiser.missing(prediction))
            } else {
                let (symbol, reconstructed, fits) = quantiser.quantise(value, prediction);
                if let Some(error) = source.error(value, reconstructed).filter(|_| fits) {
                    self.worst = self.worst.max(error);
                    (symbol, reconstructed)
                } else {
                    let node = [z - self.nodes.low[0], y - self.nodes.low[1], x + offset - self.nodes.low[2]];
                    if (0..3).all(|axis| node[axis] < owned[axis]) {
                        let side = |axis: usize| plan.shape.side(axis);
                        let tile = node[2] >> plan.shape.log2()[2];
                        let at = (node[0] * side(1) + node[1]) * side(2) + (node[2] & (side(2) - 1));
                        self.escapes[tile].push((at as u16, value));
                    }
                    (0, value)
                }
            };
            self.symbols[index] = symbol;
            self.reconstructed[index] = reconstructed;
        }
    }

    /// Puts a row's symbols in their places, those of far faces left out.
    fn store(&mut self, plan: &Plan, class: Class, row: &Row) {
        let [ez, ey, ex] = plan.shape.extent_log2(class.level);
        if row.z >> ez > 0 || row.y >> ey > 0 {
            return;
        }
        let start = plan.shape.class_start(class.level, class.axes) + (((row.z << ey) + row.y) << ex);
        for (tile, symbols) in self.places.chunks_exact_mut(TILE_NODES).zip(self.symbols.chunks(1 << ex)) {
            tile[start..][..symbols.len()].copy_from_slice(symbols);
            if self.counts {
                self.zeros[0] += symbols.iter().filter(|&&symbol| symbol == 0).count() as u64;
                self.zeros[1] += symbols.len() as u64;
            }
        }
    }

    /// What each of a class's predictors would cost, by code.
    fn costs(&mut self, plan: &Plan, source: &Source<'_, T>, quantiser: &Quantiser<T>, class: Class) -> [u64; 10] {
        let mut costs = [0; 10];
        for row in self.nodes.rows(class) {
            self.load(plan, source, &row);
            let first = (row.node[0] * plan.dims[1] + row.node[1]) * plan.dims[2] + row.node[2];
            for predictor in Predictor::all(class.axes) {
                self.nodes.predict(predictor, class, &row, &mut self.predictions);
                if self.masked {
                    for index in (0..row.len).filter(|&index| source.is_masked(first + (index << row.spacing))) {
                        self.values[index] = T::ZERO;
                        self.predictions[index] = T::ZERO;
                    }
                }
                costs[usize::from(predictor.code())] += rows::cost(quantiser, &self.values, &self.predictions);
            }
        }
        costs
    }

    /// All classes, with the scheme's predictors.
    pub(super) fn run(&mut self, plan: &Plan, strip: &Strip, source: &Source<'_, T>, scheme: &Scheme<T>, anchors: &[T]) {
        self.start(plan, strip, source, anchors);
        let mut level = plan.shape.levels();
        for (&class, &predictor) in plan.classes.iter().zip(&scheme.predictors) {
            if class.level < level {
                level = class.level;
                self.refine(plan, level);
            }
            self.quantise(plan, source, scheme, class, predictor);
        }
    }

    /// After the last level: the reconstructed values of the nodes that a tile of the strip owns, in C order.
    pub(super) fn tile_values(&self, plan: &Plan, strip: &Strip, tile: usize) -> Vec<T> {
        let [z, y, x] = strip.tile;
        let [nz, ny, nx] = plan.tile_box([z, y, x + tile]).1;
        let start = tile << plan.shape.log2()[2];
        let mut row = vec![T::ZERO; start + nx];
        let mut out = Vec::with_capacity(nz * ny * nx);
        for (z, y) in (0..nz).flat_map(|z| (0..ny).map(move |y| (z, y))) {
            self.nodes.copy_row(z, y, &mut row);
            out.extend_from_slice(&row[start..]);
        }
        out
    }
}

/// Tiles that are looked at to choose the predictors of coarse levels, where a tile has few nodes, and of fine ones.
const COARSE_SAMPLE: usize = 256;
const FINE_SAMPLE: usize = 64;

/// Levels below this one are fine.
const FINE_LEVELS: usize = 2;

/// The strips that are looked at, and which of them fine levels look at.
pub(crate) fn sample(plan: &Plan) -> Vec<(Strip, bool)> {
    let strips = plan.sample_strips();
    let spread = |sample: usize| (strips.len() * sample).div_ceil(plan.tile_count()).clamp(1, strips.len());
    let coarse = spread(COARSE_SAMPLE);
    let fine = spread(FINE_SAMPLE).min(coarse);
    let is_fine = |index: usize| index * fine / coarse != (index + 1) * fine / coarse;
    (0..coarse).map(|index| (strips[index * strips.len() / coarse], is_fine(index))).collect()
}

/// Chooses each class's predictor by what its residuals cost in a sample, the classes before it reconstructed with their choice. Also
/// returns the share of symbols that are 0.
pub(super) fn choose<T: Value>(plan: &Plan, source: &Source<'_, T>, scheme: &Scheme<T>, anchors: &[T]) -> (Vec<Predictor>, f64) {
    let (strips, is_fine): (Vec<Strip>, Vec<bool>) = self::sample(plan).into_iter().unzip();
    let mut sample: Vec<(Strip, Encoder<T>)> =
        strips.into_iter().map(|strip| (strip, Encoder { counts: true, ..Encoder::default() })).collect();
    sample.par_iter_mut().for_each(|(strip, encoder)| encoder.start(plan, strip, source, anchors));
    let mut predictors = Vec::with_capacity(plan.classes.len());
    let mut level = plan.shape.levels();
    for &class in &plan.classes {
        if class.level < level {
            level = class.level;
            if level + 1 == FINE_LEVELS {
                let all = std::mem::take(&mut sample);
                sample = all.into_iter().zip(&is_fine).filter(|(_, fine)| **fine).map(|(strip, _)| strip).collect();
            }
            sample.par_iter_mut().for_each(|(_, encoder)| encoder.refine(plan, level));
        }
        let costs = sample.par_iter_mut().map(|(_, encoder)| encoder.costs(plan, source, &scheme.quantisers[level], class));
        let costs = costs.reduce(|| [0; 10], |a, b| std::array::from_fn(|code| a[code] + b[code]));
        // Where they cost the same, the one that is best elsewhere.
        let best = Predictor::all(class.axes).min_by_key(|p| (costs[usize::from(p.code())], u8::MAX - p.code()));
        let best = best.expect("every class has predictors");
        sample.par_iter_mut().for_each(|(_, encoder)| encoder.quantise(plan, source, scheme, class, best));
        predictors.push(best);
    }
    let [zeros, all] = sample.iter().fold([0; 2], |sum, (_, encoder)| [0, 1].map(|i| sum[i] + encoder.zeros[i]));
    (predictors, zeros as f64 / all.max(1) as f64)
}
