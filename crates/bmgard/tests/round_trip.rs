//! Every case of the suite keeps its promise on the CPU, for both element types; `support` says what is checked.

mod support;

use std::collections::BTreeSet;

use bmgard::{BackendChoice, inspect};
use support::cases::{GROUPS, group};

macro_rules! groups {
    ($($group:ident)*) => {
        $(mod $group {
            use super::*;

            #[test]
            fn f32() {
                support::suite_of::<f32>(stringify!($group), BackendChoice::Cpu);
            }

            #[test]
            fn f64() {
                support::suite_of::<f64>(stringify!($group), BackendChoice::Cpu);
            }
        })*

        #[test]
        fn no_group_is_left_out() {
            assert_eq!(GROUPS.map(|(name, _)| name), [$(stringify!($group)),*]);
        }
    };
}

groups! { lengths shapes positions constants bounds extremes levels budgets chunks fill coding fast tiles turbo packed }

/// A suite that stored everything as it is would pass: these groups must meet every kind of chunk and of section, one by one and mixed.
#[test]
fn the_cases_reach_every_path() {
    let mut sections = BTreeSet::new();
    let mut mixtures = BTreeSet::new();
    for case in ["chunks", "fill"].into_iter().flat_map(group) {
        let info = inspect(&support::run::<f32>(&case, BackendChoice::Cpu)).unwrap();
        mixtures.insert(info.chunks.iter().map(|chunk| chunk.kind).collect::<BTreeSet<_>>());
        sections.extend(info.chunks.iter().flat_map(|chunk| &chunk.sections).filter(|s| s.bytes > 0).map(|s| s.name.clone()));
    }
    let all = ["coded", "constant", "raw"];
    assert!(mixtures.contains(&BTreeSet::from(all)) && all.iter().all(|&kind| mixtures.contains(&BTreeSet::from([kind]))), "{mixtures:?}");
    for name in ["raw values", "special values: mask", "patches: values", "constant", "codebooks", "level 0: payload", "level 3: payload"] {
        assert!(sections.contains(name), "{name} is not in {sections:?}");
    }
    let budgets = group("budgets");
    let coded = budgets.iter().filter(|case| {
        let info = inspect(&support::run::<f64>(case, BackendChoice::Cpu)).unwrap();
        info.chunks[0].kind == "coded" && info.compressed_bytes < info.original_bytes
    });
    let coded = coded.count();
    assert!(coded * 10 > budgets.len() * 9, "only {coded} of {} are coded", budgets.len());
}
