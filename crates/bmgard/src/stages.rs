//! How long the stages of a backend take.

use std::borrow::Cow;
use std::time::Instant;

use serde::Serialize;

use crate::backend::Backend;
use crate::compressor::{check_len, prepare};
use crate::engine::{Engine, with_backend};
use crate::pipeline::codebooks;
use crate::plan::CLASSES;
use crate::{Config, Error, Mode, Result, Shape, Value};

/// The times of one stage on a chunk's values, which the backend has already. On a GPU they include the launches and what travels
/// between the stages and the host (histograms, codebooks, coded bytes), but not the field.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageTimes {
    /// `load`, `decompose`, `count`, `encode`, `check`, `decode`, `recompose` or `store`; after those, of a GPU and a field of three dimensions,
    /// the local level by kernels that are fused with the quantiser and by others that are not.
    pub stage: &'static str,
    /// Seconds of each run.
    pub seconds: Vec<f64>,
}

/// The stages' names, in order.
const STAGES: [&str; 8] = ["load", "decompose", "count", "encode", "check", "decode", "recompose", "store"];

/// Measures the stages of the configuration's backend on a field of one chunk without special values: once to warm up, then `repeat`
/// times. The first five make up a compression, `load` and `check` included, the last three a decompression.
///
/// # Errors
/// [`Error::InvalidConfig`] where the field has special values or more than one chunk, or the bound resolves to 0; else as
/// [`crate::Compressor::compress_slice`].
pub fn stage_times<T: Value>(values: &[T], shape: &Shape, config: &Config, repeat: usize) -> Result<Vec<StageTimes>> {
    let mut engine = Engine::open(config.backend)?;
    with_backend!(&mut engine, backend => measure(backend, values, shape, config, repeat))
}

fn measure<T: Value, B: Backend<T>>(
    backend: &mut B,
    values: &[T],
    shape: &Shape,
    config: &Config,
    repeat: usize,
) -> Result<Vec<StageTimes>> {
    config.error_bound.validate()?;
    if config.mode != Mode::Paper {
        return Err(Error::InvalidConfig("only the stages of mode paper can be measured apart".into()));
    }
    let unfit = |what: &str| Error::InvalidConfig(format!("stages are measured on fields {what}"));
    check_len(shape, values.len())?;
    let (field, header) = prepare(config, shape, |fill| backend.statistics(values, fill))?;
    if header.grid.len() > 1 {
        return Err(unfit("of one chunk"));
    }
    if field.statistics.specials > 0 || field.bound == 0.0 {
        return Err(unfit("without NaN, infinities and fill values that are not constant"));
    }
    let (plan, quantisers) = field.plan(header.grid.dims);

    let mut times = STAGES.map(|stage| StageTimes { stage, seconds: Vec::with_capacity(repeat) });
    let mut fusion: Vec<StageTimes> = Vec::new();
    let mut out = vec![T::ZERO; values.len()];
    let mask = backend.load_mask(None)?;
    for run in 0..=repeat {
        let mut start = Instant::now();
        let mut stage = 0;
        let mut lap = |backend: &mut B| -> Result<()> {
            backend.finish()?;
            let now = Instant::now();
            if run > 0 {
                times[stage].seconds.push((now - start).as_secs_f64());
            }
            (start, stage) = (now, stage + 1);
            Ok(())
        };
        let loaded = backend.load(Cow::Borrowed(values))?;
        lap(backend)?;
        let symbols = backend.decompose(&plan, &loaded, &mask, &quantisers, field.range(), field.open_loop())?;
        lap(backend)?;
        let mut books = Vec::with_capacity(plan.contexts());
        for (index, level) in plan.levels.iter().enumerate() {
            books.extend(codebooks(level, backend.histograms(&plan, &symbols, &mask, index)?));
        }
        lap(backend)?;
        let level_books = books.chunks(CLASSES).enumerate();
        let coded = level_books.map(|(index, books)| backend.encode(&plan, &symbols, &mask, index, books)).collect::<Result<Vec<_>>>()?;
        let streams = coded.into_iter().map(|coded| backend.stream(coded)).collect::<Result<Vec<_>>>()?;
        lap(backend)?;
        let check = backend.check(&plan, &symbols, &quantisers, &loaded, &mask, field.bound)?;
        backend.verdict(check, &loaded)?;
        lap(backend)?;
        let streams: Vec<(Vec<u16>, &[u8])> = streams.iter().map(|s| (s.lengths.clone(), s.payload.as_slice())).collect();
        let symbols = backend.decode(&plan, &mask, &books, &streams)?;
        lap(backend)?;
        let decoded = backend.recompose(&plan, &symbols, &quantisers)?;
        lap(backend)?;
        backend.store(decoded, &mut out)?;
        lap(backend)?;
        let fused = backend.fusion(&plan, &loaded, &quantisers, field.range(), field.open_loop())?;
        if run == 0 {
            fusion = fused.iter().map(|&(stage, _)| StageTimes { stage, seconds: Vec::with_capacity(repeat) }).collect();
        } else {
            fusion.iter_mut().zip(fused).for_each(|(times, (_, seconds))| times.seconds.push(seconds));
        }
    }
    Ok(times.into_iter().chain(fusion).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendChoice, ErrorBound};

    #[test]
    fn every_stage_is_timed_as_often_as_asked() {
        let shape = Shape::new(&[20, 20, 20]).unwrap();
        let values: Vec<f32> = (0..8000).map(|i| (i % 97) as f32).collect();
        let config = Config { mode: Mode::Paper, backend: BackendChoice::Cpu, ..Config::new(ErrorBound::Absolute(0.5)) };
        let times = stage_times(&values, &shape, &config, 3).unwrap();
        assert_eq!(times.iter().map(|t| t.stage).collect::<Vec<_>>(), STAGES);
        assert!(times.iter().all(|t| t.seconds.len() == 3));
        assert!(stage_times(&[f32::NAN; 8000], &shape, &config, 1).is_err());
        assert!(stage_times(&values[1..], &shape, &config, 1).is_err());
    }
}
