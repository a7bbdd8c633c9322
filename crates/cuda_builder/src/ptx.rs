//! Passes over the text of the PTX that LLVM makes.

use std::collections::HashMap;

use crate::ir::Module;
use crate::toolchain::Versions;

/// Makes LLVM's PTX the file to be shipped.
pub(crate) fn finish(raw: &str, versions: &Versions, module: &Module) -> Result<String, String> {
    let text = rename_hashed(&strip_comments(raw));
    let text = widen_narrow_stores(&text);
    let left = unsafe_narrow_stores(&text);
    if let Some(first) = left.first() {
        return Err(format!(
            "{} stores narrower than their register are left, the first in line {}: {}",
            left.len(),
            first.line,
            first.text
        ));
    }
    if let Some(line) = text.lines().find(|line| line.trim_start().starts_with(".extern .func")) {
        return Err(format!("the PTX calls a function that nothing defines: {}", line.trim()));
    }
    let bounds = launch_bounds(&text);
    for kernel in &module.kernels {
        let Some((_, (max_threads, min_blocks))) = bounds.iter().find(|(name, _)| *name == kernel.name) else {
            return Err(format!("kernel `{}` has no entry in the PTX", kernel.name));
        };
        let wanted = kernel.bounds.map_or((None, None), |b| (Some(b.max_threads), (b.min_blocks > 0).then_some(b.min_blocks)));
        if (*max_threads, *min_blocks) != wanted {
            return Err(format!("kernel `{}` has the bounds {:?} in the PTX, not {wanted:?}", kernel.name, (max_threads, min_blocks)));
        }
    }
    Ok(format!(
        "{}\n// Made from the sources in this repository by `cargo xtask build-ptx`; not to be edited.\n\n{text}",
        versions.header()
    ))
}

/// `.maxntid` and `.minnctapersm` of an entry, where it has them.
type EntryBounds = (Option<u32>, Option<u32>);

/// The entries of a PTX text in order, each with its `.maxntid` and `.minnctapersm`.
pub fn launch_bounds(ptx: &str) -> Vec<(String, EntryBounds)> {
    let mut entries: Vec<(String, EntryBounds)> = vec![];
    for line in ptx.lines().map(str::trim) {
        if let Some((_, rest)) = line.split_once(".entry ") {
            let name = rest.split(['(', ' ']).next().unwrap_or_default();
            entries.push((name.to_owned(), (None, None)));
        } else if let Some((_, bounds)) = entries.last_mut() {
            let number = |text: &str| text.trim().trim_end_matches(',').split(',').next().and_then(|n| n.trim().parse().ok());
            if let Some(rest) = line.strip_prefix(".maxntid") {
                bounds.0 = number(rest);
            } else if let Some(rest) = line.strip_prefix(".minnctapersm") {
                bounds.1 = number(rest);
            }
        }
    }
    entries
}

/// Drops comments (LLVM's header, names of basic blocks), trailing blanks and runs of empty lines.
fn strip_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut blank = true;
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default().trim_end();
        if !(code.is_empty() && blank) {
            out.push_str(code);
            out.push('\n');
        }
        blank = code.is_empty();
    }
    out
}

/// Renames functions and constants that are not entries: their names carry hashes of the compiler, which differ between folders.
fn rename_hashed(text: &str) -> String {
    let mut names: HashMap<&str, String> = HashMap::new();
    for line in text.lines() {
        let words = || line.split([' ', '\t', '(', ')', '[', ',', ';', '=']);
        let defined = if line.starts_with(".func") || line.starts_with(".visible .func") {
            words().find(|word| is_hashed(word)).map(|word| (word, "function"))
        } else if line.contains(".global ") && line.contains(".align") {
            words().find(|word| is_hashed(word)).map(|word| (word, "constant"))
        } else {
            None
        };
        if let Some((name, kind)) = defined {
            let number = names.len();
            names.entry(name).or_insert_with(|| format!("{kind}_{number}"));
        }
    }
    let mut out = String::with_capacity(text.len());
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        // Parameters are named after their function.
        let (stem, tail) = word.split_at(word.rfind("_param_").unwrap_or(word.len()));
        match names.get(word).map(|name| (name, "")).or_else(|| names.get(stem).map(|name| (name, tail))) {
            Some((name, tail)) => {
                out.push_str(name);
                out.push_str(tail);
            }
            None => out.push_str(word),
        }
        let next = after.find(is_name).unwrap_or(after.len());
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

/// Whether a symbol is one that rustc made up: a mangled name, or a constant without a name.
fn is_hashed(word: &str) -> bool {
    ["_R", "_ZN", "anon", "alloc_", "__unnamed"].iter().any(|start| word.starts_with(start)) || word.contains("$_")
}

/// A store whose register is wider than what it stores: the driver's assembler may convert the value instead of truncating it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NarrowStore {
    /// The line in the PTX, counted from 1.
    pub line: usize,
    /// The instruction.
    pub text: String,
}

/// The stores of a PTX text that [`CudaBuilder`](crate::CudaBuilder) would not let pass: 8 and 16 bits from anything but a 16-bit register, 32 bits from a 64-bit one.
///
/// LLVM writes `st.global.b16 [%rd1], %r2` to store the low half of a 32-bit register. Where a floating point instruction made `%r2`, ptxas 13.0 (driver 580)
/// takes the register for a float and stores its conversion to an integer. 8-bit and 32-bit stores were not seen to fail; they are the same to that optimisation.
pub fn unsafe_narrow_stores(ptx: &str) -> Vec<NarrowStore> {
    let mut found = vec![];
    for (index, line) in ptx.lines().enumerate() {
        for statement in statements(line) {
            if Store::parse(statement).is_some_and(|store| store.values.iter().any(|value| store.is_unsafe(value))) {
                found.push(NarrowStore { line: index + 1, text: statement.to_owned() });
            }
        }
    }
    found
}

/// Replaces each unsafe narrow store by conversions to registers of the width stored (16 bits for bytes) and a store of these.
fn widen_narrow_stores(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    for line in ptx.lines() {
        match Store::parse(line.trim()) {
            // A parameter of a call: nothing may stand between the parts of a call. The check reports it.
            Some(store) if !store.opcode.starts_with("st.param") && store.values.iter().any(|value| store.is_unsafe(value)) => {
                store.write_safely(&mut out);
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// The instructions of a line.
fn statements(line: &str) -> impl Iterator<Item = &str> {
    line.split_inclusive(';').map(|part| part.trim().trim_start_matches('{').trim())
}

/// A store instruction taken apart: `@%p1 st.global.v2.b16 [%rd1+4], {%rs1, %r2};`
struct Store<'a> {
    /// `@%p1`, or empty.
    guard: &'a str,
    opcode: &'a str,
    /// With its brackets.
    address: &'a str,
    values: Vec<&'a str>,
    /// Bits of one value in memory.
    bits: u32,
}

impl<'a> Store<'a> {
    /// A store of 8, 16 or 32 bits a value; other instructions are `None`.
    fn parse(statement: &'a str) -> Option<Self> {
        let statement = statement.trim().strip_suffix(';')?;
        let (guard, rest) = match statement.starts_with('@') {
            true => statement.split_once(char::is_whitespace)?,
            false => ("", statement),
        };
        let (opcode, rest) = rest.trim_start().split_once(char::is_whitespace)?;
        if !opcode.starts_with("st.") {
            return None;
        }
        let bits = match opcode.rsplit('.').next()? {
            "b8" | "u8" | "s8" => 8,
            "b16" | "u16" | "s16" | "f16" | "bf16" => 16,
            "b32" | "u32" | "s32" | "f32" => 32,
            _ => return None,
        };
        let (address, values) = rest.trim_start().split_once(']')?;
        let address = &rest.trim_start()[..address.len() + 1];
        let values = values.trim_start().strip_prefix(',')?.trim();
        let values = values.strip_prefix('{').and_then(|v| v.strip_suffix('}')).unwrap_or(values);
        Some(Store { guard, opcode, address, values: values.split(',').map(str::trim).collect(), bits })
    }

    /// Whether the value's register is wider than it need be. Registers that LLVM does not write count as unsafe.
    fn is_unsafe(&self, value: &str) -> bool {
        match register_bits(value) {
            Some(bits) => bits > self.bits.max(16),
            None => value.starts_with('%'),
        }
    }

    /// Writes the same store with conversions before it, in a block of their own.
    fn write_safely(&self, out: &mut String) {
        let bits = self.bits.max(16);
        let mut values = vec![];
        let mut conversions = String::new();
        for (index, &value) in self.values.iter().enumerate() {
            match register_bits(value) {
                Some(from) if self.is_unsafe(value) => {
                    conversions.push_str(&format!("\t.reg .b{bits} \t%narrow{index};\n\tcvt.u{bits}.u{from} \t%narrow{index}, {value};\n"));
                    values.push(format!("%narrow{index}"));
                }
                _ => values.push(value.to_owned()),
            }
        }
        let values = values.join(", ");
        let values = if self.values.len() > 1 { format!("{{{values}}}") } else { values };
        let guard = if self.guard.is_empty() { String::new() } else { format!("{} ", self.guard) };
        out.push_str(&format!("\t{{\n{conversions}\t{guard}{} \t{}, {values};\n\t}}\n", self.opcode, self.address));
    }
}

/// The width of a register, by LLVM's names: `%rs` 16, `%r` 32, `%rd` 64 bits; and `%narrow`, of the width of its store. `None` for anything else.
fn register_bits(value: &str) -> Option<u32> {
    let name = value.strip_prefix('%')?;
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match letters {
        "narrow" => Some(0),
        "rs" => Some(16),
        "r" => Some(32),
        "rd" => Some(64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_stores_go_through_a_conversion() {
        for (before, after) in [
            (
                "\tst.global.b16 \t[%rd1], %r5;",
                "\t{\n\t.reg .b16 \t%narrow0;\n\tcvt.u16.u32 \t%narrow0, %r5;\n\tst.global.b16 \t[%rd1], %narrow0;\n\t}\n",
            ),
            (
                "\t@%p12 st.shared.b8 \t[%r1+7], %r5;",
                "\t{\n\t.reg .b16 \t%narrow0;\n\tcvt.u16.u32 \t%narrow0, %r5;\n\t@%p12 st.shared.b8 \t[%r1+7], %narrow0;\n\t}\n",
            ),
            (
                "\t@!%p1 st.b16 \t[%rd1+-2], %rd5;",
                "\t{\n\t.reg .b16 \t%narrow0;\n\tcvt.u16.u64 \t%narrow0, %rd5;\n\t@!%p1 st.b16 \t[%rd1+-2], %narrow0;\n\t}\n",
            ),
            (
                "\tst.local.v4.b8 \t[%rd1], {%rs1, %r2, 0, %rd3};",
                "\t{\n\t.reg .b16 \t%narrow1;\n\tcvt.u16.u32 \t%narrow1, %r2;\n\t.reg .b16 \t%narrow3;\n\tcvt.u16.u64 \t%narrow3, %rd3;\n\
                 \tst.local.v4.b8 \t[%rd1], {%rs1, %narrow1, 0, %narrow3};\n\t}\n",
            ),
            (
                "\tst.relaxed.gpu.global.u32 \t[%rd1], %rd5;",
                "\t{\n\t.reg .b32 \t%narrow0;\n\tcvt.u32.u64 \t%narrow0, %rd5;\n\tst.relaxed.gpu.global.u32 \t[%rd1], %narrow0;\n\t}\n",
            ),
        ] {
            assert_eq!(unsafe_narrow_stores(before).len(), 1, "{before}");
            let widened = widen_narrow_stores(before);
            assert_eq!(widened, after);
            assert_eq!(unsafe_narrow_stores(&widened), []);
        }
    }

    #[test]
    fn other_instructions_stay() {
        for line in [
            "\tst.global.b16 \t[%rd1], %rs5;",
            "\tst.shared.b8 \t[kernels_shared_0+4], %rs5;",
            "\tst.shared.b8 \t[%r1], 0;",
            "\tst.global.v2.b16 \t[%rd1], {%rs1, -1};",
            "\tst.global.b32 \t[%rd1], %r5;",
            "\tst.global.v4.b32 \t[%rd1], {%r1, %r2, %r3, 1065353216};",
            "\tst.global.b64 \t[%rd1], %rd5;",
            "\tst.volatile.shared.v2.b64 \t[%rd1], {%rd5, %rd6};",
            "\tld.global.b16 \t%rs1, [%rd1];",
            "\tcvt.u16.u32 \t%rs1, %r1;",
            "$L__BB0_3:",
        ] {
            assert_eq!(unsafe_narrow_stores(line), [], "{line}");
            assert_eq!(widen_narrow_stores(line), format!("{line}\n"));
        }
    }

    #[test]
    fn what_the_pass_cannot_make_safe_is_reported() {
        for line in [
            "\tst.param.b16 \t[param0], %r1;",
            "\tst.global.b16 \t[%rd1], %f1;",
            "\t{ st.global.b16 [%rd1], %r1; }",
            "\tmov.b32 %r1, %r2; st.shared.b8 [%rd1], %r1;",
        ] {
            assert_eq!(unsafe_narrow_stores(&widen_narrow_stores(line)).len(), 1, "{line}");
        }
    }

    #[test]
    fn a_report_names_the_line() {
        let found = unsafe_narrow_stores("\tret;\n\tst.global.b16 \t[%rd1], %r5;\n");
        assert_eq!(found, [NarrowStore { line: 2, text: "st.global.b16 \t[%rd1], %r5;".into() }]);
    }

    #[test]
    fn bounds_are_read_off_entries() {
        let ptx = ".visible .entry a(\n\t.param .u64 a_param_0\n)\n.maxntid 128\n.minnctapersm 3\n{\n}\n.visible .entry b()\n{\n}\n\
                   .visible .entry c(\n)\n.maxntid 32, 1, 1\n{\n}\n";
        let bounds = launch_bounds(ptx);
        let expected = [("a", (Some(128), Some(3))), ("b", (None, None)), ("c", (Some(32), None))];
        assert_eq!(bounds, expected.map(|(name, bounds)| (name.to_owned(), bounds)));
    }

    #[test]
    fn names_do_not_depend_on_the_folder() {
        let ptx = |hash: &str| {
            format!(
                ".global .align 4 .b8 anon_$_{hash}_$_0[4] = {{1, 2}};\n.func _RNvCs{hash}_7kernels4help(\n\t.param .b64 _RNvCs{hash}_7kernels4help_param_0\n)\n\
                 {{\n\tld.param.b64 \t%rd1, [_RNvCs{hash}_7kernels4help_param_0];\n\tmov.b64 \t%rd2, anon_$_{hash}_$_0;\n}}\n.visible .entry scale()\n"
            )
        };
        let renamed = rename_hashed(&ptx("0a1b"));
        assert_eq!(renamed, rename_hashed(&ptx("ffee")));
        assert!(
            renamed.contains("[function_1_param_0]") && renamed.contains("constant_0[4]") && renamed.contains(".entry scale()"),
            "{renamed}"
        );
    }

    #[test]
    fn comments_go() {
        assert_eq!(strip_comments("//\n// Generated\n\n\n\tret;   // %bb.0\n\n\n}\n"), "\tret;\n\n}\n");
    }
}
