//! Flags and arguments.

use std::path::PathBuf;

use bmgard::{BackendChoice, DType, ErrorBound, ErrorBudget, Mode, Shape, Tile, Value};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use crate::failure::{Failure, Kind, Outcome};
use crate::fields::Kind as FieldKind;
use crate::report::to_stderr;

/// Error-bounded lossy compression of scientific fields.
///
/// Every finite value comes back within the bound that you state; NaN, infinities and fill values come back bit for bit.
#[derive(Debug, Parser)]
#[command(
    name = "bmgard",
    bin_name = "bmgard",
    version,
    propagate_version = true,
    after_help = EXAMPLES,
    after_long_help = EXIT_CODES
)]
pub struct Cli {
    /// Use this many threads of the CPU instead of all; the result does not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = parse_threads, display_order = 900)]
    pub threads: Option<usize>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  bmgard compress density_512x512x512.f32 density.bmg --rel-range 1e-3
  bmgard decompress density.bmg density.npy
  bmgard compare density_512x512x512.f32 density.npy --rel-range 1e-3";

const EXIT_CODES: &str = "\
Examples:
  bmgard compress density_512x512x512.f32 density.bmg --rel-range 1e-3
  bmgard decompress density.bmg density.npy
  bmgard compare density_512x512x512.f32 density.npy --rel-range 1e-3

Files:
  Fields are raw little-endian values in C order, or NumPy's .npy; shape and type are read off names such as
  FIELD_100x500x500.f32 (slowest dimension first), off .npy files, or given by --shape and --dtype.
  '-' is standard input or standard output.

Exit codes:
  0  done
  1  the bound is broken, or another check failed
  2  flags, shape, type or bound make no sense, alone or with the file
  3  a file is missing, unreadable, damaged, or not what it should be
  4  the device, or writing, failed
  5  the output exists (add --overwrite)

With --json, numbers that are not finite are null.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compress a field into an archive
    Compress(CompressArgs),
    /// Decompress an archive into a raw or .npy file
    Decompress(DecompressArgs),
    /// Show what an archive holds, without decompressing it
    Inspect(InspectArgs),
    /// Compare a decoded field with its original
    Compare(CompareArgs),
    /// Generate a test field
    Gen(GenArgs),
    /// List the CUDA devices
    Devices(DevicesArgs),
    /// Measure the speed of compression and decompression
    Bench(BenchArgs),
    /// Generate, compress, decompress and compare a small field in a temporary folder, and show how
    Demo,
}

/// How raw values are to be read.
#[derive(Clone, Debug, Default, Args)]
pub struct LayoutArgs {
    /// Shape, slowest dimension first; read off names such as FIELD_100x500x500.f32 and off .npy files
    #[arg(long, value_name = "NZxNYxNX")]
    pub shape: Option<Shape>,
    /// Type of the values, f32 or f64; read off the extensions .f32, .f64, .d64 and off .npy files
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<DType>,
}

/// The error bound; one of the three.
#[derive(Clone, Copy, Debug, Args)]
#[group(id = "bound", multiple = false)]
pub struct BoundArgs {
    /// Absolute error bound, in the unit of the data
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub abs: Option<f64>,
    /// Error bound relative to the largest magnitude max |u|
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub rel: Option<f64>,
    /// Error bound relative to the range max - min
    #[arg(long, value_name = "E", allow_hyphen_values = true)]
    pub rel_range: Option<f64>,
}

impl BoundArgs {
    /// The bound, if one was given, checked.
    pub fn get(self) -> Outcome<Option<ErrorBound>> {
        let bound = self
            .abs
            .map(ErrorBound::Absolute)
            .or(self.rel.map(ErrorBound::RelativeToMax))
            .or(self.rel_range.map(ErrorBound::RelativeToRange));
        if let Some(bound) = bound {
            bound.validate()?;
        }
        Ok(bound)
    }

    /// The bound where clap has seen to it that there is one.
    pub fn required(self) -> Outcome<ErrorBound> {
        self.get()?.ok_or_else(|| Failure::new(Kind::Usage, "give one of --abs, --rel and --rel-range"))
    }
}

/// Everything that shapes an archive, besides the bound.
#[derive(Clone, Debug, Args)]
pub struct EncodingArgs {
    /// Combination of transform and coder [default: fast, or paper where levels or an error budget are given]
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
    /// Number L of local (in-cache block) levels; default: the mode's, or as many of them as fit
    #[arg(long, value_name = "L")]
    pub local_levels: Option<u32>,
    /// Number M of global levels; default: the mode's, or as many of them as fit
    #[arg(long, value_name = "M")]
    pub global_levels: Option<u32>,
    /// How the bound is spread over the levels of mode paper; each is verified value by value [default: tight]
    #[arg(long, value_enum)]
    pub error_budget: Option<BudgetArg>,
    /// Tiles of mode fast: 16x16x16, 4x32x32, 32x4x32, 32x32x4, 64x64 or 4096 [default: by the number of dimensions]
    #[arg(long, value_name = "NZxNYxNX")]
    pub tile: Option<Tile>,
    /// Value that marks missing data: kept bit for bit, ignored where relative bounds are resolved; auto: looked for in the field
    #[arg(long, value_name = "VALUE|auto", allow_hyphen_values = true, value_parser = parse_fill)]
    pub fill: Option<FillArg>,
    /// Most raw bytes in a chunk, with K, M or G for 2^10, 2^20 or 2^30; the archive depends on it [default: 2G]
    #[arg(long, value_name = "N", value_parser = parse_bytes)]
    pub chunk_bytes: Option<u64>,
    /// Where to work; the archive does not depend on it
    #[arg(long, value_enum, default_value = "auto")]
    pub backend: BackendArg,
}

impl EncodingArgs {
    /// The library's configuration.
    pub fn config(&self, bound: ErrorBound) -> Outcome<bmgard::Config> {
        let defaults = bmgard::Config::new(bound);
        // What only one mode has asks for that mode.
        let is_paper = self.local_levels.is_some() || self.global_levels.is_some() || self.error_budget.is_some();
        let default = if is_paper && self.tile.is_none() { bmgard::Mode::Paper } else { defaults.mode };
        let mode = self.mode.map_or(Ok(default), ModeArg::get)?;
        if self.error_budget.is_some() && mode != bmgard::Mode::Paper {
            return Err(Failure::new(
                Kind::Usage,
                "only mode paper has a choice of error budgets: give --mode paper, or leave --error-budget out",
            ));
        }
        Ok(bmgard::Config {
            mode,
            local_levels: self.local_levels,
            global_levels: self.global_levels,
            error_budget: self.error_budget.map_or(defaults.error_budget, Into::into),
            tile: self.tile,
            fill: match self.fill {
                Some(FillArg::Value(fill)) => Some(fill),
                Some(FillArg::Auto) | None => None,
            },
            backend: self.backend.into(),
            max_chunk_bytes: self.chunk_bytes.unwrap_or(defaults.max_chunk_bytes),
            ..defaults
        })
    }

    /// Sets the fill value for `--fill auto`, and says what was found.
    pub fn find_fill<T: Value>(&self, config: &mut bmgard::Config, values: &[T]) {
        if self.fill != Some(FillArg::Auto) {
            return;
        }
        match bmgard::detect_fill(values) {
            Some((fill, count)) => {
                let share = 100.0 * count as f64 / values.len() as f64;
                to_stderr(&format!("--fill auto: {fill:?} marks missing data ({count} values, {share:.2} %)\n"));
                config.fill = Some(fill.to_f64());
            }
            None => to_stderr("--fill auto: no fill value was found\n"),
        }
    }
}

/// A fill value, or how to find it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FillArg {
    /// This one.
    Value(f64),
    /// What stands far outside of the field's other values and repeats.
    Auto,
}

fn parse_fill(text: &str) -> Result<FillArg, String> {
    if text == "auto" {
        return Ok(FillArg::Auto);
    }
    text.parse().map(FillArg::Value).map_err(|_| "a number or 'auto' is needed".into())
}

/// Arguments of `compress`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("required bound").required(true).args(["abs", "rel", "rel_range"]))]
#[command(after_help = "\
Examples:
  bmgard compress T_30x192x288.f32 T.bmg --rel-range 1e-4
  bmgard compress sst.npy sst.bmg --abs 0.01 --fill -1e10 --json
  produce | bmgard compress - out.bmg --shape 100x500x500 --dtype f64 --rel 1e-6")]
pub struct CompressArgs {
    /// Field to compress: raw values or .npy; '-' for standard input
    pub input: PathBuf,
    /// Archive to write; '-' for standard output
    pub output: PathBuf,
    /// Shape and type.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// The bound.
    #[command(flatten)]
    pub bound: BoundArgs,
    /// The settings.
    #[command(flatten)]
    pub encoding: EncodingArgs,
    /// Skip decoding what was written and comparing it with the input
    #[arg(long)]
    pub no_verify: bool,
    /// Replace an existing output
    #[arg(long)]
    pub overwrite: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `decompress`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  bmgard decompress T.bmg T_30x192x288.f32
  bmgard decompress T.bmg T.npy --overwrite
  bmgard decompress T.bmg - | consume")]
pub struct DecompressArgs {
    /// Archive to read; '-' for standard input
    pub input: PathBuf,
    /// Field to write, as .npy where the name ends so, else raw little-endian values; '-' for standard output
    pub output: PathBuf,
    /// Where to work; the values do not depend on it
    #[arg(long, value_enum, default_value = "auto")]
    pub backend: BackendArg,
    /// Replace an existing output
    #[arg(long)]
    pub overwrite: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  bmgard inspect T.bmg --json")]
pub struct InspectArgs {
    /// Archive to read; '-' for standard input
    pub archive: PathBuf,
    /// Print everything as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Strict: a value keeps the bound where |x - x'| <= bound, computed in f64 from the stored values; NaN, infinities and fill values
must come back bit for bit. Relative bounds are resolved on the original's valid values. Without a bound it only reports.

Examples:
  bmgard compare T_30x192x288.f32 T.npy --rel-range 1e-4
  bmgard compare sst_10x384x320.f32 sst.out --abs 0.01 --fill -1e10")]
pub struct CompareArgs {
    /// The original field
    pub original: PathBuf,
    /// The decoded field; shape and type are the original's where neither its name nor its format tells
    pub decoded: PathBuf,
    /// Shape and type.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// The bound.
    #[command(flatten)]
    pub bound: BoundArgs,
    /// Value that marks missing data in the original
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    pub fill: Option<f64>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `gen`.
#[derive(Debug, Args)]
#[command(after_help = "\
The values depend on kind, shape, type and seed only.

Examples:
  bmgard gen turbulence turb_512x512x512.f32
  bmgard gen fill sst.npy --shape 10x384x320 --dtype f32 --seed 7")]
pub struct GenArgs {
    /// What to generate
    #[arg(value_enum)]
    pub kind: FieldKind,
    /// File to write, as .npy where the name ends so, else raw little-endian values; '-' for standard output
    pub output: PathBuf,
    /// Shape and type.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Replace an existing output
    #[arg(long)]
    pub overwrite: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print the list as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["input", "gen"]))]
#[command(after_help = "\
Everything runs in this process, from memory to memory: one warm-up, then --repeat runs; the median and the spread are shown.
Speeds are GB/s of original data, GB = 1e9 bytes. The figures are reported, never judged.

Examples:
  bmgard bench T_30x192x288.f32 --rel-range 1e-3
  bmgard bench --gen turbulence --shape 256x256x256 --dtype f32 --rel-range 1e-3 --repeat 9")]
pub struct BenchArgs {
    /// Field to measure on: raw values or .npy
    pub input: Option<PathBuf>,
    /// Generate a field of this kind instead; needs --shape and --dtype
    #[arg(long, value_enum, value_name = "KIND")]
    pub r#gen: Option<FieldKind>,
    /// Shape and type.
    #[command(flatten)]
    pub layout: LayoutArgs,
    /// The bound.
    #[command(flatten)]
    pub bound: BoundArgs,
    /// The settings.
    #[command(flatten)]
    pub encoding: EncodingArgs,
    /// Seed of a generated field
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Measure the backend's stages apart, the field being there already: those of mode paper, which is the default then
    #[arg(long)]
    pub stages: bool,
    /// Number of measured runs
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Also measure SZ3 (absolute bound) and zfp (fixed accuracy) at the same bound, one thread each
    #[cfg(feature = "rivals")]
    #[arg(long)]
    pub rivals: bool,
    /// Print the figures as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Modes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Interpolation in closed tiles, Rice codes: higher ratios, and faster
    Fast,
    /// Interpolation with predictors chosen per tile, rANS (not available yet)
    Ratio,
    /// Interpolation in small tiles, fixed-width codes: the fastest
    Turbo,
    /// The BlockMGARD paper's: L2 projection, Huffman codes
    Paper,
}

impl ModeArg {
    fn get(self) -> Outcome<Mode> {
        match self {
            Self::Paper => Ok(Mode::Paper),
            Self::Fast => Ok(Mode::Fast),
            Self::Turbo => Ok(Mode::Turbo),
            Self::Ratio => Err(Failure::new(Kind::Usage, "--mode ratio is not available yet; --mode paper, fast and turbo are")),
        }
    }
}

/// Error budgets by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BudgetArg {
    /// Largest steps; the few values that break the bound are stored exactly
    Tight,
    /// Steps whose worst case keeps the bound
    Rigorous,
    /// MGARD's constants, for comparison
    Mgard,
}

impl From<BudgetArg> for ErrorBudget {
    fn from(budget: BudgetArg) -> Self {
        match budget {
            BudgetArg::Tight => Self::Tight,
            BudgetArg::Rigorous => Self::Rigorous,
            BudgetArg::Mgard => Self::Mgard,
        }
    }
}

/// Backends by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendArg {
    /// The GPU where one answers, else the CPU
    Auto,
    /// The CPU
    Cpu,
    /// The first CUDA device, or a failure
    Cuda,
}

impl From<BackendArg> for BackendChoice {
    fn from(backend: BackendArg) -> Self {
        match backend {
            BackendArg::Auto => Self::Auto,
            BackendArg::Cpu => Self::Cpu,
            BackendArg::Cuda => Self::Cuda,
        }
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads @ 1..=4096) => Ok(threads),
        _ => Err("a whole number from 1 to 4096 is needed".into()),
    }
}

/// Reads `64M` and the like.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number = number.parse::<u64>().map_err(|_| "a whole number is needed, with K, M or G for 2^10, 2^20 or 2^30".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 2^64 bytes".into())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn byte_counts_have_suffixes() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("64k"), Ok(65536));
        assert_eq!(parse_bytes("3M"), Ok(3 << 20));
        assert_eq!(parse_bytes("2G"), Ok(1 << 31));
        for bad in ["", "K", "-1", "1.5M", "1T", "18446744073709551615G", "1é"] {
            assert!(parse_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn thread_counts() {
        assert_eq!(parse_threads("2"), Ok(2));
        assert!(parse_threads("0").is_err());
        assert!(parse_threads("-1").is_err());
    }
}
