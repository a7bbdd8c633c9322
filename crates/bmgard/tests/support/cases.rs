//! The cases of the suite: named fields with options. They are the same for every element type and backend.

use bmgard::ErrorBound::{Absolute, RelativeToMax, RelativeToRange};
use bmgard::{Config, ErrorBudget, Mode};

use super::fields::{Field, Number, ODD_NUMBERS};

/// The default settings of mode paper, which knows the most settings.
pub fn paper(bound: bmgard::ErrorBound) -> Config {
    Config { mode: Mode::Paper, ..Config::new(bound) }
}

/// A field to compress, and how.
#[derive(Clone, Debug)]
pub struct Case {
    /// `group/what`.
    pub name: String,
    pub shape: Vec<u64>,
    pub field: Field,
    /// Its backend is replaced by the one under test.
    pub config: Config,
}

const BUDGETS: [ErrorBudget; 3] = [ErrorBudget::Tight, ErrorBudget::Rigorous, ErrorBudget::Mgard];

/// A name, and what makes its cases.
pub type Group = (&'static str, fn() -> Vec<Case>);

/// All groups of cases.
pub const GROUPS: [Group; 15] = [
    ("lengths", lengths),
    ("shapes", shapes),
    ("positions", positions),
    ("constants", constants),
    ("bounds", bounds),
    ("extremes", extremes),
    ("levels", levels),
    ("budgets", budgets),
    ("chunks", chunks),
    ("fill", fill),
    ("coding", coding),
    ("fast", fast),
    ("tiles", tiles),
    ("turbo", turbo),
    ("packed", packed),
];

/// All of them.
pub fn cases() -> Vec<Case> {
    GROUPS.iter().flat_map(|(_, group)| group()).collect()
}

/// The cases of one group.
pub fn group(name: &str) -> Vec<Case> {
    let (_, group) = GROUPS.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("there is no group {name}"));
    group()
}

fn case(group: &str, what: impl std::fmt::Display, shape: &[u64], field: Field, config: Config) -> Case {
    Case { name: format!("{group}/{what}"), shape: shape.to_vec(), field, config }
}

fn join(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// 1-D fields of 1 to 64 values.
fn lengths() -> Vec<Case> {
    let mut out = Vec::new();
    for n in 1..=64 {
        let mut add = |what: &str, field, bound| out.push(case("lengths", format!("{n}-{what}"), &[n], field, paper(bound)));
        add("waves", Field::Waves, RelativeToRange(1e-3));
        add("noise", Field::Noise, RelativeToMax(1e-2));
        add("odd", Field::Cycle([&ODD_NUMBERS[..], &[Number::Of(1.5), Number::Of(1.25)]].concat()), Absolute(1e-3));
    }
    out
}

/// Shapes that meet edges of tiles, or are dropped, merged or too thin for levels.
fn shapes() -> Vec<Case> {
    let list: [&[u64]; 37] = [
        &[1, 1, 1],
        &[1, 1, 1, 1],
        &[2],
        &[2, 2],
        &[2, 2, 2],
        &[2, 3, 4],
        &[3, 3],
        &[3, 3, 3],
        &[6, 6, 6],
        &[7, 7, 7],
        &[8, 8],
        &[8, 8, 8],
        &[9, 9, 9],
        &[16, 17],
        &[17, 16],
        &[15, 16, 17],
        &[7, 8, 9],
        &[9, 8, 7],
        &[8, 8, 128],
        &[128, 8, 8],
        &[8, 128, 8],
        &[64, 7, 64],
        &[64, 64, 1],
        &[1, 5],
        &[5, 1],
        &[1, 1, 7],
        &[129, 1, 129],
        &[2, 1000],
        &[1000, 2],
        &[3, 2, 300],
        &[83, 91],
        &[31, 37, 41],
        &[4, 1, 1, 9],
        &[2, 50, 1, 12],
        &[3, 5, 7, 11],
        &[2, 9, 8, 17],
        &[2, 2, 2, 2],
    ];
    let mut out = Vec::new();
    for shape in list {
        let mut add = |what: &str, field, bound| out.push(case("shapes", format!("{}-{what}", join(shape)), shape, field, paper(bound)));
        add("waves", Field::Waves, RelativeToRange(1e-3));
        add("rough", Field::Rough(0.05), Absolute(1e-2));
        add("noise", Field::Noise, RelativeToMax(1e-4));
        add("spikes", Field::Spikes(11, Number::Nan), Absolute(1e-3));
    }
    for shape in [&[513, 513, 1][..], &[83, 91, 101], &[100_003]] {
        out.push(case("shapes", format!("{}-rough", join(shape)), shape, Field::Rough(1e-3), paper(RelativeToRange(1e-3))));
    }
    out
}

/// Every odd number at every position of a tile, in fields with a full and a partial tile in each dimension.
fn positions() -> Vec<Case> {
    let mut out = Vec::new();
    for (shape, tile) in [(&[11][..], 8), (&[11, 10], 64), (&[10, 9, 11], 512)] {
        let dims = shape.len() as u32;
        for position in 0..tile {
            let planted = |spread: usize| {
                let place = |index: usize| {
                    let node = (position + index * spread) % tile;
                    (0..dims).fold(0, |at, axis| at * shape[axis as usize] as usize + node / 8usize.pow(dims - 1 - axis) % 8)
                };
                // Fewer positions than numbers in 1-D: those that come first stay.
                Field::Planted(Box::new(Field::Waves), ODD_NUMBERS.iter().enumerate().map(|(i, &n)| (place(i), n)).collect())
            };
            let name = format!("{dims}d-{position}");
            out.push(case("positions", &name, shape, planted(if dims == 3 { 73 } else { 1 }), paper(Absolute(1e-3))));
            if dims < 3 {
                for number in ODD_NUMBERS {
                    let field = Field::Planted(Box::new(Field::Waves), vec![(position, number)]);
                    out.push(case("positions", format!("{name}-{number:?}"), shape, field, paper(RelativeToMax(1e-4))));
                }
            }
        }
    }
    out
}

fn constants() -> Vec<Case> {
    let mut numbers = vec![Number::Of(0.0), Number::Of(1.0), Number::Of(-273.15), Number::Max, Number::Min];
    numbers.extend(ODD_NUMBERS);
    let mut out = Vec::new();
    for shape in [&[1][..], &[70], &[20, 30], &[9, 17, 8]] {
        for number in &numbers {
            for bound in [Absolute(1e-3), RelativeToMax(1e-3), RelativeToRange(1e-3)] {
                let what = format!("{}-{number:?}-{bound:?}", join(shape));
                out.push(case("constants", what, shape, Field::Constant(*number), paper(bound)));
            }
        }
    }
    let shape = [17, 20, 9];
    let with_fill = |fill| Config { fill: Some(fill), ..paper(RelativeToRange(1e-3)) };
    let plain = || paper(RelativeToRange(1e-3));
    let mixture = |numbers: &[Number]| Field::Cycle(numbers.to_vec());
    use Number::{Infinity, Nan, NegativeInfinity, NegativeNan, NegativeZero, Of, SignallingNan};
    for (what, field, config) in [
        ("fill only", Field::Constant(Of(-9999.0)), with_fill(-9999.0)),
        ("constant and fill", mixture(&[Of(-9999.0), Of(2.5), Of(2.5)]), with_fill(-9999.0)),
        ("constant and NaN", mixture(&[Of(2.5), Nan, Of(2.5), NegativeNan, SignallingNan]), plain()),
        ("all kinds of NaN", mixture(&[Nan, NegativeNan, SignallingNan, SignallingNan]), plain()),
        ("infinities", mixture(&[Infinity, NegativeInfinity]), plain()),
        ("both zeros", mixture(&[Of(0.0), NegativeZero]), plain()),
        ("both zeros with a fill of 0", mixture(&[Of(0.0), NegativeZero]), with_fill(0.0)),
        ("both zeros and NaN", mixture(&[Nan, Of(0.0), NegativeZero]), plain()),
        ("a constant but for one value", Field::Planted(Box::new(Field::Constant(Of(7.0))), vec![(1000, Of(7.5))]), plain()),
        ("a constant but for the first value", Field::Planted(Box::new(Field::Constant(Of(7.0))), vec![(0, Of(-7.5))]), plain()),
        ("a constant but for the last value", Field::Planted(Box::new(Field::Constant(Of(7.0))), vec![(3059, Of(1e9))]), plain()),
    ] {
        out.push(case("constants", what, &shape, field, config));
    }
    out
}

fn bounds() -> Vec<Case> {
    let mut out = Vec::new();
    let values = [f64::MAX, 1e300, 1e40, 1e10, 10.0, 0.3, 1e-2, 1e-4, 1e-6, 1e-8, 1e-12, 1e-16, 1e-40, 1e-300, 1e-310, 5e-324];
    for value in values {
        for bound in [Absolute(value), RelativeToMax(value), RelativeToRange(value)] {
            for (what, field) in [("rough", Field::Rough(1e-3)), ("any scale", Field::AnyScale), ("tiny", Field::Scaled(1e-38))] {
                out.push(case("bounds", format!("{what}-{bound:?}"), &[12, 11, 17], field, paper(bound)));
            }
        }
    }
    // One value in a thousand and less: f32 cannot hold these to 1e-2 once it has rounded them.
    for shape in [&[99_999][..], &[300, 333]] {
        out.push(case("bounds", format!("ramp-{}", join(shape)), shape, Field::Ramp(1.0, 100_000.0), paper(Absolute(1e-2))));
    }
    for bound in [0.5, 1.0, 2.0, 0.125] {
        for shape in [&[3000][..], &[40, 50], &[16, 17, 18]] {
            let name = format!("ties-{}-{bound}", join(shape));
            out.push(case("bounds", name, shape, Field::OddMultiples(bound), paper(Absolute(bound))));
        }
    }
    out
}

fn extremes() -> Vec<Case> {
    use Number::{Max, Min, NegativeSubnormal, Of, Subnormal};
    let mut out = Vec::new();
    for shape in [&[200][..], &[24, 25], &[10, 16, 17]] {
        for (what, field) in [
            ("max and min", Field::Checkerboard(Max, Min)),
            ("max, 0, min", Field::Cycle(vec![Max, Of(0.0), Min, Of(1.0)])),
            ("subnormals", Field::Checkerboard(Subnormal, NegativeSubnormal)),
            ("signs", Field::Checkerboard(Of(1.0), Of(-1.0))),
            ("signs along C order", Field::Cycle(vec![Of(1.0), Of(-1.0)])),
            ("a single spike", Field::Planted(Box::new(Field::Waves), vec![(77, Max)])),
            ("spikes", Field::Spikes(13, Of(1e30))),
            ("waves near the top", Field::Scaled(1e38)),
            ("rough zeros", Field::Planted(Box::new(Field::Constant(Of(0.0))), vec![(5, Of(1.0)), (90, Of(-1e-3))])),
        ] {
            for bound in
                [Absolute(1e-10), Absolute(1.0), RelativeToMax(1e-3), RelativeToRange(1e-3), Absolute(f64::MAX), RelativeToMax(2.0)]
            {
                for error_budget in [ErrorBudget::Tight, ErrorBudget::Mgard] {
                    let config = Config { error_budget, ..paper(bound) };
                    out.push(case("extremes", format!("{}-{what}-{bound:?}-{error_budget:?}", join(shape)), shape, field.clone(), config));
                }
            }
        }
    }
    let huge = paper(Absolute(1e-10));
    out.push(case("extremes", "1e30 at 1e-10", &[20, 20, 20], Field::Scaled(1e30), huge.clone()));
    out.push(case("extremes", "integers of 2^24 and more at 0.5", &[5000], Field::Ramp(16_777_216.0, 33_554_432.0), paper(Absolute(0.5))));
    out.push(case("extremes", "an offset of 1e15", &[5000], Field::Ramp(1e15, 1e15 + 1e4), paper(Absolute(0.25))));
    out
}

/// The greatest numbers of levels of a shape, from `docs/format.md`: per number of local levels, the greatest number of global ones.
pub fn greatest_levels(shape: &[u64]) -> Vec<u32> {
    let mut now: Vec<u64> = shape.to_vec();
    let mut out = Vec::new();
    loop {
        let mut dims = now.clone();
        let mut global = 0;
        while dims.iter().any(|&n| n > 2) {
            dims = dims.iter().map(|&n| if n > 2 { n / 2 + 1 } else { n }).collect();
            global += 1;
        }
        out.push(global);
        let coarse: Vec<u64> = now.iter().map(|&n| n.div_ceil(8) * 5).collect();
        if now.iter().any(|&n| n < 8) || coarse.iter().product::<u64>() >= now.iter().product() {
            return out;
        }
        now = coarse;
    }
}

/// Shapes whose numbers of levels are tried out; the last have dimensions that are solved in several blocks.
pub const LEVEL_SHAPES: [&[u64]; 13] =
    [&[1], &[2], &[7], &[8], &[100], &[3, 50], &[40, 33], &[9, 100, 8], &[41, 24, 33], &[3000], &[1300, 9], &[600, 5, 4], &[3, 1100, 3]];

fn levels() -> Vec<Case> {
    let mut out = Vec::new();
    for shape in LEVEL_SHAPES {
        for (local, &greatest) in (0..).zip(&greatest_levels(shape)) {
            for global in 0..=greatest {
                let config = Config {
                    local_levels: Some(local),
                    global_levels: Some(global),
                    error_budget: BUDGETS[(local + global) as usize % 3],
                    ..paper(RelativeToRange(1e-4))
                };
                out.push(case("levels", format!("{}-L{local}-M{global}", join(shape)), shape, Field::Rough(1e-3), config));
            }
        }
    }
    for (what, local_levels, global_levels) in [("only L", Some(2), None), ("only M", None, Some(3)), ("neither", Some(0), Some(0))] {
        let config = Config { local_levels, global_levels, ..paper(RelativeToMax(1e-3)) };
        out.push(case("levels", what, &[30, 41, 29], Field::Spikes(17, Number::Infinity), config));
    }
    out
}

fn budgets() -> Vec<Case> {
    let mut out = Vec::new();
    for error_budget in BUDGETS {
        for shape in [&[5000][..], &[90, 70], &[24, 30, 33]] {
            for value in [1e-1, 1e-3, 1e-5, 1e-7, 1e-11] {
                for (what, field) in [("waves", Field::Waves), ("noise", Field::Noise), ("rough", Field::Rough(1e-3))] {
                    let config = Config { error_budget, ..paper(RelativeToRange(value)) };
                    out.push(case("budgets", format!("{error_budget:?}-{}-{value}-{what}", join(shape)), shape, field, config));
                }
            }
        }
    }
    out
}

fn chunks() -> Vec<Case> {
    let mut out = Vec::new();
    let list: [&[u64]; 14] = [
        &[5000],
        &[513],
        &[1025],
        &[65, 100],
        &[7, 3000],
        &[3000, 7],
        &[17, 8, 8],
        &[9, 16, 16],
        &[33, 20, 20],
        &[17, 9, 40],
        &[2, 70, 70],
        &[3, 3, 2000],
        &[2, 9, 20, 20],
        &[25, 1, 64, 1],
    ];
    for shape in list {
        for max_chunk_bytes in [4096, 5001, 10_000, 1 << 16] {
            for (what, field) in [("rough", Field::Rough(1e-3)), ("continents", Field::Continents(Number::Of(1e20)))] {
                let config = Config { max_chunk_bytes, fill: Some(1e20), ..paper(RelativeToRange(1e-3)) };
                out.push(case("chunks", format!("{}-{max_chunk_bytes}-{what}", join(shape)), shape, field, config));
            }
        }
    }
    // Chunks of all kinds in one archive.
    let kinds = || {
        Field::Slabs(vec![
            Field::Waves,
            Field::Constant(Number::Of(3.0)),
            Field::RandomBits,
            Field::Constant(Number::Of(-1.0)),
            Field::Continents(Number::Of(-1.0)),
            Field::Noise,
            Field::Constant(Number::Nan),
        ])
    };
    for (shape, max_chunk_bytes) in [(&[61, 16, 16][..], 1 << 13), (&[61, 16, 16], 4096), (&[100, 64], 4096), (&[64, 9, 9], 1 << 13)] {
        for fill in [None, Some(-1.0)] {
            let config = Config { max_chunk_bytes, fill, ..paper(Absolute(1e-3)) };
            out.push(case("chunks", format!("all kinds-{}-{max_chunk_bytes}-{fill:?}", join(shape)), shape, kinds(), config));
        }
    }
    // Explicit levels hold for the first chunk; thinner ones get as many as fit.
    for (local, global) in [(1, 2), (1, 0), (0, 3)] {
        let config = Config { max_chunk_bytes: 8192, local_levels: Some(local), global_levels: Some(global), ..paper(RelativeToMax(1e-4)) };
        out.push(case("chunks", format!("levels-L{local}-M{global}"), &[26, 18, 17], Field::Waves, config));
    }
    out
}

fn fill() -> Vec<Case> {
    use Number::{Infinity, Max, Nan, NegativeZero, Of};
    let mut out = Vec::new();
    for shape in [&[700][..], &[33, 40], &[17, 20, 19]] {
        for (what, fill, field) in [
            ("1e36", 1e36, Field::Continents(Of(1e36))),
            ("-9999", -9999.0, Field::Continents(Of(-9999.0))),
            ("everywhere but once", -9999.0, Field::Planted(Box::new(Field::Constant(Of(-9999.0))), vec![(300, Of(1.0))])),
            ("absent", -9999.0, Field::Waves),
            (
                "0 with -0 in the data",
                0.0,
                Field::Planted(Box::new(Field::Continents(Of(0.0))), vec![(3, NegativeZero), (4, NegativeZero)]),
            ),
            ("-0 with 0 in the data", -0.0, Field::Cycle(vec![Of(0.0), Of(1.0), NegativeZero, Of(2.0)])),
            ("NaN", f64::NAN, Field::Continents(Nan)),
            ("infinite", f64::INFINITY, Field::Continents(Infinity)),
            ("rounded in f32", 0.1, Field::Continents(Of(0.1))),
            ("0 in f32", 1e-60, Field::Cycle(vec![Of(1e-60), Of(1.0), Of(0.0), Of(1.5)])),
            ("infinite in f32", 1e300, Field::Continents(Of(1e300))),
            ("in the middle of the data", 0.5, Field::Cycle(vec![Of(0.5), Of(0.25), Of(0.75), Of(0.5), Of(0.625)])),
            ("the greatest value", f64::from(f32::MAX), Field::Continents(Max)),
            ("with NaN and infinities", -1.0, Field::Cycle(vec![Of(-1.0), Nan, Infinity, Of(4.0), Of(4.5), Of(3.0), Of(5.5)])),
        ] {
            for bound in [Absolute(1e-3), RelativeToMax(1e-3), RelativeToRange(1e-2)] {
                let config = Config { fill: Some(fill), ..paper(bound) };
                out.push(case("fill", format!("{}-{what}-{bound:?}", join(shape)), shape, field.clone(), config));
            }
        }
    }
    out
}

/// Streams that a coder might not expect.
fn coding() -> Vec<Case> {
    use Number::Of;
    let mut out = Vec::new();
    let mut add =
        |what: &str, shape: &[u64], field, bound| out.push(case("coding", format!("{what}-{}", join(shape)), shape, field, paper(bound)));
    for shape in [&[1][..], &[2], &[7], &[1000], &[20, 21], &[20, 20, 20], &[70_001], &[30, 3000]] {
        add("random bits", shape, Field::RandomBits, Absolute(1e-3));
        add("random bits, relative", shape, Field::RandomBits, RelativeToMax(1e-3));
        add("any scale", shape, Field::AnyScale, RelativeToRange(1e-6));
    }
    for shape in [&[5000][..], &[70, 80], &[18, 19, 20]] {
        let zeros = || Box::new(Field::Constant(Of(0.0)));
        add("one nonzero symbol", shape, Field::Planted(zeros(), vec![(1234, Of(1.0))]), Absolute(0.25));
        add("one symbol a segment", shape, Field::Planted(zeros(), (0..60).map(|i| (i * 83, Of(1.0))).collect()), Absolute(0.25));
        add("all escapes", shape, Field::Scaled(1e30), Absolute(1e-10));
        add("a long tail", shape, Field::LongTail, Absolute(0.4));
        add("a longer tail", shape, Field::LongTail, Absolute(1e-3));
        add("all within the bound", shape, Field::Noise, Absolute(1.5));
        add("few bits", shape, Field::Noise, Absolute(0.3));
        add("many bits", shape, Field::Noise, Absolute(1e-6));
        add("too many bits", shape, Field::Noise, Absolute(1e-14));
    }
    // Patches and special values in several blocks of 65,536 values, and none in others.
    add("patches far apart", &[140_000], Field::Spikes(20_011, Of(1e30)), Absolute(1e-3));
    add("patches", &[140_000], Field::Spikes(301, Of(1e30)), Absolute(1e-3));
    add("one patch at the end", &[131_073], Field::Planted(Box::new(Field::Waves), vec![(131_072, Of(1e30))]), Absolute(1e-3));
    add("NaN far apart", &[140_000], Field::Spikes(20_011, Number::SignallingNan), Absolute(1e-3));
    out
}

/// The cases of the other groups in another mode, as far as they make a difference there.
fn in_mode(mode: Mode, name: &str) -> Vec<Case> {
    let groups = [lengths, shapes, positions, constants, bounds, extremes, chunks, fill, coding];
    let mut out: Vec<Case> = groups.into_iter().flat_map(|group| group()).collect();
    out.retain(|case| case.config.error_budget == ErrorBudget::default());
    for case in &mut out {
        case.config = Config { mode, local_levels: None, global_levels: None, ..case.config.clone() };
        case.name = format!("{name} {}", case.name);
    }
    // One of three single planted numbers will do.
    out.into_iter()
        .enumerate()
        .filter(|(index, case)| !case.name.starts_with(&format!("{name} positions")) || index % 3 == 0)
        .map(|(_, case)| case)
        .collect()
}

fn fast() -> Vec<Case> {
    in_mode(Mode::Fast, "fast")
}

fn turbo() -> Vec<Case> {
    in_mode(Mode::Turbo, "turbo")
}

/// Every shape of tiles, on fields that end within them, on them, and one node after them.
fn tiles() -> Vec<Case> {
    let mut out = Vec::new();
    let list: [(&str, &[&[u64]]); 6] = [
        ("16x16x16", &[&[16, 16, 16], &[17, 16, 16], &[33, 20, 70], &[15, 47, 65], &[2, 3, 17, 40], &[48, 17, 81]]),
        ("4x32x32", &[&[4, 32, 32], &[5, 33, 65], &[9, 40, 100], &[3, 70, 31]]),
        ("32x4x32", &[&[32, 4, 32], &[33, 5, 33], &[40, 9, 100]]),
        ("32x32x4", &[&[32, 32, 4], &[33, 33, 5], &[40, 37, 9], &[31, 65, 66]]),
        ("64x64", &[&[64, 64], &[65, 65], &[63, 130], &[200, 131], &[3, 65, 70], &[2, 64, 129]]),
        ("4096", &[&[4096], &[4097], &[4095], &[10_000], &[2, 5000], &[3, 2, 4100]]),
    ];
    for (tile, shapes) in list {
        for shape in shapes {
            let mut add = |what: &str, field: Field, config: Config| {
                let config = Config { mode: Mode::Fast, tile: Some(tile.parse().unwrap()), ..config };
                out.push(case("tiles", format!("{tile}-{}-{what}", join(shape)), shape, field, config));
            };
            let fill = |value, bound| Config { fill: Some(value), ..paper(bound) };
            add("waves", Field::Waves, paper(RelativeToRange(1e-3)));
            add("waves, loose", Field::Waves, paper(RelativeToRange(0.2)));
            add("rough", Field::Rough(1e-2), paper(Absolute(1e-3)));
            add("noise", Field::Noise, paper(RelativeToRange(1e-7)));
            add("an offset", Field::Ramp(1e5, 1.01e5), paper(Absolute(0.004)));
            add("spikes", Field::Spikes(50, Number::Of(1e30)), paper(Absolute(1e-3)));
            add("continents", Field::Continents(Number::Of(1e36)), fill(1e36, RelativeToRange(1e-3)));
            add("continents of 0", Field::Continents(Number::Of(0.0)), fill(0.0, RelativeToRange(1e-2)));
            add("holes", Field::Spikes(7, Number::SignallingNan), paper(RelativeToMax(1e-4)));
            add("raw tiles", Field::Slabs(vec![Field::Waves, Field::AnyScale]), paper(Absolute(1e-3)));
            add("chunks", Field::Rough(1e-3), Config { max_chunk_bytes: 40_000, ..paper(Absolute(1e-3)) });
        }
    }
    out
}

/// Packed tiles: fields that end within them, on them, and one node after them; whole warps of them; symbols of all widths.
fn packed() -> Vec<Case> {
    let mut out = Vec::new();
    let shapes: [&[u64]; 27] = [
        &[4, 8, 16],
        &[4, 8, 64],
        &[5, 9, 17],
        &[3, 7, 15],
        &[2, 2, 2],
        &[6, 5, 130],
        &[9, 17, 129],
        &[8, 16, 128],
        &[7, 12, 84],
        &[13, 30, 66],
        &[2, 3, 300],
        &[30, 2, 5],
        &[2, 3, 9, 70],
        &[16, 32],
        &[17, 33],
        &[15, 31],
        &[40, 100],
        &[2, 2],
        &[3, 1000],
        &[200, 3],
        &[512],
        &[513],
        &[511],
        &[3],
        &[5000],
        &[10, 24, 320],
        &[12, 40, 200],
    ];
    for shape in shapes {
        let mut add = |what: &str, field: Field, config: Config| {
            out.push(case("packed", format!("{}-{what}", join(shape)), shape, field, Config { mode: Mode::Turbo, ..config }));
        };
        let fill = |value, bound| Config { fill: Some(value), ..paper(bound) };
        add("waves", Field::Waves, paper(RelativeToRange(1e-3)));
        add("waves, loose", Field::Waves, paper(RelativeToRange(0.2)));
        add("rough", Field::Rough(1e-2), paper(Absolute(1e-3)));
        add("noise, few bits", Field::Noise, paper(Absolute(0.2)));
        add("noise", Field::Noise, paper(RelativeToRange(1e-4)));
        add("noise, wide", Field::Noise, paper(Absolute(2e-5)));
        add("noise, wider", Field::Noise, paper(RelativeToRange(1e-7)));
        add("an offset", Field::Ramp(1e5, 1.01e5), paper(Absolute(0.004)));
        add("spikes", Field::Spikes(50, Number::Of(1e30)), paper(Absolute(1e-3)));
        add("spikes far apart", Field::Spikes(1009, Number::Of(-300.0)), paper(Absolute(1e-3)));
        add("continents", Field::Continents(Number::Of(1e36)), fill(1e36, RelativeToRange(1e-3)));
        add("continents of 0", Field::Continents(Number::Of(0.0)), fill(0.0, RelativeToRange(1e-2)));
        add("holes", Field::Spikes(7, Number::SignallingNan), paper(RelativeToMax(1e-4)));
        add("a hole", Field::Planted(Box::new(Field::Waves), vec![(1, Number::SignallingNan)]), paper(Absolute(1e-3)));
        add("raw tiles", Field::Slabs(vec![Field::Waves, Field::AnyScale]), paper(Absolute(1e-3)));
        add("chunks", Field::Rough(1e-3), Config { max_chunk_bytes: 20_000, ..paper(Absolute(1e-3)) });
    }
    out
}
