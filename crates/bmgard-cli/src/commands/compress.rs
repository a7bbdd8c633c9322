//! `bmgard compress`

use std::io::{Cursor, Seek, Write};
use std::time::Instant;

use bmgard::{Comparison, Compressor, Config, DType, DeviceSeconds, ErrorBound, ErrorBudget, Mode, Summary, Value};
use serde::Serialize;

use crate::args::CompressArgs;
use crate::commands::min_max;
use crate::failure::{Failure, Kind, OrFail, Outcome};
use crate::input::{self, Bytes, Field, with_values};
use crate::output::{self, Target};
use crate::progress;
use crate::report::{self, Channel, Rows};

/// Runs the command.
pub fn run(args: &CompressArgs) -> Outcome {
    let mut config = args.encoding.config(args.bound.required()?)?;
    let mut compressor = Compressor::new(config.clone())?;
    let mut target = Target::create(&args.output, Some(&args.input), args.overwrite)?;
    let field = Field::open(&args.input, &args.layout, None)?;
    with_values!(&field.values, values => args.encoding.find_fill(&mut config, values));
    if config.fill != compressor.config().fill {
        compressor = Compressor::new(config.clone())?;
    }
    let outcome = with_values!(&field.values, values => {
        write(&mut compressor, values, &field, &mut target, args).and_then(|written| {
            let verified = (!args.no_verify).then(|| verify(values, &config, &written)).transpose()?;
            Ok((written, verified))
        })
    });
    let (written, verified) = outcome.map_err(|failure| failure.context(format!("cannot compress {}", input::name(&args.input))))?;
    if let (Some(fill), 0) = (config.fill, written.summary.exact_values) {
        eprintln!(
            "warning: no value equals the fill value {fill:e}; a relative bound counts all values as valid (write it with all its digits)"
        );
    }
    let channel = target.report_channel();
    if matches!(target, Target::Stream { .. }) {
        target.write_bytes(&written.archive)?;
    }
    target.commit()?;
    let workspace = with_values!(&field.values, values => workspace(&compressor, &field, values))?;
    Report::new(args, &config, &field, &written, verified.as_ref(), compressor.backend_name(), workspace).print(args.json, channel)
}

/// An archive, as it was written.
struct Written {
    summary: Summary,
    seconds: f64,
    device: Option<DeviceSeconds>,
    archive: Bytes,
}

/// Compresses into the temporary file, or into memory for a stream; what is returned was read back from there.
fn write<T: Value>(compressor: &mut Compressor, values: &[T], field: &Field, target: &mut Target, args: &CompressArgs) -> Outcome<Written> {
    let bar = progress::bar("compressing", field.shape.len(), args.json);
    let mut progress = |done| bar.set_position(done);
    compressor.take_device_seconds();
    let start = Instant::now();
    let (summary, archive) = match target {
        Target::Stream { .. } => {
            let mut archive = Cursor::new(Vec::new());
            let summary = compressor.compress_to(values, &field.shape, &mut archive, &mut progress)?;
            (summary, Bytes::Read(archive.into_inner()))
        }
        Target::File { temporary, .. } => {
            let summary = compressor.compress_to(values, &field.shape, temporary.as_file(), &mut progress)?;
            let read_back = || "cannot read the archive back";
            temporary.as_file_mut().flush().and_then(|()| temporary.as_file_mut().rewind()).or_fail(Kind::Failed, read_back)?;
            // A file of its own, opened anew by name.
            let file = temporary.reopen().or_fail(Kind::Failed, read_back)?;
            (summary, Bytes::of(&file).or_fail(Kind::Failed, read_back)?)
        }
    };
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    Ok(Written { summary, seconds, device: compressor.take_device_seconds(), archive })
}

/// What the check of an archive found.
struct Verified {
    comparison: Comparison,
    seconds: f64,
}

/// Decodes the archive from its bytes alone and compares; anything but a kept promise is a failure.
fn verify<T: Value>(values: &[T], config: &Config, written: &Written) -> Outcome<Verified> {
    let start = Instant::now();
    let failed = |what: String| Failure::new(Kind::Check, format!("verification failed, nothing was written: {what}"));
    let bound = written.summary.abs_bound;
    let mut decoded = output::memory::<T>(values.len() as u64)?;
    bmgard::decompress_into(&written.archive, &mut decoded, config.backend, &mut |_| {})
        .map_err(|error| Failure::from(error).with_kind(Kind::Check).context("verification failed, nothing was written"))?;
    let comparison = Comparison::new(values, &decoded, Some(bound), config.fill)?;
    // The archive's bound must be the one that was asked for, resolved once more here.
    let resolved = config.error_bound.resolve(min_max(&comparison));
    if bound > resolved {
        return Err(failed(format!("the archive's bound is {bound:e}, but {} asks for {resolved:e}", config.error_bound)));
    }
    if !comparison.satisfied() {
        return Err(failed(format!(
            "{} values break the bound {bound:e} (the worst error is {:e}), and {} NaN, infinities or fill values changed",
            comparison.broken, comparison.max_abs_error, comparison.exact_changed
        )));
    }
    Ok(Verified { comparison, seconds: start.elapsed().as_secs_f64() })
}

/// The report; its fields are the keys of the JSON object.
#[derive(Serialize)]
struct Report {
    input: String,
    output: String,
    dtype: DType,
    shape: Vec<u64>,
    mode: Mode,
    error_bound: ErrorBound,
    error_budget: Option<ErrorBudget>,
    fill: Option<f64>,
    abs_bound: f64,
    max_abs_error: f64,
    error_over_bound: f64,
    bound_satisfied: bool,
    verified: bool,
    original_bytes: u64,
    compressed_bytes: u64,
    compression_ratio: f64,
    bit_rate: f64,
    values: u64,
    exact_values: u64,
    patched_values: u64,
    chunks: u64,
    raw_chunks: u64,
    psnr: Option<f64>,
    nrmse: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// From the host's memory to the archive's file.
    seconds: f64,
    /// On a GPU: from the device's memory to its memory, and of that from the first kernel to the last.
    device_seconds: Option<f64>,
    kernel_seconds: Option<f64>,
    /// On a GPU, the most device memory that compressing in device memory takes beside field and archive, by the field's bytes.
    device_workspace_per_byte: Option<f64>,
    verify_seconds: Option<f64>,
    throughput_gb_s: f64,
    backend: &'static str,
    threads: usize,
}

impl Report {
    fn new(
        args: &CompressArgs,
        config: &Config,
        field: &Field,
        written: &Written,
        verified: Option<&Verified>,
        backend: &'static str,
        workspace: Option<u64>,
    ) -> Self {
        let Written { summary, seconds, device, .. } = written;
        let comparison = verified.map(|verified| &verified.comparison);
        let max_abs_error = comparison.map_or(summary.max_abs_error, |comparison| comparison.max_abs_error);
        Self {
            input: args.input.display().to_string(),
            output: args.output.display().to_string(),
            dtype: field.dtype(),
            shape: field.shape.dims().to_vec(),
            mode: config.mode,
            error_bound: config.error_bound,
            error_budget: (config.mode == Mode::Paper).then_some(config.error_budget),
            fill: config.fill,
            abs_bound: summary.abs_bound,
            max_abs_error,
            error_over_bound: report::over_bound(max_abs_error, summary.abs_bound),
            bound_satisfied: max_abs_error <= summary.abs_bound,
            verified: verified.is_some(),
            original_bytes: summary.original_bytes,
            compressed_bytes: summary.compressed_bytes,
            compression_ratio: summary.original_bytes as f64 / summary.compressed_bytes as f64,
            bit_rate: 8.0 * summary.compressed_bytes as f64 / summary.values as f64,
            values: summary.values,
            exact_values: summary.exact_values,
            patched_values: summary.patched_values,
            chunks: summary.chunks,
            raw_chunks: summary.raw_chunks,
            psnr: comparison.map(|comparison| comparison.psnr),
            nrmse: comparison.map(|comparison| comparison.nrmse),
            min: comparison.map(|comparison| comparison.min),
            max: comparison.map(|comparison| comparison.max),
            seconds: *seconds,
            device_seconds: device.map(|device| device.device),
            kernel_seconds: device.map(|device| device.kernels),
            device_workspace_per_byte: workspace.map(|bytes| bytes as f64 / summary.original_bytes as f64),
            verify_seconds: verified.map(|verified| verified.seconds),
            throughput_gb_s: report::gb_per_second(summary.original_bytes, *seconds),
            backend,
            threads: rayon::current_num_threads(),
        }
    }

    fn print(&self, json: bool, channel: Channel) -> Outcome {
        if json {
            return channel.json(self);
        }
        let mut rows = Rows::default();
        rows.row("field", format!("{} of {}, {}", report::dims(&self.shape), self.dtype, report::bytes(self.original_bytes)));
        rows.row("archive", format!("{} ({}), mode {}", self.output, report::bytes(self.compressed_bytes), self.mode));
        rows.row("ratio", format!("{:.3}", self.compression_ratio));
        rows.row("bit rate", format!("{:.4} bits a value", self.bit_rate));
        rows.row("bound", report::bound(self.error_bound, self.abs_bound));
        let by = if self.verified { "decoded and compared" } else { "by the encoder's own check" };
        rows.row("worst error", format!("{:.6e} = {:.4} of the bound ({by})", self.max_abs_error, self.error_over_bound));
        if let Some(psnr) = self.psnr {
            rows.row("PSNR", report::psnr(psnr));
        }
        rows.row("stored exactly", format!("{} NaN, infinite or fill, {} patched", self.exact_values, self.patched_values));
        if self.raw_chunks > 0 {
            rows.row("raw chunks", format!("{} of {}", self.raw_chunks, self.chunks));
        }
        let checked = self.verify_seconds.map(|seconds| format!(", then {} to verify", report::seconds(seconds)));
        rows.row(
            "speed",
            format!(
                "{:.3} GB/s on {}: {}{}",
                self.throughput_gb_s,
                report::backend(self.backend, self.threads),
                report::seconds(self.seconds),
                checked.unwrap_or_default()
            ),
        );
        if let (Some(device), Some(kernels)) = (self.device_seconds, self.kernel_seconds) {
            let of =
                |seconds: f64| format!("{:.1} GB/s: {}", report::gb_per_second(self.original_bytes, seconds), report::seconds(seconds));
            rows.row("on the device", of(device));
            rows.row("kernels", of(kernels));
        }
        rows.print(channel);
        Ok(())
    }
}

/// The most device memory that compressing in device memory takes beside field and archive, where it works on a GPU.
#[cfg(feature = "cuda")]
fn workspace<T: Value>(compressor: &Compressor, field: &Field, _values: &[T]) -> Outcome<Option<u64>> {
    if compressor.backend_name() != "cuda" {
        return Ok(None);
    }
    Ok(compressor.device_workspace_bytes::<T>(&field.shape)?)
}

#[cfg(not(feature = "cuda"))]
fn workspace<T: Value>(_compressor: &Compressor, _field: &Field, _values: &[T]) -> Outcome<Option<u64>> {
    Ok(None)
}
