//! What a user can choose.

use std::fmt;
use std::str::FromStr;

use bmgard_core::closed::TileShape;
use serde::Serialize;

use crate::{Error, Result, Shape};

/// The promise for every finite value: `|x - x'| <= bound`, computed in f64 on the stored values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "kebab-case")]
pub enum ErrorBound {
    /// The bound itself, in the unit of the data.
    Absolute(f64),
    /// Times the largest magnitude max |u| of the field's valid values (the BlockMGARD paper's convention; `--rel`).
    RelativeToMax(f64),
    /// Times the range max - min of the field's valid values (the SZ family's convention; `--rel-range`).
    RelativeToRange(f64),
}

impl ErrorBound {
    /// The number as the user wrote it.
    #[must_use]
    pub fn value(self) -> f64 {
        match self {
            Self::Absolute(value) | Self::RelativeToMax(value) | Self::RelativeToRange(value) => value,
        }
    }

    /// Checks that the number is finite and greater than 0.
    ///
    /// # Errors
    /// [`Error::InvalidBound`] otherwise.
    pub fn validate(self) -> Result<()> {
        let value = self.value();
        if value.is_finite() && value > 0.0 { Ok(()) } else { Err(Error::InvalidBound { value }) }
    }

    /// The absolute bound for a field whose valid (finite, not fill) values have this minimum and maximum; `None` stands for a field
    /// without a valid value. Never more than `f64::MAX`. A result of 0 (a constant field under a bound relative to its range) asks
    /// for exact storage.
    #[must_use]
    pub fn resolve(self, min_max: Option<(f64, f64)>) -> f64 {
        let scale = match (self, min_max) {
            (Self::Absolute(value), _) => return value,
            (_, None) => return 0.0,
            (Self::RelativeToMax(_), Some((min, max))) => min.abs().max(max.abs()),
            (Self::RelativeToRange(_), Some((min, max))) => (max - min).min(f64::MAX),
        };
        (self.value() * scale).min(f64::MAX)
    }
}

impl fmt::Display for ErrorBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Absolute(_) => "absolute",
            Self::RelativeToMax(_) => "relative to max |u|",
            Self::RelativeToRange(_) => "relative to the range",
        };
        write!(f, "{:e} {kind}", self.value())
    }
}

/// How the bound is spread over the levels of the projection basis; every choice is verified value by value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorBudget {
    /// The largest steps that break the bound rarely enough; what breaks it is stored exactly. The best ratio.
    #[default]
    Tight,
    /// Steps whose worst case keeps the bound in exact arithmetic; only rounding needs patches.
    Rigorous,
    /// MGARD's constants, equal steps of `2 bound / ((1 + 3^d) (L + M + 1))` with an open-loop correction: for comparison.
    Mgard,
}

/// A named combination of basis and coder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Mode {
    /// The BlockMGARD paper's system: projection basis, L = 1, M = 2, Huffman.
    Paper,
    /// Interpolation in closed tiles, Rice codes: about twice the ratio, and faster.
    #[default]
    Fast,
    /// Interpolation in small tiles that know nothing of each other, symbols of fixed widths: the fastest.
    Turbo,
}

impl fmt::Display for Mode {
    /// The name on the command line and in reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Paper => "paper",
            Self::Fast => "fast",
            Self::Turbo => "turbo",
        })
    }
}

/// The shape of the tiles of the interpolation basis: 4096 nodes, slowest dimension first.
///
/// ```
/// let tile: bmgard::Tile = "4x32x32".parse()?;
/// assert_eq!(tile.sides(), [4, 32, 32]);
/// # Ok::<(), bmgard::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile(pub(crate) TileShape);

impl Tile {
    /// What is best where nothing is known of a field of so many (effective) dimensions.
    #[must_use]
    pub fn default_for(dimensions: usize) -> Self {
        Self(match dimensions {
            1 => TileShape::LINE,
            2 => TileShape::SQUARE,
            _ => TileShape::CUBE,
        })
    }

    /// Nodes along each dimension, slowest first.
    #[must_use]
    pub fn sides(self) -> [u64; 3] {
        [0, 1, 2].map(|axis| self.0.side(axis) as u64)
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = self.sides();
        let first = sides.iter().position(|&side| side > 1).unwrap_or(2);
        write!(f, "{}", sides[first..].iter().map(u64::to_string).collect::<Vec<_>>().join("x"))
    }
}

impl FromStr for Tile {
    type Err = Error;

    /// Reads `16x16x16`, `4x32x32`, `32x4x32`, `32x32x4`, `64x64` and `4096`, the last two also with leading ones.
    fn from_str(text: &str) -> Result<Self> {
        let shape = text.parse::<Shape>().map(|shape| shape.effective().0);
        let found = TileShape::ALL.into_iter().map(Tile).find(|tile| shape.as_ref().is_ok_and(|sides| tile.sides() == *sides));
        found.ok_or_else(|| {
            let known = TileShape::ALL.map(|shape| Tile(shape).to_string()).join(", ");
            Error::InvalidConfig(format!("there are no tiles of {text:?}, but of {known}"))
        })
    }
}

impl Serialize for Tile {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where the work is done. The archive does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendChoice {
    /// The GPU where a device answers and the feature `cuda` is on, else the CPU.
    #[default]
    Auto,
    /// All cores of the CPU (the current rayon pool).
    Cpu,
    /// The first CUDA device.
    Cuda,
}

/// All settings of a [`crate::Compressor`].
///
/// ```
/// use bmgard::{Config, ErrorBound, Mode};
/// let config = Config { mode: Mode::Paper, local_levels: Some(2), ..Config::new(ErrorBound::RelativeToRange(1e-3)) };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The bound on every value.
    pub error_bound: ErrorBound,
    /// The named combination.
    pub mode: Mode,
    /// The number L of local (in-cache block) levels of mode `paper`; `None`: the mode's, or as many of them as fit the shape.
    pub local_levels: Option<u32>,
    /// The number M of global levels, likewise.
    pub global_levels: Option<u32>,
    /// How the bound is spread over levels of the projection basis.
    pub error_budget: ErrorBudget,
    /// The tiles of mode `fast`; `None`: [`Tile::default_for`] the field's dimensions.
    pub tile: Option<Tile>,
    /// A value that marks missing data: kept bit for bit, and ignored where relative bounds are resolved.
    pub fill: Option<f64>,
    /// Where to work.
    pub backend: BackendChoice,
    /// The most raw bytes in a chunk (chunks stand alone); at least 4096. The archive depends on it.
    pub max_chunk_bytes: u64,
}

impl Config {
    /// The default of [`Config::max_chunk_bytes`]: 2 GiB.
    pub const DEFAULT_CHUNK_BYTES: u64 = 1 << 31;

    /// The default settings with this bound.
    #[must_use]
    pub fn new(error_bound: ErrorBound) -> Self {
        Self {
            error_bound,
            mode: Mode::default(),
            local_levels: None,
            global_levels: None,
            error_budget: ErrorBudget::default(),
            tile: None,
            fill: None,
            backend: BackendChoice::default(),
            max_chunk_bytes: Self::DEFAULT_CHUNK_BYTES,
        }
    }
}
