//! A small field through both backends, once for each device in a process: a driver's compiler has been seen to translate kernels
//! wrongly without a word.

use bmgard_core::closed::TileShape;

use super::Cuda;
use super::levels::DeviceValue;
use crate::backend::cpu::Cpu;
use crate::backend::{Backend, FieldStatistics};
use crate::pipeline::{FieldPlan, compress_chunk, decompress_chunk};
use crate::plan::{Dims, Levels, count};
use crate::{ErrorBudget, Result, Value};

/// Whether the device gives the CPU's archives and values; if not, what differs.
pub(super) fn run(cuda: &mut Cuda) -> std::result::Result<(), String> {
    for dims in [[11, 18, 37], [1, 26, 45], [1, 1, 700]] {
        // Symbols in half their width, and in full.
        for range in [Some((-2.0, 2.0)), None] {
            both::<f32>(cuda, dims, range, None, false).and_then(|()| both::<f64>(cuda, dims, range, None, false))?;
        }
    }
    for (dims, tile) in [([18, 20, 37], TileShape::CUBE), ([1, 66, 90], TileShape::SQUARE), ([1, 1, 4500], TileShape::LINE)] {
        both::<f32>(cuda, dims, None, Some(tile), false).and_then(|()| both::<f64>(cuda, dims, None, Some(tile), false))?;
    }
    for dims in [[9, 18, 150], [1, 37, 70], [1, 1, 1500]] {
        both::<f32>(cuda, dims, None, None, true).and_then(|()| both::<f64>(cuda, dims, None, None, true))?;
    }
    Ok(())
}

fn both<T: Value + DeviceValue>(
    cuda: &mut Cuda,
    dims: Dims,
    range: Option<(f64, f64)>,
    tile: Option<TileShape>,
    packed: bool,
) -> std::result::Result<(), String> {
    let name = format!(
        "{} {dims:?}{}",
        T::DTYPE,
        if tile.is_some() {
            " in closed tiles"
        } else if packed {
            " in packed tiles"
        } else {
            ""
        }
    );
    let d = crate::plan::dimensions(dims);
    let values: Vec<T> = (0..count(dims)).map(|i| sample(i)).collect();
    let plan = FieldPlan {
        d,
        levels: Levels { local: 1, global: 2 }.clamped(dims, d),
        bound: 1e-3,
        budget: ErrorBudget::Tight,
        fill: None,
        statistics: FieldStatistics { min_max: range.map(|(min, max)| (T::from_f64(min), T::from_f64(max))), specials: 0 },
        tile,
        packed,
    };
    let differs = |what: &str| Err(format!("{what} of {name} are not the CPU's"));
    let error = |error: crate::Error| format!("{name}: {error}");
    let expected = compress(&mut Cpu, &plan, dims, &values).map_err(error)?;
    let found = compress(cuda, &plan, dims, &values).map_err(error)?;
    if found.0 != expected.0 {
        return differs("the coded bytes");
    }
    if found.1 != expected.1 { differs("the decoded values") } else { Ok(()) }
}

/// The archive's bytes, and the bits of what it decodes to.
fn compress<T: Value, B: Backend<T>>(backend: &mut B, plan: &FieldPlan<T>, dims: Dims, values: &[T]) -> Result<(Vec<u8>, Vec<u64>)> {
    let chunk = compress_chunk(backend, plan, dims, values)?.chunk;
    let mut decoded = vec![T::ZERO; values.len()];
    decompress_chunk(backend, dims, plan.d, &chunk, &mut decoded)?;
    let mut bytes = chunk.write_header();
    chunk.sections.iter().for_each(|(_, section)| bytes.extend_from_slice(section));
    Ok((bytes, decoded.into_iter().map(Value::bits).collect()))
}

/// A number in [-1, 1) that wanders slowly and jitters, from integer arithmetic alone.
fn sample<T: Value>(i: u64) -> T {
    let noise = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
    let wave = (i % 997) as f64 / 498.5 - 1.0;
    T::from_f64(wave * wave * wave + noise as f64 * 1e-6)
}
