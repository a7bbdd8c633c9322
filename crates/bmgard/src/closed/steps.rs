//! The steps of a chunk's levels.

use bmgard_core::closed::Quantiser;

use super::plan::Plan;
use crate::{Error, Result, Value};

/// What a level's bound is of the one below it, where nearly all residuals are 0, and the least share of the bound.
const SHRINKING: f64 = 0.9;
const LEAST_SHARE: f64 = 0.25;

/// The share of residuals that are 0 from which on coarser levels get smaller steps.
pub(crate) const MOSTLY_ZEROS: f64 = 0.9;

/// [`Quantiser::widest_step`], or the least number of the type where that is 0: the check of each value escapes what such a step breaks.
pub(crate) fn widest<T: Value>(bound: f64) -> T {
    let step = Quantiser::<T>::widest_step(bound);
    if step > T::ZERO { step } else { T::from_bits_u64(1) }
}

/// Equal steps of twice the bound, where the sample does not ask for others; the finest level's first, the anchors' last.
pub(crate) fn equal<T: Value>(plan: &Plan, bound: f64, sample: &[T]) -> Vec<T> {
    vec![near_ulp(bound, sample).unwrap_or_else(|| widest(bound)); plan.shape.levels() + 1]
}

/// [`equal`] where no magnitude is above `greatest`, if that is enough to tell that the sample does not ask for others.
#[cfg(feature = "cuda")]
pub(crate) fn equal_below<T: Value>(plan: &Plan, bound: f64, greatest: T) -> Option<Vec<T>> {
    let exponent = greatest.exponent_field() as usize;
    (exponent == 0 || is_wide::<T>(bound, exponent)).then(|| vec![widest(bound); plan.shape.levels() + 1])
}

/// Steps that shrink with the level. Errors of coarse nodes spread to all that are predicted from them, so at ratios where nearly all
/// symbols are 0 a few more bits for those pay.
pub(crate) fn shrinking<T: Value>(plan: &Plan, bound: f64) -> Vec<T> {
    let mut share = 1.0;
    (0..=plan.shape.levels())
        .map(|_| {
            let step = widest(bound * share);
            share = (share * SHRINKING).max(LEAST_SHARE);
            step
        })
        .collect()
}

/// Values that are looked at, at most, to find their commonest binade.
const SAMPLE: usize = 1 << 14;

/// Every so many of a chunk's values are looked at.
pub(crate) fn stride(values: usize) -> usize {
    values.div_ceil(SAMPLE)
}

/// A bound of fewer units in the last place of the greatest value than this asks for steps that are whole numbers of such units.
const FEW_UNITS: f64 = 8.0;

/// Whether the bound is many units in the last place of values up to those with this exponent field.
fn is_wide<T: Value>(bound: f64, exponent: usize) -> bool {
    bound >= FEW_UNITS * unit::<T>(exponent)
}

/// Where the bound is not much more than a unit in the last place, a step that is an odd number of those: values and predictions are
/// multiples of the unit, and a step that is none would miss many values by more than the bound.
fn near_ulp<T: Value>(bound: f64, sample: &[T]) -> Option<T> {
    let mut counts = vec![0u32; 1 << 11];
    sample.iter().for_each(|value| counts[value.exponent_field() as usize] += 1);
    let greatest = counts.iter().rposition(|&count| count > 0).filter(|&exponent| exponent > 0)?;
    if is_wide::<T>(bound, greatest) {
        return None;
    }
    let commonest = (1..counts.len()).max_by_key(|&exponent| counts[exponent])?;
    let unit = unit::<T>(commonest);
    let whole = (bound / unit).floor();
    let step = T::from_f64((2.0 * whole + 1.0) * unit);
    (step.is_finite() && step > T::ZERO).then_some(step)
}

/// The unit in the last place of values with this exponent field.
fn unit<T: Value>(exponent: usize) -> f64 {
    let power = T::from_bits_u64((exponent as u64) << (8 * size_of::<T>() as u32 - 1 - exponent_bits::<T>()));
    let next = T::from_bits_u64(power.to_bits_u64() + 1);
    next.to_f64() - power.to_f64()
}

fn exponent_bits<T: Value>() -> u32 {
    if size_of::<T>() == 4 { 8 } else { 11 }
}

/// A step of a chunk's header.
pub(crate) fn read<T: Value>(bits: u64) -> Result<T> {
    let step = T::from_bits_u64(bits);
    if step.is_finite() && step > T::ZERO { Ok(step) } else { Err(Error::Corrupt("a step is not a number greater than 0".into())) }
}
