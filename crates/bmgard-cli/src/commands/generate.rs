//! `bmgard gen`

use bmgard::{Comparison, DType, Shape};
use serde::Serialize;

use crate::args::GenArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::fields::{self, Element};
use crate::names;
use crate::output::Target;
use crate::report::{self, Channel, Rows};

/// Runs the command.
pub fn run(args: &GenArgs) -> Outcome {
    let missing = |flag: &str| Failure::new(Kind::Usage, format!("{flag} is needed: the output's name does not tell it"));
    let shape = args.layout.shape.clone().or_else(|| names::shape(&args.output)).ok_or_else(|| missing("--shape"))?;
    let dtype = args.layout.dtype.or_else(|| names::dtype(&args.output)).ok_or_else(|| missing("--dtype"))?;
    let mut target = Target::create(&args.output, None, args.overwrite)?;
    let channel = target.report_channel();
    let report = match dtype {
        DType::F32 => write::<f32>(args, &shape, &mut target)?,
        DType::F64 => write::<f64>(args, &shape, &mut target)?,
    };
    target.commit()?;
    report.print(args.json, channel)
}

fn write<T: Element>(args: &GenArgs, shape: &Shape, target: &mut Target) -> Outcome<Report> {
    let field = fields::generate::<T>(args.kind, shape, args.seed);
    target.write_field(&args.output, &field.values, shape)?;
    let fill = field.fill.map(|fill| format!("{fill:e}"));
    let figures = Comparison::new(&field.values, &field.values, None, field.fill.map(|fill| fill.to_f64()))?;
    Ok(Report {
        output: args.output.display().to_string(),
        kind: args.kind.name(),
        seed: args.seed,
        dtype: T::DTYPE,
        shape: shape.dims().to_vec(),
        original_bytes: shape.len() * T::DTYPE.size() as u64,
        min: figures.min,
        max: figures.max,
        exact_values: figures.exact_values,
        fill,
    })
}

/// The keys of the JSON object.
#[derive(Serialize)]
struct Report {
    output: String,
    kind: String,
    seed: u64,
    dtype: DType,
    shape: Vec<u64>,
    original_bytes: u64,
    min: f64,
    max: f64,
    exact_values: u64,
    /// What to give to `--fill`.
    fill: Option<String>,
}

impl Report {
    fn print(&self, json: bool, channel: Channel) -> Outcome {
        if json {
            return channel.json(self);
        }
        let mut rows = Rows::default();
        let size = report::bytes(self.original_bytes);
        rows.row("field", format!("{}, {} of {}, {size}, seed {}", self.kind, report::dims(&self.shape), self.dtype, self.seed));
        rows.row("output", &self.output);
        rows.row("valid values", format!("from {:.6e} to {:.6e}", self.min, self.max));
        if let Some(fill) = &self.fill {
            rows.row("fill value", format!("--fill {fill} ({} values)", self.exact_values));
        }
        rows.print(channel);
        Ok(())
    }
}
