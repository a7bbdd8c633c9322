//! Reads what `cuda_std`'s macros left in the compiled module, as LLVM's text.

use crate::device;

/// Marks of `#[kernel(max_threads = .., min_blocks = ..)]`: a constant of two `u32`, named so and then as the kernel.
const BOUNDS: &str = "__cuda_std_bounds_";
/// Marks of `shared_array!`: an undefined function of two constants, the bytes and the alignment.
const SHARED: &str = "__cuda_std_shared_";
/// All symbols of `cuda_std`.
const CUDA_STD: &str = "__cuda_std_";

/// What the builder has to know of a module of kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Module {
    /// The line `target datalayout = ...`.
    pub data_layout: String,
    /// The line `target triple = ...`.
    pub triple: String,
    /// The kernels, in the module's order.
    pub kernels: Vec<Kernel>,
    /// The static shared arrays, in the order of their first use.
    pub shared: Vec<SharedArray>,
}

/// An entry point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub name: String,
    pub bounds: Option<Bounds>,
}

/// The launch bounds of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub max_threads: u32,
    /// 0: not given.
    pub min_blocks: u32,
}

/// An array in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedArray {
    pub symbol: String,
    pub bytes: u64,
    pub align: u64,
}

impl Module {
    /// Reads a module's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut module = Module::default();
        let mut bounds = vec![];
        for line in text.lines() {
            if line.starts_with("target datalayout") {
                module.data_layout = line.to_owned();
            } else if line.starts_with("target triple") {
                module.triple = line.to_owned();
            } else if let Some(name) = kernel_name(line) {
                module.kernels.push(Kernel { name: name.to_owned(), bounds: None });
            } else if line.starts_with('@') && line[1..].starts_with(BOUNDS) {
                bounds.push(parse_bounds(line)?);
            } else if line.starts_with("declare ") {
                check_declaration(line)?;
            } else {
                module.add_shared_arrays(line)?;
            }
        }
        for (name, value) in bounds {
            match module.kernels.iter_mut().find(|kernel| kernel.name == name) {
                Some(kernel) => kernel.bounds = Some(value),
                None => {
                    return Err(format!("launch bounds for `{name}`, which is not a kernel of the module"));
                }
            }
        }
        if module.kernels.is_empty() {
            return Err("the crate has no kernel: no function with `#[kernel]`".into());
        }
        if module.data_layout.is_empty() || module.triple.is_empty() {
            return Err("the module does not say its target".into());
        }
        Ok(module)
    }

    pub fn kernel_names(&self) -> Vec<String> {
        self.kernels.iter().map(|kernel| kernel.name.clone()).collect()
    }

    /// The module's text with the launch bounds as attributes of the kernels: LLVM makes directives of them, and knows how large a thread's index can be.
    pub fn annotated(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 64 * self.kernels.len());
        for line in text.lines() {
            let bounds = kernel_name(line).and_then(|name| self.kernels.iter().find(|kernel| kernel.name == name)?.bounds);
            match (bounds, line.rsplit_once(" #")) {
                (Some(bounds), Some((head, tail))) => {
                    out.push_str(head);
                    out.push_str(&format!(" \"nvvm.maxntid\"=\"{}\"", bounds.max_threads));
                    if bounds.min_blocks > 0 {
                        out.push_str(&format!(" \"nvvm.minctasm\"=\"{}\"", bounds.min_blocks));
                    }
                    out.push_str(" #");
                    out.push_str(tail);
                }
                _ => out.push_str(line),
            }
            out.push('\n');
        }
        out
    }

    /// Adds the arrays that an instruction asks for.
    fn add_shared_arrays(&mut self, line: &str) -> Result<(), String> {
        let mut rest = line;
        while let Some(at) = rest.find(&format!("@{SHARED}")) {
            rest = &rest[at + 1..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let symbol = &rest[..end];
            let arguments = rest[end..].strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(arguments, _)| arguments);
            let numbers: Vec<u64> = arguments.into_iter().flat_map(|arguments| arguments.split(',')).filter_map(last_number).collect();
            let &[bytes, align] = &numbers[..] else {
                return Err(format!("`shared_array!` with a size that the compiler did not find constant: {line}"));
            };
            let array = SharedArray { symbol: symbol.to_owned(), bytes, align };
            match self.shared.iter().find(|known| known.symbol == array.symbol) {
                None => self.shared.push(array),
                Some(known) if *known == array => {}
                Some(known) => {
                    return Err(format!("one `shared_array!` has two sizes: {known:?} and {array:?}"));
                }
            }
            rest = &rest[end..];
        }
        Ok(())
    }
}

/// The kernel whose definition starts in this line.
fn kernel_name(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("define ")?;
    let (before, rest) = rest.split_once(" @")?;
    if !before.split(' ').any(|word| word == "ptx_kernel") {
        return None;
    }
    rest.split_once('(').map(|(name, _)| name)
}

/// `i64 noundef 1536` -> 1536.
fn last_number(argument: &str) -> Option<u64> {
    argument.split_whitespace().last()?.parse().ok()
}

/// `@__cuda_std_bounds_scale = constant [8 x i8] c"\80\00\00\00\03\00\00\00", align 4` -> scale, 128 threads, 3 blocks.
fn parse_bounds(line: &str) -> Result<(String, Bounds), String> {
    let parse = || {
        let (name, rest) = line.strip_prefix('@')?.strip_prefix(BOUNDS)?.split_once(' ')?;
        let (_, rest) = rest.split_once("c\"")?;
        let (string, _) = rest.split_once('"')?;
        let bytes: [u8; 8] = unescape(string)?.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some((name.to_owned(), Bounds { max_threads: word(0), min_blocks: word(4) }))
    };
    let (name, bounds) = parse().ok_or_else(|| format!("cannot read launch bounds from: {line}"))?;
    if !(1..=1024).contains(&bounds.max_threads) {
        return Err(format!("kernel `{name}`: max_threads is {}, but a block has 1 to 1024", bounds.max_threads));
    }
    Ok((name, bounds))
}

/// The bytes of a string in LLVM's notation: `\` and two hexadecimal digits, or the character itself.
fn unescape(string: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    let mut rest = string.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'\\' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    Some(bytes)
}

/// Refuses undefined functions that nothing will define, and functions of `cuda_std` that passes may copy into branches.
fn check_declaration(line: &str) -> Result<(), String> {
    let Some(name) = line.split_once('@').and_then(|(_, rest)| rest.split_once('(')).map(|(name, _)| name) else {
        return Err(format!("cannot read the declaration: {line}"));
    };
    if name.starts_with("llvm.") || name.starts_with(SHARED) || (name.starts_with(CUDA_STD) && device::defines(name)) {
        Ok(())
    } else {
        Err(format!("the kernels call `{name}`, which nothing defines"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
target datalayout = "e-p6:32:32"
target triple = "nvptx64-nvidia-cuda"

@__cuda_std_bounds_scale = local_unnamed_addr constant [8 x i8] c"\80\00\00\00\03\00\00\00", align 4

; Function Attrs: convergent nounwind
define ptx_kernel void @scale(ptr noundef %data, i32 noundef %n) unnamed_addr #0 {
  %a = tail call noundef ptr @__cuda_std_shared_kernels_0(i64 noundef 1536, i64 noundef 16) #1
  %b = tail call noundef ptr @__cuda_std_shared_kernels_1(i64 noundef 64, i64 noundef 32) #1
  ret void
}
define ptx_kernel void @free(ptr noundef %data) unnamed_addr #0 {
  %a = tail call noundef ptr @__cuda_std_shared_kernels_0(i64 noundef 1536, i64 noundef 16) #1
  ret void
}
define internal void @helper() unnamed_addr #0 {
  ret void
}
declare noundef ptr @__cuda_std_shared_kernels_0(i64 noundef, i64 noundef) unnamed_addr #0
declare noundef float @__cuda_std_fma_f32(float noundef, float noundef, float noundef) unnamed_addr #0
declare i32 @llvm.ctlz.i32(i32, i1 immarg) #2
"#;

    #[test]
    fn kernels_bounds_and_arrays_are_found() {
        let module = Module::parse(TEXT).unwrap();
        assert_eq!(module.kernel_names(), ["scale", "free"]);
        assert_eq!(module.kernels[0].bounds, Some(Bounds { max_threads: 128, min_blocks: 3 }));
        assert_eq!(module.kernels[1].bounds, None);
        let arrays: Vec<_> = module.shared.iter().map(|a| (a.symbol.as_str(), a.bytes, a.align)).collect();
        assert_eq!(arrays, [("__cuda_std_shared_kernels_0", 1536, 16), ("__cuda_std_shared_kernels_1", 64, 32)]);
    }

    #[test]
    fn bounds_become_attributes() {
        let module = Module::parse(TEXT).unwrap();
        let text = module.annotated(TEXT);
        assert!(text.contains("%n) unnamed_addr \"nvvm.maxntid\"=\"128\" \"nvvm.minctasm\"=\"3\" #0 {"), "{text}");
        assert!(text.contains("@free(ptr noundef %data) unnamed_addr #0 {"), "{text}");
    }

    #[test]
    fn what_would_fail_later_fails_here() {
        for (from, to, why) in [
            ("i64 noundef 64", "i64 noundef %n", "did not find constant"),
            ("shared_kernels_1(i64 noundef 64", "shared_kernels_0(i64 noundef 64", "two sizes"),
            ("@__cuda_std_fma_f32", "@fmaf", "`fmaf`, which nothing defines"),
            ("@__cuda_std_fma_f32", "@__cuda_std_fma_f16", "which nothing defines"),
            ("bounds_scale", "bounds_other", "not a kernel"),
            ("c\"\\80\\00", "c\"\\80\\10", "1 to 1024"),
        ] {
            let error = Module::parse(&TEXT.replace(from, to));
            assert!(error.as_ref().is_err_and(|e| e.contains(why)), "{why}: {error:?}");
        }
        assert!(Module::parse("define void @helper() {\n").is_err_and(|e| e.contains("no kernel")));
    }
}
