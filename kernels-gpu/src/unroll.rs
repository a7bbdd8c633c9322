//! Unrolled loops.

/// Runs the body with each of 0..5 as the constant $i: arrays that are indexed by it stay in registers.
macro_rules! each5 {
    (|$i:ident| $body:block) => {
        $crate::unroll::each5!(@ $i, $body, 0 1 2 3 4)
    };
    (@ $i:ident, $body:block, $($k:literal)*) => {
        $({
            let $i: usize = $k;
            $body
        })*
    };
}

/// Runs the body with each of 0..4 as the constant $i.
macro_rules! each4 {
    (|$i:ident| $body:block) => {
        $crate::unroll::each5!(@ $i, $body, 0 1 2 3)
    };
}

/// Runs the body with each of 0..8 as the constant $i.
macro_rules! each8 {
    (|$i:ident| $body:block) => {
        $crate::unroll::each5!(@ $i, $body, 0 1 2 3 4 5 6 7)
    };
}

pub(crate) use {each4, each5, each8};
