//! Closed tiles: a field is cut into tiles of 4096 nodes, and each tile is refined from one anchor, level by level, inside its *closed
//! box*, which takes in the near faces of the next tiles.
//!
//! Every node is predicted from reconstructed values of the box and its residual is quantised, so each value's error is its own
//! quantisation error. A node on a far face of the box belongs to another tile: it is computed by the same formulas from that tile's
//! residual, and because an axis on a multiple of the tile's side is never odd, its stencil stays inside the face. So all tiles are
//! independent, given anchors and residuals. Nodes beyond the field do not exist, and nothing is padded.
//!
//! On level l the spacing is s = 2^l. The nodes of *class* (l, m) have odd multiples of s along the axes of the set m (z = 1, y = 2,
//! x = 4) and multiples of min(2 s, the tile's side) along the others. Levels go from coarse to fine, and on a level the classes go by
//! the number of their odd axes ([`CLASSES`]); those with the same number are independent of each other.
//!
//! [`geometry`] tells where nodes are, and where their symbols stand in a tile's stream; [`predict`] and [`quantise`] what is computed at
//! each node, and [`rice`] how mode `fast` codes it.

pub mod geometry;
pub mod predict;
pub mod quantise;
pub mod rice;

pub use geometry::{BoxLayout, CLASSES, TILE_NODES, TileShape};
pub use predict::{Kind, Predictor, Side};
pub use quantise::{Anchors, Quantiser};
