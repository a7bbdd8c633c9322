//! The tables of ratios on real fields in `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{cargo, output, run};
use crate::{root, target_dir};

/// Bounds relative to the range.
const BOUNDS: [&str; 4] = ["1e-2", "1e-3", "1e-4", "1e-6"];

const BUDGETS: [&str; 3] = ["tight", "rigorous", "mgard"];

/// What is known of a field.
struct Known {
    /// How its name begins.
    name: &'static str,
    /// The value that marks missing data.
    fill: Option<&'static str>,
    /// The ratios of SZ3 and zfp at [`BOUNDS`], with 0 for the fill value.
    rivals: [(f64, f64); 4],
}

#[rustfmt::skip]
const FIELDS: [Known; 9] = [
    Known { name: "CESM_CAM_T", fill: None, rivals: [(173.1, 9.7), (29.8, 5.3), (9.4, 3.2), (3.2, 1.9)] },
    Known { name: "CESM_CAM_CLOUD", fill: None, rivals: [(27.2, 6.4), (9.2, 4.0), (5.4, 3.1), (3.1, 2.0)] },
    Known { name: "CESM_POP_SST", fill: Some("9.96921e36"), rivals: [(96.5, 11.5), (22.0, 6.3), (8.8, 3.7), (3.4, 2.3)] },
    Known { name: "OCEAN_LEVITUS_TEMP", fill: Some("-1e10"), rivals: [(47.2, 10.8), (20.6, 6.9), (9.2, 4.4), (5.0, 2.8)] },
    Known { name: "ISABEL_VMAG", fill: None, rivals: [(54.4, 9.9), (15.6, 6.6), (8.6, 4.6), (4.4, 3.1)] },
    Known { name: "SPERR_WMAG", fill: None, rivals: [(21.3, 5.0), (7.0, 3.4), (4.0, 2.4), (2.1, 1.6)] },
    Known { name: "SPERR_VORTICITY", fill: None, rivals: [(25.6, 5.7), (8.1, 3.3), (4.6, 2.5), (2.4, 1.6)] },
    Known { name: "MIRANDA_PRESSURE_SLICE", fill: None, rivals: [(115.0, 16.6), (31.0, 8.9), (12.6, 6.3), (5.1, 3.7)] },
    Known { name: "VISCOUS_FINGER", fill: None, rivals: [(82.4, 15.6), (20.7, 7.1), (7.7, 4.7), (3.1, 2.4)] },
];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    Paper,
    Fast,
}

impl Mode {
    /// Where the tables start in the document.
    fn start(self) -> &'static str {
        match self {
            Self::Paper => "<!-- written by `cargo xtask ratios DIR --write` -->\n",
            Self::Fast => "<!-- written by `cargo xtask ratios DIR --mode fast --write` -->\n",
        }
    }
}

/// Where they end.
const END: &str = "<!-- end of what it writes -->\n";

/// `ratios`: measures all fields in `data`, each compressed, decompressed and compared by processes of their own.
pub fn measure(data: &Path, mode: Mode, checker: Option<&Path>, write: bool) -> Result<()> {
    run(cargo().args(["build", "--release", "--package", "bmgard-cli"]))?;
    let bench = Bench { program: target_dir().join("release/bmgard"), checker: checker.map(Path::to_path_buf), folder: Folder::new()? };
    let mut fields = vec![];
    for known in &FIELDS {
        fields.push((known, find(data, known.name)?));
    }
    let text = match mode {
        Mode::Paper => paper(&bench, &fields)?,
        Mode::Fast => fast(&bench, &fields)?,
    };
    if !write {
        println!("{text}");
        return Ok(());
    }
    let path = root().join("docs/benchmarks.md");
    let document = fs::read_to_string(&path)?;
    let (before, rest) = document.split_once(mode.start()).context("docs/benchmarks.md has no place for the table")?;
    let (_, after) = rest.split_once(END).context("the table in docs/benchmarks.md has no end")?;
    fs::write(path, [before, mode.start(), &text, END, after].concat())?;
    Ok(())
}

/// The tables of mode `paper`, one for each bound.
fn paper(bench: &Bench, fields: &[(&Known, PathBuf)]) -> Result<String> {
    let mut text = String::new();
    for (index, bound) in BOUNDS.into_iter().enumerate() {
        let mut rows = vec![];
        for (known, field) in fields {
            let mut results = vec![];
            for budget in BUDGETS {
                results.push(bench.run(field, bound, &["--mode", "paper", "--error-budget", budget], known.fill)?);
            }
            let [tight, rigorous, mgard] = [&results[0], &results[1], &results[2]];
            eprintln!("{bound} {}: {:.2} {:.2} {:.2}", known.name, tight.ratio, rigorous.ratio, mgard.ratio);
            rows.push(Row {
                name: known.name,
                ratios: [tight.ratio, rigorous.ratio, mgard.ratio, tight.ratio / mgard.ratio, known.rivals[index].0, known.rivals[index].1],
                errors: [tight.error, rigorous.error, mgard.error],
                patched: tight.patched,
            });
        }
        text += &table(bound, &rows);
    }
    Ok(text)
}

/// The table of mode `fast`: a line for each field, four columns for each bound.
fn fast(bench: &Bench, fields: &[(&Known, PathBuf)]) -> Result<String> {
    let mut text = String::from("\n| field |");
    BOUNDS.iter().for_each(|bound| text += &format!(" {bound}: ratio | x SZ3 | worst error / bound | exact |"));
    text += &format!("\n|---|{}\n", "---:|".repeat(4 * BOUNDS.len()));
    let mut logs = [[0.0; 2]; BOUNDS.len()];
    for (known, field) in fields {
        text += &format!("| {} |", known.name);
        for (index, bound) in BOUNDS.into_iter().enumerate() {
            let outcome = bench.run(field, bound, &["--mode", "fast"], known.fill)?;
            let gain = outcome.ratio / known.rivals[index].0;
            eprintln!("{bound} {}: {:.2}, {gain:.2} x SZ3", known.name, outcome.ratio);
            text += &format!(" {:.2} | {gain:.2} | {:.3} | {:.3} % |", outcome.ratio, outcome.error, 100.0 * outcome.patched);
            logs[index] = [logs[index][0] + outcome.ratio.ln(), logs[index][1] + gain.ln()];
        }
        text += "\n";
    }
    text += "| **geometric mean** |";
    for log in logs {
        let [ratio, gain] = log.map(|log: f64| (log / fields.len() as f64).exp());
        text += &format!(" {ratio:.2} | {gain:.2} | | |");
    }
    Ok(text + "\n")
}

/// The raw file of a field.
fn find(data: &Path, name: &str) -> Result<PathBuf> {
    let entries = fs::read_dir(data).with_context(|| format!("cannot read {}", data.display()))?;
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let is_it = |path: &&PathBuf| {
        let raw = path.extension().is_some_and(|extension| extension == "f32" || extension == "f64");
        raw && path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
    };
    paths.iter().find(is_it).cloned().with_context(|| format!("{} has no {name}*.f32 or .f64", data.display()))
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("bmgard-ratios-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

struct Bench {
    program: PathBuf,
    checker: Option<PathBuf>,
    folder: Folder,
}

/// What came of one field at one bound with one budget.
struct Outcome {
    ratio: f64,
    /// The worst error over the bound.
    error: f64,
    /// The share of values that are patched.
    patched: f64,
}

impl Bench {
    fn run(&self, field: &Path, bound: &str, settings: &[&str], fill: Option<&str>) -> Result<Outcome> {
        let (archive, decoded) = (self.folder.0.join("a.bmg"), self.folder.0.join("decoded"));
        let fill: Vec<&str> = fill.map_or_else(Vec::new, |fill| vec!["--fill", fill]);
        let program = |words: &[&str], files: [&Path; 2]| {
            let mut command = Command::new(&self.program);
            command.arg(words[0]).args(files).args(&words[1..]);
            command
        };
        let json = |command: &mut Command| -> Result<Value> { Ok(serde_json::from_str(&output(command.args(&fill).arg("--json"))?)?) };
        let number = |report: &Value, key: &str| report[key].as_f64().with_context(|| format!("the report has no {key}"));

        let words = [&["compress", "--rel-range", bound, "--no-verify", "--overwrite"], settings].concat();
        let compressed = json(&mut program(&words, [field, &archive]))?;
        output(&mut program(&["decompress", "--overwrite"], [&archive, &decoded]))?;
        let compared = json(&mut program(&["compare", "--rel-range", bound], [field, &decoded]))?;
        if let Some(checker) = &self.checker {
            let dtype = compressed["dtype"].as_str().context("the report has no dtype")?;
            let bound = number(&compressed, "abs_bound")?.to_string();
            output(Command::new("python3").arg(checker).args([field, &decoded]).args([dtype, &bound]).args(&fill))?;
        }
        let written = fs::metadata(&archive)?.len() as f64;
        if number(&compressed, "compressed_bytes")? != written || compared["bound_satisfied"] != true {
            bail!("{}: the reports are not consistent", field.display());
        }
        Ok(Outcome {
            ratio: fs::metadata(field)?.len() as f64 / written,
            error: number(&compared, "error_over_bound")?,
            patched: number(&compressed, "patched_values")? / number(&compressed, "values")?,
        })
    }
}

/// A line of the table.
struct Row {
    name: &'static str,
    /// tight, rigorous, mgard, tight / mgard, SZ3, zfp.
    ratios: [f64; 6],
    /// Worst error over bound of the three budgets.
    errors: [f64; 3],
    /// Of tight.
    patched: f64,
}

/// The table for one bound.
fn table(bound: &str, rows: &[Row]) -> String {
    let mut text = format!(
        "\n### `--rel-range {bound}`\n\n\
        | field | tight | rigorous | mgard | tight / mgard | SZ3 | zfp | worst error / bound: tight | rigorous | mgard | patched: tight |\n\
        |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    let ratios = |of: &dyn Fn(usize) -> f64| (0..6).map(|i| format!("{:.*} | ", if i < 4 { 2 } else { 1 }, of(i))).collect::<String>();
    for row in rows {
        let errors: String = row.errors.iter().map(|error| format!("{error:.3} | ")).collect();
        let _ = writeln!(text, "| {} | {}{errors}{:.2} % |", row.name, ratios(&|i| row.ratios[i]), 100.0 * row.patched);
    }
    let mean = |i: usize| (rows.iter().map(|row| row.ratios[i].ln()).sum::<f64>() / rows.len() as f64).exp();
    let _ = writeln!(text, "| **geometric mean** | {}| | | |", ratios(&mean));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_geometric() {
        let row = |ratio: f64| Row { name: "a", ratios: [ratio; 6], errors: [0.5; 3], patched: 0.001 };
        let text = table("1e-2", &[row(2.0), row(8.0)]);
        assert!(text.contains("| a | 2.00 | 2.00 | 2.00 | 2.00 | 2.0 | 2.0 | 0.500 | 0.500 | 0.500 | 0.10 % |"), "{text}");
        assert!(text.contains("| **geometric mean** | 4.00 | 4.00 | 4.00 | 4.00 | 4.0 | 4.0 | | | |"), "{text}");
    }

    #[test]
    fn the_document_has_a_place_for_the_table() {
        let document = fs::read_to_string(root().join("docs/benchmarks.md")).unwrap();
        for mode in [Mode::Paper, Mode::Fast] {
            assert_eq!(document.matches(mode.start()).count(), 1);
        }
        assert_eq!(document.matches(END).count(), 2);
    }
}
