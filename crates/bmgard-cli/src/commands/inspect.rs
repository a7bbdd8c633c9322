//! `bmgard inspect`

use bmgard::{ArchiveInfo, ChunkInfo, ClassInfo, Mode};

use crate::args::InspectArgs;
use crate::failure::{Failure, Outcome};
use crate::input::{self, Bytes};
use crate::report::{self, Channel, Rows};

/// The most chunks that people are shown; `--json` has them all.
const SHOWN_CHUNKS: usize = 32;

/// Runs the command.
pub fn run(args: &InspectArgs) -> Outcome {
    let archive = Bytes::open(&args.archive)?;
    let info =
        bmgard::inspect(&archive).map_err(|error| Failure::from(error).context(format!("cannot read {}", input::name(&args.archive))))?;
    if args.json {
        return Channel::Stdout.json(&info);
    }
    head(&info).print(Channel::Stdout);
    Channel::Stdout.text(&format!("\n{}\n{}{}", chunks(&info), sections(&info), classes(&info)));
    Ok(())
}

fn head(info: &ArchiveInfo) -> Rows {
    let mut rows = Rows::default();
    let ratio = info.original_bytes as f64 / info.compressed_bytes as f64;
    let values = info.original_bytes / info.dtype.size() as u64;
    let bits = 8.0 * info.compressed_bytes as f64 / values as f64;
    rows.row("format version", info.format_version.to_string());
    rows.row("field", format!("{} of {}, {}", report::dims(&info.shape), info.dtype, report::bytes(info.original_bytes)));
    rows.row("archive", report::bytes(info.compressed_bytes));
    rows.row("ratio", format!("{ratio:.3} ({bits:.4} bits a value)"));
    rows.row("bound", report::bound(info.error_bound, info.abs_bound));
    if let Some(tile) = info.tile {
        rows.row("method", format!("{} + {}, tiles of {tile}", info.basis, info.coder));
        tiles(info, values, &mut rows);
    } else if info.mode == Mode::Turbo {
        let tile = ["512", "16x32", "4x8x16"][info.chunk_shape.len().clamp(1, 3) - 1];
        rows.row("method", format!("{} + {}, packed tiles of {tile}", info.basis, info.coder));
        tiles(info, values, &mut rows);
    } else {
        let (local, global) = (info.local_levels, info.global_levels);
        rows.row("method", format!("{} + {}, {local} local and {global} global levels", info.basis, info.coder));
    }
    if let Some(budget) = info.error_budget {
        rows.row("error budget", format!("{budget:?}").to_lowercase());
    }
    if let Some(fill) = info.fill {
        rows.row("fill value", format!("{fill:e}"));
    }
    rows.row("chunks", format!("{} of {}", info.chunks.len(), report::dims(&info.chunk_shape)));
    rows
}

/// What tiles hold, over all chunks.
fn tiles(info: &ArchiveInfo, values: u64, rows: &mut Rows) {
    let sum = |of: fn(&ChunkInfo) -> u64| info.chunks.iter().map(of).sum::<u64>();
    let share = |count: u64| format!("{count} ({:.3} % of the values)", 100.0 * count as f64 / values as f64);
    rows.row("escapes", share(sum(|chunk| chunk.patched_values)));
    rows.row("masked", share(sum(|chunk| chunk.masked_values)));
    rows.row("tiles", format!("{} with all symbols 0, {} raw", sum(|chunk| chunk.zero_tiles), sum(|chunk| chunk.raw_tiles)));
}

/// The predictors of the first chunk that has some.
fn classes(info: &ArchiveInfo) -> String {
    let Some((number, chunk)) = info.chunks.iter().enumerate().find(|(_, chunk)| !chunk.classes.is_empty()) else {
        return String::new();
    };
    let row = |class: &ClassInfo| vec![class.spacing.to_string(), class.axes.clone(), class.predictor.clone()];
    let rows: Vec<Vec<String>> = chunk.classes.iter().map(row).collect();
    format!("\nclasses of chunk {number}\n{}", report::table(&["spacing", "odd axes", "predictor"], &rows))
}

fn chunks(info: &ArchiveInfo) -> String {
    let rows: Vec<Vec<String>> = info
        .chunks
        .iter()
        .take(SHOWN_CHUNKS)
        .enumerate()
        .map(|(number, chunk)| {
            let steps = chunk.steps.iter().map(|step| format!("{step:.3e}"));
            vec![
                number.to_string(),
                chunk.offset.to_string(),
                report::dims(&chunk.shape),
                chunk.kind.to_string(),
                chunk.bytes.to_string(),
                chunk.patched_values.to_string(),
                steps.collect::<Vec<_>>().join(" "),
            ]
        })
        .collect();
    let mut text = report::table(&["chunk", "offset", "shape", "kind", "bytes", "exact", "steps, finest level first"], &rows);
    if info.chunks.len() > SHOWN_CHUNKS {
        text += &format!("and {} more chunks (see --json)\n", info.chunks.len() - SHOWN_CHUNKS);
    }
    text
}

/// What the bytes are spent on, over all chunks, in the order of the archive.
fn sections(info: &ArchiveInfo) -> String {
    let mut totals: Vec<(&str, u64)> = Vec::new();
    for section in info.chunks.iter().flat_map(|chunk| &chunk.sections) {
        match totals.iter_mut().find(|(name, _)| *name == section.name) {
            Some((_, bytes)) => *bytes += section.bytes,
            None => totals.push((&section.name, section.bytes)),
        }
    }
    let share = |bytes: u64| format!("{:.2} %", 100.0 * bytes as f64 / info.compressed_bytes as f64);
    let rows: Vec<Vec<String>> = totals.iter().map(|&(name, bytes)| vec![name.to_string(), bytes.to_string(), share(bytes)]).collect();
    report::table(&["section", "bytes", "share"], &rows)
}
