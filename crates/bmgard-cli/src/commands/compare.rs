//! `bmgard compare`

use bmgard::{Comparison, DType, ErrorBound, Value};
use serde::Serialize;

use crate::args::CompareArgs;
use crate::commands::min_max;
use crate::failure::{Failure, Kind, Outcome};
use crate::input::{AnyValues, Field};
use crate::report::{self, Channel, Rows};

/// Runs the command.
pub fn run(args: &CompareArgs) -> Outcome {
    let bound = args.bound.get()?;
    let original = Field::open(&args.original, &args.layout, None)?;
    // Flags and names that do not fit the decoded file mean that it is no copy of the original.
    let decoded = Field::open(&args.decoded, &args.layout, Some(&original))
        .map_err(|failure| if failure.kind() == Kind::Usage { failure.with_kind(Kind::Check) } else { failure })?;
    let differs = |what: String| Failure::new(Kind::Check, format!("{}: {what}", args.decoded.display()));
    if original.shape != decoded.shape {
        return Err(differs(format!("its shape is {}, the original's is {}", decoded.shape, original.shape)));
    }
    let report = match (&original.values, &decoded.values) {
        (AnyValues::F32(x), AnyValues::F32(y)) => Report::new(args, &original, x, y, bound)?,
        (AnyValues::F64(x), AnyValues::F64(y)) => Report::new(args, &original, x, y, bound)?,
        _ => return Err(differs(format!("its values are {}, the original's are {}", decoded.dtype(), original.dtype()))),
    };
    report.print(args.json)?;
    match (report.bound_satisfied, report.abs_bound) {
        (Some(false), Some(bound)) => Err(Failure::new(
            Kind::Check,
            format!(
                "{} values break the bound {bound:e}, and {} NaN, infinities or fill values changed",
                report.broken_values, report.exact_changed
            ),
        )),
        _ => Ok(()),
    }
}

/// The report; its fields are the keys of the JSON object.
#[derive(Serialize)]
struct Report {
    original: String,
    decoded: String,
    dtype: DType,
    shape: Vec<u64>,
    values: u64,
    exact_values: u64,
    exact_changed: u64,
    min: f64,
    max: f64,
    max_abs_error: f64,
    worst_position: Vec<u64>,
    psnr: f64,
    rmse: f64,
    nrmse: f64,
    error_bound: Option<ErrorBound>,
    abs_bound: Option<f64>,
    error_over_bound: Option<f64>,
    broken_values: u64,
    bound_satisfied: Option<bool>,
}

impl Report {
    fn new<T: Value>(args: &CompareArgs, field: &Field, original: &[T], decoded: &[T], bound: Option<ErrorBound>) -> Outcome<Self> {
        let plain = Comparison::new(original, decoded, None, args.fill)?;
        // The extremes are known only now: relative bounds take a second look.
        let abs_bound = bound.map(|bound| bound.resolve(min_max(&plain)));
        let comparison = match abs_bound {
            Some(_) => Comparison::new(original, decoded, abs_bound, args.fill)?,
            None => plain,
        };
        Ok(Self {
            original: args.original.display().to_string(),
            decoded: args.decoded.display().to_string(),
            dtype: field.dtype(),
            shape: field.shape.dims().to_vec(),
            values: comparison.values,
            exact_values: comparison.exact_values,
            exact_changed: comparison.exact_changed,
            min: comparison.min,
            max: comparison.max,
            max_abs_error: comparison.max_abs_error,
            worst_position: report::index(comparison.worst_position, field.shape.dims()),
            psnr: comparison.psnr,
            rmse: comparison.rmse,
            nrmse: comparison.nrmse,
            error_bound: bound,
            abs_bound,
            error_over_bound: abs_bound.map(|bound| report::over_bound(comparison.max_abs_error, bound)),
            broken_values: comparison.broken,
            bound_satisfied: abs_bound.map(|_| comparison.satisfied()),
        })
    }

    fn print(&self, json: bool) -> Outcome {
        if json {
            return Channel::Stdout.json(self);
        }
        let mut rows = Rows::default();
        rows.row("field", format!("{} of {}", report::dims(&self.shape), self.dtype));
        rows.row(
            "valid values",
            format!("{} of {}, from {:.6e} to {:.6e}", self.values - self.exact_values, self.values, self.min, self.max),
        );
        rows.row("worst error", format!("{:.6e} at {}", self.max_abs_error, report::tuple(&self.worst_position)));
        rows.row("PSNR", report::psnr(self.psnr));
        rows.row("NRMSE", format!("{:.6e}", self.nrmse));
        rows.row("NaN, inf, fill", format!("{}, of which {} changed", self.exact_values, self.exact_changed));
        if let (Some(bound), Some(abs_bound), Some(over)) = (self.error_bound, self.abs_bound, self.error_over_bound) {
            rows.row("bound", report::bound(bound, abs_bound));
            let verdict = if self.bound_satisfied == Some(true) { "kept" } else { "BROKEN" };
            rows.row("verdict", format!("{verdict}: worst error / bound = {over:.6}, {} values beyond it", self.broken_values));
        }
        rows.print(Channel::Stdout);
        Ok(())
    }
}
