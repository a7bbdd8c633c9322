//! Predictors. The exact order of operations is part of the archive format; a multiply-add is fused only where `fma` says so.

use crate::Real;

/// How the neighbours along an axis are weighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the two nearest.
    Linear,
    /// By the four nearest, or three at an edge of the box.
    Cubic,
}

/// How a class's nodes are predicted; one choice for each class and chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// Along one of the odd axes (0 = z).
    Axis(Kind, usize),
    /// The mean of the cubic predictions along all odd axes, of which there are two or three.
    Mean,
    /// Transfinite (Coons) interpolation between the nodes along all odd axes and those between them, likewise.
    Coons,
}

/// How many predictors a class can have at most.
pub const MAX_PREDICTORS: usize = 8;

impl Predictor {
    /// The code in archives.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Axis(Kind::Linear, axis) => axis as u8,
            Self::Axis(Kind::Cubic, axis) => 4 + axis as u8,
            Self::Mean => 8,
            Self::Coons => 9,
        }
    }

    /// The predictor with this code, if a class with this set of odd axes can have it.
    #[must_use]
    pub const fn from_code(code: u8, class: usize) -> Option<Self> {
        let axis = code as usize & 3;
        let single = class & (class - 1) == 0;
        match code {
            8 if !single => Some(Self::Mean),
            9 if !single => Some(Self::Coons),
            0..8 if axis < 3 && class >> axis & 1 == 1 => Some(Self::Axis(if code < 4 { Kind::Linear } else { Kind::Cubic }, axis)),
            _ => None,
        }
    }

    /// All predictors of a class.
    pub fn all(class: usize) -> impl Iterator<Item = Self> {
        (0..10).filter_map(move |code| Self::from_code(code, class))
    }
}

/// Which neighbours along an odd axis are inside the closed box; the nearest one before the node always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// The node 3 spacings before.
    pub before3: bool,
    /// The node 1 spacing after.
    pub after1: bool,
    /// The node 3 spacings after; only where `after1` is.
    pub after3: bool,
}

impl Side {
    /// For the odd node `index` of a tile that has 2^`extent_log2` of them along the axis, where `last_even` is the greatest even index
    /// inside the box and the field (2^`extent_log2` where the far face exists).
    #[inline(always)]
    #[must_use]
    pub const fn new(index: usize, extent_log2: usize, last_even: usize) -> Self {
        let after3 = index + 1 < 1 << extent_log2 && index + 2 <= last_even;
        Self { before3: index > 0, after1: index < last_even, after3 }
    }

    /// The weights of the neighbours at -3, -1, +1 and +3 spacings.
    #[inline(always)]
    #[must_use]
    pub const fn weights(self, kind: Kind) -> [f64; 4] {
        let cubic = matches!(kind, Kind::Cubic);
        match (self.after1, self.before3, self.after3) {
            (true, true, true) if cubic => [-0.0625, 0.5625, 0.5625, -0.0625],
            (true, true, false) if cubic => [-0.125, 0.75, 0.375, 0.0],
            (true, false, true) if cubic => [0.0, 0.375, 0.75, -0.125],
            (true, ..) => [0.0, 0.5, 0.5, 0.0],
            (false, true, _) => [-0.5, 1.5, 0.0, 0.0],
            (false, false, _) => [0.0, 1.0, 0.0, 0.0],
        }
    }
}

/// The prediction along an axis from the neighbours at -3, -1, +1 and +3 spacings. Those of weight 0 may be any finite numbers.
#[inline(always)]
pub fn along<T: Real>(neighbours: [T; 4], weights: [T; 4]) -> T {
    let [before3, before1, after1, after3] = neighbours;
    weights[1].fma(before1, weights[2].fma(after1, weights[0].fma(before3, weights[3] * after3)))
}

/// The mean of the predictions along two axes, the slower one first.
#[inline(always)]
pub fn mean2<T: Real>(a: T, b: T) -> T {
    T::HALF * (a + b)
}

/// The mean of the predictions along z, y and x.
#[inline(always)]
pub fn mean3<T: Real>(z: T, y: T, x: T) -> T {
    ((z + y) + x) * T::from_f64(1.0 / 3.0)
}

/// Coons interpolation of two axes: `sides` is (before + after) along the slower one plus (before + after) along the faster one,
/// `corners` is [`corners`] of the four nodes between them.
#[inline(always)]
pub fn coons2<T: Real>(sides: T, corners: T) -> T {
    T::from_f64(-0.25).fma(corners, T::HALF * sides)
}

/// Coons interpolation of three axes: `faces` is the sum of the (before + after) along z, y and x, in this order, `edges` the sum of
/// [`corners`] in the planes zy, zx and yx, in this order.
#[inline(always)]
pub fn coons3<T: Real>(faces: T, edges: T) -> T {
    T::from_f64(1.0 / 3.0) * T::from_f64(-0.25).fma(edges, faces)
}

/// The sum of the four nodes one spacing away along both of two axes: (before, before), (before, after), (after, before) and (after,
/// after) of the slower and the faster axis.
#[inline(always)]
pub fn corners<T: Real>(c00: T, c01: T, c10: T, c11: T) -> T {
    (c00 + c01) + (c10 + c11)
}

/// An odd axis of a node: its neighbours as in [`along`] (those that are not there may be any finite numbers), and which there are.
#[derive(Clone, Copy, Debug)]
pub struct Neighbours<T> {
    /// At -3, -1, +1 and +3 spacings.
    pub values: [T; 4],
    /// Which of them are inside the box.
    pub side: Side,
}

impl<T: Real> Neighbours<T> {
    /// The prediction along this axis.
    #[inline(always)]
    pub fn predict(&self, kind: Kind) -> T {
        along(self.values, self.side.weights(kind).map(T::from_f64))
    }
}

/// The prediction of any node: `axes` are its odd axes, `corner` gives [`corners`] in the plane of two of them.
///
/// Where an axis has no neighbour after the node, [`Predictor::Mean`] leaves it out and [`Predictor::Coons`] is the mean of the linear
/// predictions along the others; where no axis has one, both are the mean of the neighbours before the node.
#[inline(always)]
pub fn predict<T: Real>(predictor: Predictor, axes: &[Option<Neighbours<T>>; 3], corner: impl Fn(usize, usize) -> T) -> T {
    predict_with(predictor, axes, corner, |axis, kind| axis.predict(kind))
}

/// [`predict`], given what is [`Neighbours::predict`], for which a backend may look weights up.
#[inline(always)]
pub fn predict_with<T: Real>(
    predictor: Predictor,
    axes: &[Option<Neighbours<T>>; 3],
    corner: impl Fn(usize, usize) -> T,
    along: impl Fn(&Neighbours<T>, Kind) -> T,
) -> T {
    let mean = |values: [Option<T>; 3]| match values {
        [Some(z), Some(y), Some(x)] => mean3(z, y, x),
        [Some(a), Some(b), None] | [Some(a), None, Some(b)] | [None, Some(a), Some(b)] => mean2(a, b),
        [Some(a), None, None] | [None, Some(a), None] | [None, None, Some(a)] => a,
        [None, None, None] => T::ZERO,
    };
    let both = |axis: &Option<Neighbours<T>>| axis.filter(|axis| axis.side.after1);
    let kind = match predictor {
        Predictor::Axis(kind, axis) => return axes[axis].as_ref().map_or(T::ZERO, |axis| along(axis, kind)),
        Predictor::Mean => Kind::Cubic,
        Predictor::Coons => Kind::Linear,
    };
    if !axes.iter().any(|axis| both(axis).is_some()) {
        return mean([0, 1, 2].map(|axis| axes[axis].map(|axis: Neighbours<T>| axis.values[1])));
    }
    let whole = axes.iter().all(|axis| axis.is_none_or(|axis| axis.side.after1));
    if predictor == Predictor::Mean || !whole {
        return mean([0, 1, 2].map(|axis| both(&axes[axis]).as_ref().map(|axis| along(axis, kind))));
    }
    let sum = |axis: Neighbours<T>| axis.values[1] + axis.values[2];
    match *axes {
        [Some(z), Some(y), Some(x)] => {
            let edges = (corner(0, 1) + corner(0, 2)) + corner(1, 2);
            coons3((sum(z) + sum(y)) + sum(x), edges)
        }
        [Some(a), Some(b), None] => coons2(sum(a) + sum(b), corner(0, 1)),
        [Some(a), None, Some(b)] => coons2(sum(a) + sum(b), corner(0, 2)),
        [None, Some(a), Some(b)] => coons2(sum(a) + sum(b), corner(1, 2)),
        _ => T::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Along each axis a polynomial, their products included: what the predictors must reproduce.
    fn at(cubic: bool, z: f64, y: f64, x: f64) -> f64 {
        let p = |t: f64, a: f64| 1.0 + a * t + if cubic { 0.25 * t * t - 0.5 * t * t * t } else { 0.0 };
        p(z, 1.0) + p(y, 2.0) + p(x, -1.0)
    }

    fn neighbours(axis: usize, side: Side, cubic: bool) -> Neighbours<f64> {
        let values = [-3.0, -1.0, 1.0, 3.0].map(|t| {
            let mut node = [0.0; 3];
            node[axis] = t;
            at(cubic, node[0], node[1], node[2])
        });
        Neighbours { values, side }
    }

    const INSIDE: Side = Side { before3: true, after1: true, after3: true };

    #[test]
    fn polynomials_are_reproduced() {
        for axis in 0..3 {
            assert_eq!(neighbours(axis, INSIDE, true).predict(Kind::Cubic), at(true, 0.0, 0.0, 0.0));
            for side in [INSIDE, Side { after3: false, ..INSIDE }, Side { before3: false, ..INSIDE }, Side { after1: false, ..INSIDE }] {
                for kind in [Kind::Linear, Kind::Cubic] {
                    assert_eq!(neighbours(axis, side, false).predict(kind), at(false, 0.0, 0.0, 0.0), "{axis} {side:?}");
                }
            }
        }
        // Coons interpolation reproduces sums of any functions of fewer axes.
        let axes = [0, 1, 2].map(|axis| Some(neighbours(axis, INSIDE, true)));
        let corner = |a: usize, b: usize| {
            let node = |s: f64, t: f64| {
                let mut node = [0.0; 3];
                (node[a], node[b]) = (s, t);
                at(true, node[0], node[1], node[2])
            };
            corners(node(-1.0, -1.0), node(-1.0, 1.0), node(1.0, -1.0), node(1.0, 1.0))
        };
        approx::assert_relative_eq!(predict(Predictor::Coons, &axes, corner), at(true, 0.0, 0.0, 0.0), epsilon = 1e-14);
        for left_out in 0..3 {
            let mut axes = axes;
            axes[left_out] = None;
            assert_eq!(predict(Predictor::Coons, &axes, corner), at(true, 0.0, 0.0, 0.0));
            assert_eq!(predict(Predictor::Mean, &axes, corner), at(true, 0.0, 0.0, 0.0));
        }
    }

    #[test]
    fn weights_sum_to_one() {
        for bits in 0..8 {
            let side = Side { before3: bits & 1 != 0, after1: bits & 2 != 0, after3: bits & 4 != 0 };
            for kind in [Kind::Linear, Kind::Cubic] {
                assert_eq!(side.weights(kind).iter().sum::<f64>(), 1.0);
            }
        }
    }

    #[test]
    fn codes_come_back() {
        for class in super::super::CLASSES {
            let all = Predictor::all(class);
            assert_eq!(all.count(), [2, 6, 8][class.count_ones() as usize - 1]);
            for predictor in Predictor::all(class) {
                assert_eq!(Predictor::from_code(predictor.code(), class), Some(predictor));
            }
        }
        assert_eq!(Predictor::from_code(9, 4), None);
        assert_eq!(Predictor::from_code(3, 7), None);
        assert_eq!(Predictor::from_code(0, 4), None);
        assert_eq!(Predictor::from_code(255, 7), None);
    }
}
