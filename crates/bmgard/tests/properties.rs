//! Whatever the shape, the values and the options: the promise holds. `support::check` says what is checked.

mod support;

use bmgard::{BackendChoice, Config, ErrorBound, ErrorBudget, Mode, Value};
use proptest::prelude::*;
use support::cases::{greatest_levels, paper};
use support::fields::{Field, Number, ODD_NUMBERS};

/// Shapes of 1 to 4 dimensions and at most about 5000 values.
fn shapes() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        prop::collection::vec(1..5000u64, 1),
        prop::collection::vec(1..70u64, 2),
        prop::collection::vec(1..18u64, 3),
        prop::collection::vec(1..9u64, 4),
        (1..4u64, 1..4u64, 8..500u64).prop_map(|(z, y, x)| vec![z, y, x]),
        (8..500u64, 1..4u64, 1..4u64).prop_map(|(z, y, x)| vec![z, y, x]),
    ]
}

fn numbers() -> impl Strategy<Value = Number> {
    prop_oneof![
        prop::sample::select(ODD_NUMBERS.to_vec()),
        prop::sample::select(vec![Number::Max, Number::Min, Number::Of(0.0), Number::Of(1.0), Number::Of(-9999.0)]),
        any::<f64>().prop_map(Number::Of),
        (-10.0..10.0).prop_map(Number::Of),
    ]
}

fn fields() -> impl Strategy<Value = Field> {
    let plain = prop_oneof![
        Just(Field::Waves),
        (-40..40i32).prop_map(|exponent| Field::Scaled(10f64.powi(exponent))),
        (-8..1i32).prop_map(|exponent| Field::Rough(10f64.powi(exponent))),
        Just(Field::Noise),
        (any::<f32>(), any::<f32>()).prop_map(|(from, to)| Field::Ramp(f64::from(from), f64::from(to))),
        numbers().prop_map(Field::Constant),
        prop::collection::vec(numbers(), 1..9).prop_map(Field::Cycle),
        (numbers(), numbers()).prop_map(|(even, odd)| Field::Checkerboard(even, odd)),
        numbers().prop_map(Field::Continents),
        (2..200u64, numbers()).prop_map(|(every, number)| Field::Spikes(every, number)),
        Just(Field::RandomBits),
        Just(Field::AnyScale),
        (1e-4..10.0).prop_map(Field::OddMultiples),
        Just(Field::LongTail),
    ];
    (plain.clone(), plain, prop::collection::vec((0..5000usize, numbers()), 0..6), 0..3).prop_map(|(one, other, planted, how)| match how {
        0 => one,
        1 => Field::Planted(Box::new(one), planted),
        _ => Field::Slabs(vec![one, other]),
    })
}

/// Decimal exponents, most of them moderate.
fn bounds() -> impl Strategy<Value = ErrorBound> {
    let value = prop_oneof![4 => -9.0..1.0, 1 => -323.0..308.0].prop_map(|exponent: f64| 10f64.powf(exponent));
    let kinds = [ErrorBound::Absolute as fn(f64) -> ErrorBound, ErrorBound::RelativeToMax, ErrorBound::RelativeToRange];
    (value, prop::sample::select(kinds.to_vec())).prop_map(|(value, kind)| kind(value))
}

fn configs() -> impl Strategy<Value = Config> {
    let budget = prop::sample::select(vec![ErrorBudget::Tight, ErrorBudget::Rigorous, ErrorBudget::Mgard]);
    let fill = prop_oneof![3 => Just(None), 1 => numbers().prop_map(|number| Some(number.of::<f64>()))];
    let chunk = prop_oneof![1 => Just(Config::DEFAULT_CHUNK_BYTES), 1 => 4096..40_000u64];
    let mode = prop::sample::select(vec![Mode::Paper, Mode::Fast, Mode::Turbo]);
    (bounds(), budget, fill, chunk, mode).prop_map(|(bound, error_budget, fill, max_chunk_bytes, mode)| Config {
        mode,
        error_budget,
        fill,
        max_chunk_bytes,
        backend: BackendChoice::Cpu,
        ..paper(bound)
    })
}

fn keeps_the_promise<T: Value>(shape: &[u64], field: &Field, seed: u64, config: &Config) {
    support::check(&field.values::<T>(shape, seed), shape, config);
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn f32_fields_keep_the_promise(shape in shapes(), field in fields(), seed: u64, config in configs()) {
        keeps_the_promise::<f32>(&shape, &field, seed, &config);
    }

    #[test]
    fn f64_fields_keep_the_promise(shape in shapes(), field in fields(), seed: u64, config in configs()) {
        keeps_the_promise::<f64>(&shape, &field, seed, &config);
    }

    /// Any numbers of levels that fit.
    #[test]
    fn all_levels_keep_the_promise(
        shape in shapes(),
        field in fields(),
        config in configs(),
        local: prop::sample::Index,
        global: prop::sample::Index,
    ) {
        let mut dims: Vec<u64> = shape.iter().copied().filter(|&n| n > 1).collect();
        if dims.len() == 4 {
            let slowest = dims.remove(0);
            dims[0] *= slowest;
        }
        let greatest = greatest_levels(if dims.is_empty() { &[1] } else { &dims });
        let local_levels = local.index(greatest.len());
        let global_levels = global.index(greatest[local_levels] as usize + 1);
        let config = Config {
            mode: Mode::Paper,
            local_levels: Some(local_levels as u32),
            global_levels: Some(global_levels as u32),
            max_chunk_bytes: Config::DEFAULT_CHUNK_BYTES,
            ..config
        };
        keeps_the_promise::<f32>(&shape, &field, 0, &config);
        keeps_the_promise::<f64>(&shape, &field, 0, &config);
    }

    /// Arbitrary bits, not of any family.
    #[test]
    fn arbitrary_values_keep_the_promise(
        singles in prop::collection::vec(any::<u32>(), 1..300),
        doubles in prop::collection::vec(any::<f64>(), 1..300),
        config in configs(),
    ) {
        let singles: Vec<f32> = singles.into_iter().map(f32::from_bits).collect();
        support::check(&singles, &[singles.len() as u64], &config);
        support::check(&doubles, &[doubles.len() as u64], &config);
    }
}
