//! Real fields, through the program: the bound is checked here anew, and the default error budget must earn its keep.
//!
//! The folder with the fields is named by the environment variable `BMGARD_DATA`; file names give shape and type. Without it these
//! tests say so and pass.

mod support;

use std::path::{Path, PathBuf};
use std::{env, fs};

use support::{json, run, skipped};
use tempfile::TempDir;

/// Fill values of the fields that have one.
const FILLS: [(&str, &str); 2] = [("CESM_POP_SST", "9.96921e36"), ("OCEAN_LEVITUS_TEMP", "-1e10")];

/// The raw files, or nothing where there is no folder.
fn fields() -> Vec<PathBuf> {
    let Some(folder) = env::var_os("BMGARD_DATA") else {
        skipped("BMGARD_DATA names no folder with real fields");
        return Vec::new();
    };
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("BMGARD_DATA = {}: {error}", folder.display()));
    let mut fields: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "f32" || extension == "f64"))
        .collect();
    fields.sort();
    assert!(!fields.is_empty(), "BMGARD_DATA = {}: no .f32 or .f64 files", folder.display());
    fields
}

fn fill(path: &Path) -> Option<&'static str> {
    let name = path.file_name().unwrap().to_str().unwrap();
    FILLS.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, fill)| *fill)
}

/// The values in f64, with their bits.
fn values(path: &Path, double: bool) -> Vec<(f64, u64)> {
    let bytes = fs::read(path).unwrap();
    if double {
        bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).map(|bits| (f64::from_bits(bits), bits)).collect()
    } else {
        let bits = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()));
        bits.map(|bits| (f64::from(f32::from_bits(bits)), u64::from(bits))).collect()
    }
}

/// Compresses and returns the compression ratio and the bound.
fn compress(field: &Path, archive: &Path, rel_range: &str, budget: &str) -> (f64, f64) {
    let mut args = vec!["compress", field.to_str().unwrap(), archive.to_str().unwrap(), "--rel-range", rel_range, "--overwrite", "--json"];
    args.extend(["--error-budget", budget]);
    if let Some(fill) = fill(field) {
        args.extend(["--fill", fill]);
    }
    let report = json(Path::new("."), &args);
    (report["compression_ratio"].as_f64().unwrap(), report["abs_bound"].as_f64().unwrap())
}

/// Decompresses in another process and checks every value; the bound is resolved here too.
fn check(field: &Path, archive: &Path, decoded: &Path, rel_range: f64, reported_bound: f64) {
    let output = run(Path::new("."), &["decompress", archive.to_str().unwrap(), decoded.to_str().unwrap(), "--overwrite"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let double = field.extension().unwrap() == "f64";
    let (original, decoded) = (values(field, double), values(decoded, double));
    assert_eq!(original.len(), decoded.len(), "{}", field.display());
    let fill: Option<f64> = fill(field).map(|fill| if double { fill.parse().unwrap() } else { f64::from(fill.parse::<f32>().unwrap()) });
    let is_valid = |x: f64| x.is_finite() && fill != Some(x);
    let valid = original.iter().map(|&(x, _)| x).filter(|&x| is_valid(x));
    let (min, max) = valid.fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| (min.min(x), max.max(x)));
    let bound = rel_range * (max - min);
    assert_eq!(bound, reported_bound, "{}", field.display());
    for (position, (&(x, x_bits), &(y, y_bits))) in original.iter().zip(&decoded).enumerate() {
        let kept = if is_valid(x) { (x - y).abs() <= bound } else { x_bits == y_bits };
        assert!(kept, "{} at {position}: {x:e} came back as {y:e}, bound {bound:e}", field.display());
    }
}

#[test]
fn bounds_hold_and_the_tight_budget_pays() {
    let fields = fields();
    let folder = TempDir::new().unwrap();
    let (archive, decoded) = (folder.path().join("a.bmg"), folder.path().join("decoded"));
    for (rel_range, least_gain) in [("1e-2", Some(2.2)), ("1e-4", Some(1.4)), ("1e-6", None)] {
        let mut log_gain = 0.0;
        for field in &fields {
            let (ratio, bound) = compress(field, &archive, rel_range, "tight");
            check(field, &archive, &decoded, rel_range.parse().unwrap(), bound);
            if least_gain.is_some() {
                let (mgard, bound) = compress(field, &archive, rel_range, "mgard");
                check(field, &archive, &decoded, rel_range.parse().unwrap(), bound);
                log_gain += (ratio / mgard).ln();
            }
            println!("{rel_range} {}: ratio {ratio:.2}", field.file_name().unwrap().display());
        }
        if let (Some(least), false) = (least_gain, fields.is_empty()) {
            let gain = (log_gain / fields.len() as f64).exp();
            println!("{rel_range}: {gain:.2} times the ratio of MGARD's budget");
            assert!(gain >= least, "{rel_range}: {gain}");
        }
    }
}
