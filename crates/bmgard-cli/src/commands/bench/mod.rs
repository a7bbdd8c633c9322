//! `bmgard bench`

mod codec;
#[cfg(feature = "rivals")]
mod rivals;
mod timing;

#[cfg(feature = "cuda")]
use bmgard::Compressor;
use bmgard::{Comparison, Config, DType, ErrorBound, Shape};
use serde::Serialize;

use crate::args::{BenchArgs, ModeArg};
use crate::commands::min_max;
use crate::failure::{Failure, Kind, Outcome};
use crate::fields::{self, Element};
use crate::input::{Field, with_values};
use crate::report::{self, Channel};

use codec::{Codec, Ours};
use timing::Timing;

/// The bound where none is given.
const DEFAULT_BOUND: ErrorBound = ErrorBound::RelativeToRange(1e-3);

/// Runs the command.
pub fn run(args: &BenchArgs) -> Outcome {
    let mut encoding = args.encoding.clone();
    if args.stages {
        // The mode whose stages can be told apart.
        encoding.mode.get_or_insert(ModeArg::Paper);
    }
    let config = encoding.config(args.bound.get()?.unwrap_or(DEFAULT_BOUND))?;
    let report = match (&args.input, args.r#gen) {
        (Some(path), _) => {
            let field = Field::open(path, &args.layout, None)?;
            // In memory, as the rivals have it: the first pass over a mapped file would be a measurement of the disk.
            with_values!(&field.values, values => measure(args, &config, path.display().to_string(), values.to_vec(), &field.shape))?
        }
        (None, kind) => {
            let missing = |what: &str| Failure::new(Kind::Usage, format!("--gen needs {what}"));
            let kind = kind.ok_or_else(|| missing("a kind"))?;
            let shape = args.layout.shape.as_ref().ok_or_else(|| missing("--shape"))?;
            let name = format!("{}, seed {}", kind.name(), args.seed);
            match args.layout.dtype.ok_or_else(|| missing("--dtype"))? {
                DType::F32 => measure(args, &config, name, fields::generate::<f32>(kind, shape, args.seed).values, shape)?,
                DType::F64 => measure(args, &config, name, fields::generate::<f64>(kind, shape, args.seed).values, shape)?,
            }
        }
    };
    if args.json {
        return Channel::Stdout.json(&report);
    }
    report.print();
    Ok(())
}

#[cfg(feature = "rivals")]
use rivals::Rival;

/// Without the rivals any type will do.
#[cfg(not(feature = "rivals"))]
trait Rival {}
#[cfg(not(feature = "rivals"))]
impl<T> Rival for T {}

fn measure<T: Element + Rival>(args: &BenchArgs, config: &Config, source: String, values: Vec<T>, shape: &Shape) -> Outcome<Report> {
    let mut config = config.clone();
    args.encoding.find_fill(&mut config, &values);
    let config = &config;
    let extremes = Comparison::new(&values, &values, None, config.fill)?;
    let abs_bound = config.error_bound.resolve(min_max(&extremes));
    let bench = Bench { shape, abs_bound, fill: config.fill, repeat: args.repeat };
    let all = rayon::current_num_threads();
    let mut runs = Vec::new();
    let stages = if args.stages { stages(config, &values, shape, args.repeat)? } else { Vec::new() };
    for threads in if all > 1 { vec![1, all] } else { vec![1] } {
        runs.push(bench.run(&mut Ours::new(config.clone(), threads)?, &values)?);
    }
    #[cfg(feature = "cuda")]
    runs.extend(bench.device(config, &values)?);
    #[cfg(feature = "rivals")]
    if args.rivals {
        let plain = without_exact(&values, config.fill);
        runs.push(bench.run(&mut rivals::Sz3::new(abs_bound), &plain)?);
        runs.push(bench.run(&mut rivals::Zfp::new(abs_bound), &plain)?);
    }
    Ok(Report {
        source,
        dtype: T::DTYPE,
        shape: shape.dims().to_vec(),
        original_bytes: size_of_val(values.as_slice()) as u64,
        error_bound: config.error_bound,
        abs_bound,
        exact_values: extremes.exact_values,
        repeat: args.repeat,
        runs,
        stages,
    })
}

/// The times of the backend's stages.
fn stages<T: Element>(config: &Config, values: &[T], shape: &Shape, repeat: u32) -> Outcome<Vec<Stage>> {
    let bytes = size_of_val(values) as u64;
    let times = bmgard::stage_times(values, shape, config, repeat as usize)?;
    Ok(times.into_iter().map(|times| Stage { stage: times.stage, timing: Timing::new(bytes, times.seconds) }).collect())
}

/// The values with 0 for NaN, infinities and fill values, which the rivals have no notion of.
#[cfg(feature = "rivals")]
fn without_exact<T: Element>(values: &[T], fill: Option<f64>) -> Vec<T> {
    let fill = fill.map(T::of);
    values.iter().map(|&x| if x.to_f64().is_finite() && fill != Some(x) { x } else { T::of(0.0) }).collect()
}

/// The keys of the JSON object.
#[derive(Serialize)]
struct Report {
    source: String,
    dtype: DType,
    shape: Vec<u64>,
    original_bytes: u64,
    error_bound: ErrorBound,
    abs_bound: f64,
    /// NaN, infinities and fill values, which the rivals are given as 0.
    exact_values: u64,
    repeat: u32,
    runs: Vec<Run>,
    /// With `--stages` only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<Stage>,
}

/// One stage of the backend.
#[derive(Serialize)]
struct Stage {
    stage: &'static str,
    timing: Timing,
}

/// What one codec did.
#[derive(Serialize)]
struct Run {
    codec: String,
    backend: String,
    threads: usize,
    compressed_bytes: u64,
    compression_ratio: f64,
    bit_rate: f64,
    max_abs_error: f64,
    error_over_bound: f64,
    bound_satisfied: bool,
    psnr: f64,
    compress: Timing,
    decompress: Timing,
    /// Device memory beside the field and the archive, by the field's bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_bytes_per_byte: Option<f64>,
    /// The most that it could have been, told from the shape alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    device_workspace_per_byte: Option<f64>,
}

/// What all codecs have in common.
struct Bench<'a> {
    shape: &'a Shape,
    abs_bound: f64,
    fill: Option<f64>,
    repeat: u32,
}

impl Bench<'_> {
    /// Our own on a GPU, from its memory to its memory; `None` on the CPU.
    #[cfg(feature = "cuda")]
    fn device<T: Element>(&self, config: &Config, values: &[T]) -> Outcome<Option<Run>> {
        if Compressor::new(config.clone())?.backend_name() != "cuda" {
            return Ok(None);
        }
        let mut decoded: Vec<T> = bytemuck::allocation::zeroed_vec(values.len());
        let times = bmgard::device_times(values, self.shape, config, self.repeat as usize, &mut decoded)?;
        let bytes = size_of_val(values) as u64;
        let (compress, decompress) = (Timing::new(bytes, times.compress), Timing::new(bytes, times.decompress));
        let codec = format!("bmgard {}", env!("CARGO_PKG_VERSION"));
        let device = ("cuda, its memory".into(), 0);
        let run = self.judge(codec, device, values, &decoded, times.summary.compressed_bytes, compress, decompress)?;
        let per_byte = |memory: u64| memory as f64 / bytes as f64;
        Ok(Some(Run {
            device_bytes_per_byte: Some(per_byte(times.memory.bytes)),
            device_workspace_per_byte: times.workspace_bytes.map(per_byte),
            ..run
        }))
    }

    fn run<T: Element>(&self, codec: &mut dyn Codec<T>, values: &[T]) -> Outcome<Run> {
        let bytes = size_of_val(values) as u64;
        let compress = Timing::of(bytes, self.repeat, || codec.compress(values, self.shape))?;
        let mut decoded: Vec<T> = bytemuck::allocation::zeroed_vec(values.len());
        let decompress = Timing::of(bytes, self.repeat, || codec.decompress(&mut decoded, self.shape))?;
        let place = (codec.backend(), codec.threads());
        self.judge(codec.name(), place, values, &decoded, codec.archive_bytes(), compress, decompress)
    }

    /// What a codec did, on a backend and so many threads, whose archive decodes to `decoded`.
    #[allow(clippy::too_many_arguments, reason = "the parts of a run")]
    fn judge<T: Element>(
        &self,
        codec: String,
        (backend, threads): (String, usize),
        values: &[T],
        decoded: &[T],
        compressed_bytes: u64,
        compress: Timing,
        decompress: Timing,
    ) -> Outcome<Run> {
        let bytes = size_of_val(values) as u64;
        let comparison = Comparison::new(values, decoded, Some(self.abs_bound), self.fill)?;
        Ok(Run {
            codec,
            backend,
            threads,
            compressed_bytes,
            compression_ratio: bytes as f64 / compressed_bytes as f64,
            bit_rate: 8.0 * compressed_bytes as f64 / values.len() as f64,
            max_abs_error: comparison.max_abs_error,
            error_over_bound: report::over_bound(comparison.max_abs_error, self.abs_bound),
            bound_satisfied: comparison.satisfied(),
            psnr: comparison.psnr,
            compress,
            decompress,
            device_bytes_per_byte: None,
            device_workspace_per_byte: None,
        })
    }
}

impl Run {
    fn row(&self) -> Vec<String> {
        vec![
            self.codec.clone(),
            report::backend(&self.backend, self.threads),
            format!("{:.3}", self.compression_ratio),
            format!("{:.4}", self.error_over_bound),
            if self.bound_satisfied { "kept" } else { "BROKEN" }.into(),
            self.compress.to_string(),
            self.decompress.to_string(),
        ]
    }
}

impl Report {
    fn print(&self) {
        let head = format!(
            "{}: {} of {}, {}; bound {}; median of {} (slowest to fastest), GB/s of original data\n\n",
            self.source,
            report::dims(&self.shape),
            self.dtype,
            report::bytes(self.original_bytes),
            report::bound(self.error_bound, self.abs_bound),
            self.repeat
        );
        let rows: Vec<Vec<String>> = self.runs.iter().map(Run::row).collect();
        let columns = ["codec", "backend", "ratio", "error/bound", "bound", "compress GB/s", "decompress GB/s"];
        let mut text = head + &report::table(&columns, &rows);
        for run in &self.runs {
            if let Some(used) = run.device_bytes_per_byte {
                let most = run.device_workspace_per_byte.map(|most| format!(", at most {most:.2}")).unwrap_or_default();
                text +=
                    &format!("\n{}: {used:.2} bytes of memory beside field and archive for each byte of the field{most}\n", run.backend);
            }
        }
        if !self.stages.is_empty() {
            let row =
                |stage: &Stage| vec![stage.stage.to_owned(), format!("{:.3}", 1e3 * stage.timing.median_seconds), stage.timing.to_string()];
            let rows: Vec<Vec<String>> = self.stages.iter().map(row).collect();
            text += &format!("\n{}", report::table(&["stage", "ms", "GB/s"], &rows));
        }
        Channel::Stdout.text(&text);
    }
}
