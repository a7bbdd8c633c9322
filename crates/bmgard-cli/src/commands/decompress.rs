//! `bmgard decompress`

use std::time::Instant;

use bmgard::{BackendChoice, DType, Shape, Value};
use ndarray_npy::WritableElement;
use serde::Serialize;

use crate::args::DecompressArgs;
use crate::failure::{Failure, Outcome};
use crate::input::{self, Bytes};
use crate::output::{self, Target};
use crate::progress;
use crate::report::{self, Rows};

/// Runs the command.
///
/// The field is decoded into memory and written from there, not into a mapped output: a mapped file cannot report a full disk or a
/// lost network share but by SIGBUS, where a write returns an error.
pub fn run(args: &DecompressArgs) -> Outcome {
    let mut target = Target::create(&args.output, Some(&args.input), args.overwrite)?;
    let archive = Bytes::open(&args.input)?;
    let cannot = |failure: Failure| failure.context(format!("cannot decompress {}", input::name(&args.input)));
    let info = bmgard::inspect(&archive).map_err(|error| cannot(error.into()))?;
    let shape = Shape::new(&info.shape)?;
    let start = Instant::now();
    match info.dtype {
        DType::F32 => decode::<f32>(&archive, &shape, &mut target, args),
        DType::F64 => decode::<f64>(&archive, &shape, &mut target, args),
    }
    .map_err(cannot)?;
    let channel = target.report_channel();
    target.commit()?;
    let seconds = start.elapsed().as_secs_f64();
    let output_bytes = info.original_bytes;
    let report = Report {
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
        dtype: info.dtype,
        shape: info.shape,
        abs_bound: info.abs_bound,
        compressed_bytes: archive.len() as u64,
        output_bytes,
        seconds,
        throughput_gb_s: report::gb_per_second(output_bytes, seconds),
        backend: args.backend.into(),
        threads: rayon::current_num_threads(),
    };
    if args.json {
        return channel.json(&report);
    }
    let mut rows = Rows::default();
    rows.row("field", format!("{} of {}, {}", shape, info.dtype, report::bytes(output_bytes)));
    rows.row("bound", format!("{:.6e} absolute", info.abs_bound));
    rows.row("output", &report.output);
    rows.row("speed", format!("{:.3} GB/s: {}, writing included", report.throughput_gb_s, report::seconds(seconds)));
    rows.print(channel);
    Ok(())
}

fn decode<T: Value + WritableElement>(archive: &[u8], shape: &Shape, target: &mut Target, args: &DecompressArgs) -> Outcome {
    let mut values = output::memory::<T>(shape.len())?;
    let bar = progress::bar("decoding", shape.len(), args.json);
    bmgard::decompress_into(archive, &mut values, args.backend.into(), &mut |done| bar.set_position(done))?;
    bar.finish_and_clear();
    target.write_field(&args.output, &values, shape)
}

/// The keys of the JSON object.
#[derive(Serialize)]
struct Report {
    input: String,
    output: String,
    dtype: DType,
    shape: Vec<u64>,
    abs_bound: f64,
    compressed_bytes: u64,
    output_bytes: u64,
    seconds: f64,
    throughput_gb_s: f64,
    backend: BackendChoice,
    threads: usize,
}
