//! The command line: flags, exit codes, files, JSON keys. What the values come back as is checked here too, independently of the
//! program's own comparison, on small fields.

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{json, program, run, skipped};
use tempfile::TempDir;

const OK: i32 = 0;
const CHECK: i32 = 1;
const USAGE: i32 = 2;
const BAD_FILE: i32 = 3;
const FAILED: i32 = 4;
const EXISTS: i32 = 5;

/// A folder with a small field of either type and an archive of the first, made by the program.
struct Room {
    folder: TempDir,
}

const SHAPE: &str = "9x20x17";
const F32: &str = "waves_9x20x17.f32";
const F64: &str = "waves_9x20x17.f64";

impl Room {
    fn new() -> Self {
        let room = Self { folder: TempDir::new().unwrap() };
        room.ok(&["gen", "waves", F32]);
        room.ok(&["gen", "waves", F64]);
        room.ok(&["compress", F32, "a.bmg", "--abs", "1e-3"]);
        room
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, args: &[&str]) -> Output {
        run(self.path(), args)
    }

    fn json(&self, args: &[&str]) -> Value {
        json(self.path(), args)
    }

    /// Must succeed; returns what it printed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(OK), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Must fail with this exit code, leave the folder as it was, print nothing on standard output, and say `message`.
    fn fails(&self, args: &[&str], code: i32, message: &str) {
        let before = self.files();
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains("error: "), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?} should say {message:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        assert_eq!(self.files(), before, "{args:?} left something behind");
    }

    /// Names, sizes and contents of all files, hidden ones too.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(self.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default())
            })
            .collect();
        files.sort();
        files
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path().join(name), bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path().join(name)).unwrap()
    }
}

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Strict: NaN and infinities bit for bit, everything else within the bound.
fn keeps(bound: f64, original: &[f32], decoded: &[f32]) -> bool {
    original.len() == decoded.len()
        && original
            .iter()
            .zip(decoded)
            .all(|(x, y)| if x.is_finite() { (f64::from(*x) - f64::from(*y)).abs() <= bound } else { x.to_bits() == y.to_bits() })
}

/// An .npy file of version 1 with this header dictionary.
fn npy(descriptor: &str, fortran: bool, shape: &str, values: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{descriptor}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(values);
    file
}

#[test]
fn round_trips_keep_the_bound() {
    let room = Room::new();
    let x = f32s(&room.read(F32));
    let (min, max) = x.iter().fold((f64::MAX, f64::MIN), |(min, max), &v| (min.min(v.into()), max.max(v.into())));
    let largest = min.abs().max(max.abs());
    for (flag, value, bound) in [
        ("--abs", "1e-2", 1e-2),
        ("--abs", "3e-6", 3e-6),
        ("--rel", "1e-3", 1e-3 * largest),
        ("--rel-range", "1e-4", 1e-4 * (max - min)),
        ("--rel-range", "2", 2.0 * (max - min)),
    ] {
        let report = room.json(&["compress", F32, "b.bmg", flag, value, "--json", "--overwrite"]);
        assert_eq!(report["abs_bound"].as_f64(), Some(bound), "{flag} {value}");
        assert_eq!(report["bound_satisfied"], true);
        room.ok(&["decompress", "b.bmg", "b.raw", "--overwrite"]);
        assert!(keeps(bound, &x, &f32s(&room.read("b.raw"))), "{flag} {value}");
        room.ok(&["compare", F32, "b.raw", flag, value]);
    }
}

#[test]
fn f64_round_trips() {
    let room = Room::new();
    let report = room.json(&["compress", F64, "b.bmg", "--abs", "1e-9", "--json"]);
    assert_eq!(report["dtype"], "f64");
    assert_eq!(report["original_bytes"], 9 * 20 * 17 * 8);
    room.ok(&["decompress", "b.bmg", "b_9x20x17.f64"]);
    let (x, y) = (f64s(&room.read(F64)), f64s(&room.read("b_9x20x17.f64")));
    assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() <= 1e-9));
}

#[test]
fn tiny_and_odd_fields() {
    let room = Room::new();
    let nan = f32::from_bits(0x7fc1_2345);
    let fields: [(&str, &[f32]); 9] = [
        ("1", &[1.5]),
        ("1x1x1", &[-0.0]),
        ("2", &[1.0, f32::MAX]),
        ("3x1", &[1.0, 2.0, 3.0]),
        ("1x1x1x4", &[nan, nan, nan, nan]),
        ("2x2", &[f32::INFINITY, f32::NEG_INFINITY, nan, 1.0]),
        ("5", &[7.0; 5]),
        ("2x3", &[f32::MIN_POSITIVE / 2.0, -1e-45, 0.0, -0.0, f32::MIN, f32::MAX]),
        ("9", &[0.0; 9]),
    ];
    for (shape, values) in fields {
        room.write("tiny.bin", &bytes_of(values));
        for (flag, value) in [("--abs", "1e-3"), ("--rel-range", "1e-2"), ("--rel", "1e-2"), ("--abs", "1e-300")] {
            let args = ["compress", "tiny.bin", "t.bmg", "--shape", shape, "--dtype", "f32", flag, value, "--json", "--overwrite"];
            let bound = room.json(&args)["abs_bound"].as_f64().unwrap();
            room.ok(&["decompress", "t.bmg", "t.raw", "--overwrite"]);
            let decoded = f32s(&room.read("t.raw"));
            assert!(keeps(bound, values, &decoded), "{shape} {flag} {value}: {decoded:?}");
            room.ok(&["compare", "tiny.bin", "t.raw", "--shape", shape, "--dtype", "f32", flag, value]);
        }
    }
}

#[test]
fn generated_fields_of_every_kind_round_trip() {
    let room = Room::new();
    for kind in ["turbulence", "density", "mixing", "waves", "noise", "constant", "ramp", "steps", "clouds", "special", "random-bits"] {
        room.ok(&["gen", kind, "g_8x19x23.f32", "--overwrite", "--seed", "5"]);
        let bound = room.json(&["compress", "g_8x19x23.f32", "g.bmg", "--rel-range", "1e-3", "--overwrite", "--json"])["abs_bound"]
            .as_f64()
            .unwrap();
        room.ok(&["decompress", "g.bmg", "g.raw", "--overwrite"]);
        assert!(keeps(bound, &f32s(&room.read("g_8x19x23.f32")), &f32s(&room.read("g.raw"))), "{kind}");
        room.ok(&["compare", "g_8x19x23.f32", "g.raw", "--rel-range", "1e-3"]);
    }
}

#[test]
fn fill_values_come_back_and_do_not_count() {
    let room = Room::new();
    let printed = room.ok(&["gen", "fill", "sea_3x40x50.f32"]);
    assert!(printed.contains("--fill 9.96921e36"), "{printed}");
    let args = ["compress", "sea_3x40x50.f32", "sea.bmg", "--rel-range", "1e-3", "--fill", "9.96921e36", "--json"];
    let report = room.json(&args);
    let bound = report["abs_bound"].as_f64().unwrap();
    assert!(bound < 1.0, "{bound}");
    room.ok(&["decompress", "sea.bmg", "sea.raw"]);
    let (x, y) = (f32s(&room.read("sea_3x40x50.f32")), f32s(&room.read("sea.raw")));
    let fills = x.iter().filter(|&&v| v == 9.96921e36).count() as u64;
    assert!(fills > 0);
    assert_eq!(report["exact_values"], fills);
    assert!(x.iter().zip(&y).all(|(x, y)| if *x == 9.96921e36 { x.to_bits() == y.to_bits() } else { keeps(bound, &[*x], &[*y]) }));
    room.ok(&["compare", "sea_3x40x50.f32", "sea.raw", "--rel-range", "1e-3", "--fill", "9.96921e36"]);
    // A negative number after a flag is a value, not another flag.
    let output = room.run(&["compress", "sea_3x40x50.f32", "auto.bmg", "--rel-range", "1e-3", "--fill", "auto"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("9.96921e36 marks missing data"), "{stderr}");
    assert_eq!(fs::read(room.path().join("auto.bmg")).unwrap(), fs::read(room.path().join("sea.bmg")).unwrap());
    let output = room.run(&["compress", F32, "none.bmg", "--abs", "1", "--fill", "auto"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no fill value was found"));

    room.ok(&["compress", F32, "n.bmg", "--abs", "1", "--fill", "-1e10"]);
    assert_eq!(room.json(&["inspect", "n.bmg", "--json"])["fill"], -1e10);
}

#[test]
fn bad_bounds_are_usage_errors() {
    let room = Room::new();
    for flag in ["--abs", "--rel", "--rel-range"] {
        for value in ["0", "-1", "-1e-3", "nan", "inf", "-inf", "1e999"] {
            room.fails(&["compress", F32, "x.bmg", flag, value], USAGE, "greater than 0");
            room.fails(&["compare", F32, F32, flag, value], USAGE, "greater than 0");
        }
        for value in ["", "1e", "1,5", "abc", "--json"] {
            room.fails(&["compress", F32, "x.bmg", flag, value], USAGE, "invalid value");
        }
    }
    room.fails(&["compress", F32, "x.bmg"], USAGE, "--rel-range");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--rel", "1"], USAGE, "cannot be used with");
    room.fails(&["compare", F32, F32, "--abs", "1", "--rel-range", "1"], USAGE, "cannot be used with");
    room.fails(&["bench", F32, "--rel", "0"], USAGE, "greater than 0");
}

#[test]
fn bad_arguments_are_usage_errors() {
    let room = Room::new();
    room.fails(&["compres"], USAGE, "compress");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--fast"], USAGE, "--fast");
    room.fails(&["compress", F32], USAGE, "<OUTPUT>");
    room.fails(&["inspect"], USAGE, "<ARCHIVE>");
    room.fails(&["gen", "mountains", "m_2x2.f32"], USAGE, "turbulence");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--mode", "ratio"], USAGE, "not available yet");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--mode", "turbo", "--tile", "64x64"], USAGE, "no choice of tiles");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--mode", "best"], USAGE, "paper");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--mode", "fast", "--local-levels", "1"], USAGE, "no choice of levels");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--mode", "paper", "--tile", "64x64"], USAGE, "no choice of tiles");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--mode", "fast", "--tile", "8x8x8"], USAGE, "4x32x32");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--mode", "turbo", "--error-budget", "tight"], USAGE, "error budgets");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--error-budget", "loose"], USAGE, "rigorous");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--backend", "tpu"], USAGE, "cuda");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--threads", "0"], USAGE, "1 to 4096");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--chunk-bytes", "1T"], USAGE, "K, M or G");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--chunk-bytes", "1K"], USAGE, "4096");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--local-levels", "9"], USAGE, "");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--global-levels", "99"], USAGE, "");
    room.fails(&["compress", F32, "x.bmg", "--abs", "1", "--fill", "none"], USAGE, "--fill");
    let no_command = room.run(&[]);
    assert_eq!(no_command.status.code(), Some(USAGE));
    for args in [&["--help"][..], &["-h"], &["--version"], &["compress", "--help"], &["help", "gen"]] {
        assert!(!room.ok(args).is_empty());
    }
    assert!(room.ok(&["--version"]).starts_with("bmgard "));
    assert!(room.ok(&["compress", "--help"]).contains("bmgard compress T_30x192x288.f32"));
}

#[test]
fn shapes_and_types_must_fit_the_file() {
    let room = Room::new();
    room.write("plain.dat", &room.read(F32));
    room.write("step_0042.f32", &room.read(F32));
    let compress = |rest: &[&str], code, message: &str| {
        let mut args = vec!["compress"];
        args.extend(rest);
        args.extend(["--abs", "1e-3"]);
        room.fails(&args, code, message);
    };
    compress(&["plain.dat", "x.bmg"], USAGE, "--dtype");
    compress(&["plain.dat", "x.bmg", "--dtype", "f32"], USAGE, "3060 values of f32");
    compress(&["step_0042.f32", "x.bmg"], USAGE, "add --shape");
    compress(&["plain.dat", "x.bmg", "--dtype", "f16"], USAGE, "f32 and f64");
    for shape in ["", "0", "3x0", "x", "1x2x3x4x5", "9x20x-17", "3.5", "9x20x17x"] {
        compress(&["plain.dat", "x.bmg", "--dtype", "f32", "--shape", shape], USAGE, "--shape");
    }
    // Both sizes are named, and what would fit.
    compress(&[F32, "x.bmg", "--shape", "8x20x17"], USAGE, "has 12240 bytes, but shape 8x20x17 (from --shape) of f32 has 10880");
    compress(&[F32, "x.bmg", "--shape", "8x20x17"], USAGE, "--shape 9x20x17 would fit");
    compress(&[F64, "x.bmg", "--dtype", "f32"], USAGE, "--dtype f64");
    compress(&[F32, "x.bmg", "--shape", "1152921504606846976"], USAGE, "12240 bytes");
    room.write("short_9x20x17.f32", &room.read(F32)[..12239]);
    compress(&["short_9x20x17.f32", "x.bmg"], USAGE, "not a multiple of 4");
    room.write("empty_9x20x17.f32", b"");
    compress(&["empty_9x20x17.f32", "x.bmg"], USAGE, "has 0 bytes");
    // Flags come before names.
    room.ok(&["compress", F32, "flat.bmg", "--shape", "3060", "--abs", "1e-3"]);
    assert_eq!(room.json(&["inspect", "flat.bmg", "--json"])["shape"], serde_json::json!([3060]));
    room.ok(&["compress", "plain.dat", "dat.bmg", "--shape", "9,20X17", "--dtype", "float32", "--abs", "1e-3"]);
    assert_eq!(room.read("dat.bmg"), room.read("a.bmg"));
}

#[test]
fn missing_and_unreadable_inputs() {
    let room = Room::new();
    fs::create_dir(room.path().join("folder_2x2.f32")).unwrap();
    room.fails(&["compress", "none_2x2.f32", "x.bmg", "--abs", "1"], BAD_FILE, "none_2x2.f32");
    room.fails(&["compress", "folder_2x2.f32", "x.bmg", "--abs", "1"], BAD_FILE, "folder");
    room.fails(&["decompress", "none.bmg", "x.raw"], BAD_FILE, "No such file");
    room.fails(&["inspect", "none.bmg"], BAD_FILE, "No such file");
    room.fails(&["compare", "none_2x2.f32", F32], BAD_FILE, "No such file");
    room.fails(&["compare", F32, "none.raw"], BAD_FILE, "No such file");
    room.fails(&["bench", "none_2x2.f32"], BAD_FILE, "No such file");
    for archive in [F32, "empty.bmg"] {
        room.write("empty.bmg", b"");
        room.fails(&["decompress", archive, "x.raw"], BAD_FILE, "archive");
        room.fails(&["inspect", archive, "--json"], BAD_FILE, "archive");
    }
}

#[test]
fn damaged_archives_are_refused_and_leave_nothing() {
    let room = Room::new();
    let archive = room.read("a.bmg");
    let lengths = (0..40).chain((40..archive.len()).step_by(archive.len() / 40)).chain(archive.len() - 8..archive.len());
    for length in lengths {
        room.write("cut.bmg", &archive[..length]);
        room.fails(&["decompress", "cut.bmg", "x.raw"], BAD_FILE, "");
    }
    for position in (0..120).chain((120..archive.len()).step_by(archive.len() / 60)) {
        let mut mutated = archive.clone();
        mutated[position] ^= 1 << (position % 8);
        room.write("bad.bmg", &mutated);
        room.fails(&["decompress", "bad.bmg", "x.npy"], BAD_FILE, "");
        room.fails(&["inspect", "bad.bmg"], BAD_FILE, "");
    }
    let mut longer = archive.clone();
    longer.push(0);
    room.write("long.bmg", &longer);
    room.fails(&["decompress", "long.bmg", "x.raw"], BAD_FILE, "");
}

#[test]
fn existing_outputs_are_kept() {
    let room = Room::new();
    room.write("there", b"precious");
    for args in [
        &["compress", F32, "there", "--abs", "1"][..],
        &["decompress", "a.bmg", "there"],
        &["gen", "waves", "there", "--shape", "3x3", "--dtype", "f32"],
    ] {
        room.fails(args, EXISTS, "--overwrite");
        let mut args = args.to_vec();
        args.push("--overwrite");
        room.ok(&args);
        assert_ne!(room.read("there"), b"precious");
        room.write("there", b"precious");
    }
    // The output is looked at before the work: an unreadable input does not matter.
    room.fails(&["decompress", "none.bmg", "there"], EXISTS, "there");
    // A failure with --overwrite keeps the old file too.
    room.fails(&["decompress", F32, "there", "--overwrite"], BAD_FILE, "");
    room.fails(&["compress", F32, "there", "--overwrite", "--abs", "1", "--shape", "7"], USAGE, "");
}

#[test]
fn outputs_replace_only_what_they_should() {
    let room = Room::new();
    let at = |name: &str| room.path().join(name);
    for other in [F32, "./waves_9x20x17.f32", "link", "hard"] {
        let _ = symlink(at(F32), at("link"));
        let _ = fs::hard_link(at(F32), at("hard"));
        room.fails(&["compress", F32, other, "--abs", "1", "--overwrite"], USAGE, "it is the input too");
    }
    room.fails(&["decompress", "a.bmg", "a.bmg", "--overwrite"], USAGE, "it is the input too");
    room.fails(&["decompress", "a.bmg", "no/such/folder/x.raw"], FAILED, "no/such/folder/x.raw");
    fs::create_dir(at("folder")).unwrap();
    room.fails(&["decompress", "a.bmg", "folder", "--overwrite"], FAILED, "folder");
    // Through a link, the file behind it is replaced.
    room.write("old", b"old");
    symlink("old", at("alias")).unwrap();
    room.fails(&["decompress", "a.bmg", "alias"], EXISTS, "");
    room.ok(&["decompress", "a.bmg", "alias", "--overwrite"]);
    assert!(fs::symlink_metadata(at("alias")).unwrap().is_symlink());
    assert_eq!(room.read("old").len(), 12240);
    // Permissions: those of any new file, not a temporary file's; a replaced file keeps its own.
    fs::File::create(at("plain")).unwrap();
    let mode = |name: &str| fs::metadata(at(name)).unwrap().mode() & 0o777;
    room.ok(&["decompress", "a.bmg", "new.raw"]);
    assert_eq!(mode("new.raw"), mode("plain"));
    Command::new("chmod").args(["600", "new.raw"]).current_dir(room.path()).status().unwrap();
    room.ok(&["decompress", "a.bmg", "new.raw", "--overwrite"]);
    assert_eq!(mode("new.raw"), 0o600);
}

#[test]
fn a_full_disk_is_an_error() {
    if !Path::new("/dev/full").exists() {
        skipped("no /dev/full here");
        return;
    }
    let room = Room::new();
    room.fails(&["decompress", "a.bmg", "/dev/full"], FAILED, "/dev/full");
    room.fails(&["compress", F32, "/dev/full", "--abs", "1"], FAILED, "/dev/full");
    room.fails(&["gen", "noise", "/dev/full", "--shape", "99", "--dtype", "f64"], FAILED, "/dev/full");
    // A device is written to, never replaced by a file.
    room.ok(&["decompress", "a.bmg", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn standard_input_and_output() {
    let room = Room::new();
    let pipe = |args: &[&str], input: &[u8]| {
        let output = program().current_dir(room.path()).args(args).write_stdin(input).output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let (raw, archive) = (room.read(F32), room.read("a.bmg"));
    let (code, out, report) = pipe(&["compress", "-", "-", "--shape", SHAPE, "--dtype", "f32", "--abs", "1e-3"], &raw);
    assert_eq!((code, &out), (Some(OK), &archive), "{report}");
    assert!(report.contains("ratio"), "the report goes to standard error: {report}");
    let (code, out, report) = pipe(&["decompress", "-", "-", "--json"], &archive);
    assert_eq!(code, Some(OK), "{report}");
    assert!(keeps(1e-3, &f32s(&raw), &f32s(&out)));
    assert_eq!(serde_json::from_str::<Value>(&report).unwrap()["output_bytes"], 12240);
    let (code, out, _) = pipe(&["inspect", "-", "--json"], &archive);
    assert_eq!(code, Some(OK));
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap()["dtype"], "f32");
    let (code, _, report) = pipe(&["compress", "-", "-", "--dtype", "f32", "--abs", "1e-3"], &raw);
    assert_eq!(code, Some(USAGE), "{report}");
    let (code, _, report) = pipe(&["compress", "-", "-", "--shape", "5", "--dtype", "f32", "--abs", "1e-3"], &raw);
    assert_eq!(code, Some(USAGE), "{report}");
    let (code, out, report) = pipe(&["decompress", "-", "-"], &archive[..archive.len() - 1]);
    assert_eq!((code, out.len()), (Some(BAD_FILE), 0), "{report}");
    // NumPy's format is known by its first bytes.
    let (code, out, report) = pipe(&["compress", "-", "-", "--abs", "1e-3"], &npy("<f4", false, "(9, 20, 17)", &raw));
    assert_eq!((code, &out), (Some(OK), &archive), "{report}");
    let (code, out, _) = pipe(&["gen", "waves", "-", "--shape", SHAPE, "--dtype", "f32"], b"");
    assert_eq!((code, &out), (Some(OK), &raw));
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let room = Room::new();
    let piped = |args: &[&str]| {
        let program = program();
        let mut child = Command::new(program.get_program())
            .args(args)
            .current_dir(room.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // A report that nobody reads is no failure; data that nobody reads are.
    for args in [&["inspect", "a.bmg", "--json"][..], &["compare", F32, F32], &["devices"], &["--help"]] {
        let (code, stderr) = piped(args);
        assert_eq!((code, stderr.contains("panicked")), (Some(OK), false), "{args:?}: {stderr}");
    }
    let (code, stderr) = piped(&["decompress", "a.bmg", "-"]);
    assert_eq!((code, stderr.contains("panicked")), (Some(FAILED), false), "{stderr}");
}

#[test]
fn an_interrupt_takes_the_temporary_file_along() {
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let room = Room::new();
        let before = room.files();
        // Standard input stays open, so the program waits with its temporary file made.
        let program = program();
        let mut child = Command::new(program.get_program())
            .args(["compress", "-", "x.bmg", "--shape", SHAPE, "--dtype", "f32", "--abs", "1"])
            .current_dir(room.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(&[0; 100]).unwrap();
        let start = Instant::now();
        while room.files() == before {
            assert!(start.elapsed() < Duration::from_secs(60), "no temporary file came");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The handler is set up right after the file.
        std::thread::sleep(Duration::from_millis(200));
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(number));
        assert_eq!(room.files(), before, "{signal}");
        drop(stdin);
    }
}

#[test]
fn npy_files_are_read() {
    let room = Room::new();
    let raw = room.read(F32);
    fn compress(name: &str) -> [&str; 6] {
        ["compress", name, "n.bmg", "--abs", "1e-3", "--overwrite"]
    }
    room.write("a.npy", &npy("<f4", false, "(9, 20, 17)", &raw));
    room.ok(&compress("a.npy"));
    assert_eq!(room.read("n.bmg"), room.read("a.bmg"));
    room.write("d.npy", &npy("<f8", false, "(9, 20, 17)", &room.read(F64)));
    room.ok(&compress("d.npy"));
    assert_eq!(room.json(&["inspect", "n.bmg", "--json"])["dtype"], "f64");
    // Headers that leave the values unaligned.
    let mut odd = npy("<f8", false, "(9, 20, 17)", &room.read(F64));
    let header = odd.len() - room.read(F64).len();
    odd[8] += 1;
    odd.insert(header - 1, b' ');
    room.write("odd.npy", &odd);
    room.ok(&compress("odd.npy"));
    // A scalar, and one dimension in either order, are the same in both orders.
    room.write("scalar.npy", &npy("<f4", false, "()", &raw[..4]));
    room.ok(&compress("scalar.npy"));
    room.write("line.npy", &npy("<f4", true, "(3060,)", &raw));
    room.ok(&compress("line.npy"));
    // Another shape of as many values.
    room.ok(&["compress", "a.npy", "n.bmg", "--abs", "1e-3", "--overwrite", "--shape", "180x17", "--dtype", "f32"]);
    assert_eq!(room.json(&["inspect", "n.bmg", "--json"])["shape"], serde_json::json!([180, 17]));
    room.write("five.npy", &npy("<f4", false, "(3, 3, 4, 5, 17)", &raw));
    room.fails(&["compress", "five.npy", "x.bmg", "--abs", "1"], BAD_FILE, "--shape");
    room.ok(&["compress", "five.npy", "n.bmg", "--abs", "1", "--overwrite", "--shape", "9x20x17"]);
}

#[test]
fn npy_files_that_cannot_be_read_say_what_to_do() {
    let room = Room::new();
    let raw = room.read(F32);
    let fails = |file: Vec<u8>, code, message: &str| {
        room.write("x.npy", &file);
        room.fails(&["compress", "x.npy", "x.bmg", "--abs", "1"], code, message);
    };
    fails(npy("<f4", true, "(9, 20, 17)", &raw), BAD_FILE, "ascontiguousarray");
    fails(npy(">f4", false, "(9, 20, 17)", &raw), BAD_FILE, "big-endian");
    fails(npy(">f8", false, "(9, 10, 17)", &raw), BAD_FILE, "big-endian");
    fails(npy("<i4", false, "(9, 20, 17)", &raw), BAD_FILE, "astype");
    fails(npy("<f2", false, "(18, 20, 17)", &raw), BAD_FILE, "f32 and f64");
    fails(npy("<f4", false, "(9, 20, 18)", &raw), BAD_FILE, "too early");
    fails(npy("<f4", false, "(9, 20, 16)", &raw), BAD_FILE, "after its values");
    fails(npy("<f4", false, "(0, 20, 17)", b""), BAD_FILE, "at least 1");
    fails(npy("<f4", false, "(9999999999, 9999999999, 9999999999)", &raw), BAD_FILE, "");
    fails(raw.clone(), BAD_FILE, ".npy");
    fails(Vec::new(), BAD_FILE, ".npy");
    let whole = npy("<f4", false, "(9, 20, 17)", &raw);
    for length in [1, 6, 8, 9, 10, 11, 64, 127, 128, 129] {
        fails(whole[..length].to_vec(), BAD_FILE, ".npy");
    }
    room.write("x.npy", &whole);
    room.fails(&["compress", "x.npy", "x.bmg", "--abs", "1", "--dtype", "f64"], USAGE, "--dtype f64");
    room.fails(&["compress", "x.npy", "x.bmg", "--abs", "1", "--shape", "9x20x16"], USAGE, "3060");
}

#[test]
fn npy_files_are_written() {
    let room = Room::new();
    room.ok(&["decompress", "a.bmg", "out.raw"]);
    room.ok(&["decompress", "a.bmg", "out.npy"]);
    let (raw, npy) = (room.read("out.raw"), room.read("out.npy"));
    let header = npy.len() - raw.len();
    assert_eq!((&npy[..6], header % 16, &npy[header..]), (&b"\x93NUMPY"[..], 0, &raw[..]));
    let text = String::from_utf8_lossy(&npy[10..header]).replace(' ', "");
    assert!(text.contains("'descr':'<f4'") && text.contains("'fortran_order':False") && text.contains("'shape':(9,20,17)"), "{text}");
    room.ok(&["compare", F32, "out.npy", "--abs", "1e-3"]);
    room.ok(&["compare", "out.npy", "out.raw"]);
    room.ok(&["gen", "ramp", "line.npy", "--shape", "100", "--dtype", "f64"]);
    room.ok(&["compress", "line.npy", "line.bmg", "--abs", "1e-2"]);
}

#[test]
fn compare_is_strict() {
    let room = Room::new();
    let values: Vec<f32> = (0..24).map(|i| i as f32).collect();
    room.write("x_2x3x4.f32", &bytes_of(&values));
    let with = |changes: &[(usize, f32)]| {
        let mut copy = values.clone();
        for &(at, value) in changes {
            copy[at] = value;
        }
        room.write("y", &bytes_of(&copy));
    };
    with(&[(6, 6.25), (20, 19.5)]);
    room.ok(&["compare", "x_2x3x4.f32", "y", "--abs", "0.5"]);
    room.ok(&["compare", "x_2x3x4.f32", "y"]);
    let report = room.json(&["compare", "x_2x3x4.f32", "y", "--json"]);
    assert_eq!(report["max_abs_error"], 0.5);
    assert_eq!(report["worst_position"], serde_json::json!([1, 2, 0]));
    assert_eq!(report["bound_satisfied"], Value::Null);
    // The range is 23, the largest magnitude too.
    let broken = |args: &[&str], count: u64| {
        let args = [&["compare", "x_2x3x4.f32", "y", "--json"], args].concat();
        let output = room.run(&args);
        assert_eq!(output.status.code(), Some(CHECK), "{args:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["broken_values"], &report["bound_satisfied"]), (&count.into(), &false.into()), "{args:?}");
    };
    broken(&["--abs", "0.4999999"], 1);
    broken(&["--abs", "0.1"], 2);
    broken(&["--rel-range", "0.02"], 1);
    room.ok(&["compare", "x_2x3x4.f32", "y", "--rel", "0.022"]);
    // NaN for a number breaks every bound; so does a number for NaN.
    with(&[(3, f32::NAN)]);
    broken(&["--abs", "1e30"], 1);
    with(&[(3, f32::INFINITY)]);
    broken(&["--abs", "1e30"], 1);
    with(&[(3, 5.0)]);
    broken(&["--abs", "1e30", "--fill", "3"], 0);
    let printed = room.run(&["compare", "x_2x3x4.f32", "y", "--abs", "1"]);
    assert_eq!(printed.status.code(), Some(CHECK));
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("(0, 0, 3)") && printed.contains("PSNR") && printed.contains("BROKEN"), "{printed}");
    // Other lengths, shapes and types.
    room.write("y", &bytes_of(&values[..23]));
    room.fails(&["compare", "x_2x3x4.f32", "y"], CHECK, "92 bytes");
    room.write("y_4x3x2.f32", &bytes_of(&values));
    room.fails(&["compare", "x_2x3x4.f32", "y_4x3x2.f32"], CHECK, "4x3x2");
    room.write("y_2x3x4.f64", &bytes_of(&[values.clone(), values.clone()].concat()));
    room.fails(&["compare", "x_2x3x4.f32", "y_2x3x4.f64"], CHECK, "f64");
    // The original's own shape is a matter of usage.
    room.fails(&["compare", "x_2x3x4.f32", "y", "--shape", "5"], USAGE, "96 bytes");
}

#[test]
fn reports_have_their_keys() {
    let room = Room::new();
    let has = |report: &Value, keys: &[&str]| {
        let object = report.as_object().unwrap();
        for key in keys {
            assert!(object.contains_key(*key), "{key} is missing: {report}");
        }
    };
    let promised = [
        "original_bytes",
        "compressed_bytes",
        "compression_ratio",
        "bit_rate",
        "abs_bound",
        "max_abs_error",
        "bound_satisfied",
        "seconds",
        "backend",
    ];
    for verified in [true, false] {
        let mut args = vec!["compress", F32, "a.bmg", "--abs", "1e-3", "--json", "--overwrite"];
        if !verified {
            args.push("--no-verify");
        }
        let report = room.json(&args);
        has(&report, &promised);
        has(&report, &["dtype", "shape", "psnr", "values", "exact_values", "patched_values", "throughput_gb_s", "verified"]);
        let compressed = room.read("a.bmg").len() as f64;
        assert_eq!(report["original_bytes"], 12240);
        assert_eq!(report["compressed_bytes"].as_f64(), Some(compressed));
        assert_eq!(report["compression_ratio"].as_f64(), Some(12240.0 / compressed));
        assert_eq!(report["bit_rate"].as_f64(), Some(8.0 * compressed / 3060.0));
        assert_eq!(report["verified"], verified);
        assert_eq!(report["bound_satisfied"], true);
        assert!(report["max_abs_error"].as_f64().unwrap() <= 1e-3);
    }
    let report = room.json(&["decompress", "a.bmg", "a.raw", "--json"]);
    has(&report, &["seconds", "throughput_gb_s", "shape", "dtype", "output_bytes", "compressed_bytes", "backend"]);
    let report = room.json(&["inspect", "a.bmg", "--json"]);
    has(&report, &["format_version", "dtype", "shape", "error_bound", "abs_bound", "error_budget", "chunks", "original_bytes"]);
    assert_eq!(report["error_bound"], serde_json::json!({"kind": "absolute", "value": 1e-3}));
    let report = room.json(&["compare", F32, "a.raw", "--abs", "1e-3", "--json"]);
    has(&report, &["max_abs_error", "worst_position", "psnr", "nrmse", "broken_values", "bound_satisfied", "abs_bound"]);
    // An exact copy has an infinite PSNR: null.
    assert_eq!(room.json(&["compare", F32, F32, "--json"])["psnr"], Value::Null);
    has(&room.json(&["gen", "fill", "g_4x4.f32", "--json"]), &["kind", "seed", "shape", "dtype", "fill", "min", "max"]);
    has(&room.json(&["devices", "--json"]), &["devices", "reason"]);
    let report = room.json(&["bench", F32, "--abs", "1e-3", "--repeat", "2", "--json", "--threads", "2"]);
    has(&report, &["runs", "abs_bound", "repeat", "original_bytes"]);
    assert_eq!(report["runs"].as_array().unwrap().len(), 2);
    for run in report["runs"].as_array().unwrap() {
        has(run, &["codec", "threads", "compression_ratio", "bound_satisfied", "compress", "decompress"]);
        has(&run["compress"], &["median_seconds", "min_seconds", "max_seconds", "median_gb_s"]);
        assert_eq!(run["bound_satisfied"], true);
    }
}

#[test]
fn people_get_a_short_report() {
    let room = Room::new();
    let printed = room.ok(&["compress", F32, "a.bmg", "--rel-range", "1e-3", "--overwrite"]);
    for word in ["ratio", "bit rate", "bound", "worst error", "stored exactly", "GB/s", "cpu"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    assert!(printed.lines().count() < 15);
    let printed = room.ok(&["inspect", "a.bmg"]);
    for word in ["9x20x17", "f32", "bound", "tiles", "chunk", "section"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    room.ok(&["compress", F32, "a.bmg", "--rel-range", "1e-3", "--local-levels", "1", "--overwrite"]);
    let printed = room.ok(&["inspect", "a.bmg"]);
    assert!(printed.contains("projection") && printed.contains("levels"), "{printed}");
    let printed = room.ok(&["bench", "--gen", "waves", "--shape", SHAPE, "--dtype", "f64", "--repeat", "1", "--threads", "1"]);
    assert!(printed.contains("compress GB/s") && printed.contains("1 thread"), "{printed}");
    room.fails(&["bench"], USAGE, "--gen");
    room.fails(&["bench", "--gen", "waves", "--dtype", "f32"], USAGE, "--shape");
    room.fails(&["bench", "--gen", "waves", "--shape", "3"], USAGE, "--dtype");
    room.fails(&["bench", F32, "--repeat", "0"], USAGE, "--repeat");
    room.fails(&["bench", F32, "--gen", "waves"], USAGE, "cannot be used with");
}

#[test]
fn the_demo_shows_commands_and_leaves_nothing() {
    let room = Room::new();
    let before = room.files();
    let printed = room.ok(&["demo"]);
    for word in ["$ bmgard compress", "ratio", "verdict", "kept"] {
        assert!(printed.contains(word), "{word}: {printed}");
    }
    assert_eq!(room.files(), before);
}

#[test]
fn archives_do_not_depend_on_threads() {
    let room = Room::new();
    room.ok(&["gen", "turbulence", "t_40x50x60.f32"]);
    let archive = |threads: &str| {
        room.ok(&["compress", "t_40x50x60.f32", "t.bmg", "--rel-range", "1e-3", "--overwrite", "--threads", threads]);
        room.read("t.bmg")
    };
    let one = archive("1");
    assert_eq!(one, archive("2"));
    assert_eq!(one, archive("7"));
    let report = room.json(&["compress", "t_40x50x60.f32", "t.bmg", "--abs", "1", "--overwrite", "--threads", "3", "--json"]);
    assert_eq!(report["threads"], 3);
    // Before the command or after it.
    room.ok(&["--threads", "2", "decompress", "t.bmg", "t.raw"]);
}

#[test]
fn settings_reach_the_archive() {
    let room = Room::new();
    room.ok(&["gen", "turbulence", "t_64x40x48.f32"]);
    let inspect = |settings: &[&str]| {
        room.ok(&[&["compress", "t_64x40x48.f32", "t.bmg", "--rel-range", "1e-3", "--overwrite"], settings].concat());
        room.ok(&["decompress", "t.bmg", "t.raw", "--overwrite"]);
        room.ok(&["compare", "t_64x40x48.f32", "t.raw", "--rel-range", "1e-3"]);
        room.json(&["inspect", "t.bmg", "--json"])
    };
    let levels = inspect(&["--local-levels", "2", "--global-levels", "1"]);
    assert_eq!((&levels["local_levels"], &levels["global_levels"]), (&2.into(), &1.into()));
    let none = inspect(&["--local-levels", "0", "--global-levels", "0"]);
    assert_eq!((&none["local_levels"], &none["global_levels"]), (&0.into(), &0.into()));
    let paper = inspect(&["--mode", "paper", "--backend", "cpu"]);
    assert_eq!((&paper["local_levels"], &paper["global_levels"]), (&1.into(), &2.into()));
    let fast = inspect(&["--mode", "fast", "--tile", "4x32x32"]);
    assert_eq!(
        (&fast["mode"], &fast["tile"], &fast["basis"], &fast["coder"]),
        (&"fast".into(), &"4x32x32".into(), &"interpolation".into(), &"rice".into())
    );
    assert_eq!(fast["chunks"][0]["classes"].as_array().unwrap().len(), 7 * 2 + 3 * 3);
    let size = |settings: &[&str]| inspect(settings)["compressed_bytes"].as_u64().unwrap();
    assert!(size(&["--mode", "fast"]) < size(&["--mode", "paper"]));
    let sizes = ["tight", "rigorous", "mgard"].map(|budget| size(&["--error-budget", budget]));
    assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2], "{sizes:?}");
    let chunked = inspect(&["--chunk-bytes", "128K"]);
    let chunks = chunked["chunks"].as_array().unwrap();
    assert!(chunks.len() > 1, "{chunked}");
    assert_eq!(inspect(&["--chunk-bytes", "131072"])["chunks"].as_array().unwrap().len(), chunks.len());
    assert_eq!(inspect(&[])["chunks"].as_array().unwrap().len(), 1);
}

#[test]
fn cuda_answers_or_says_why_not() {
    let room = Room::new();
    let devices = room.json(&["devices", "--json"]);
    if devices["devices"].as_array().unwrap().is_empty() {
        assert!(devices["reason"].is_string(), "{devices}");
        assert!(room.ok(&["devices"]).contains("no CUDA device"));
    }
    let args = ["compress", F32, "c.bmg", "--abs", "1e-3", "--backend", "cuda"];
    if room.run(&args).status.success() {
        assert_eq!(room.read("c.bmg"), room.read("a.bmg"));
        room.ok(&["decompress", "a.bmg", "cuda.raw", "--backend", "cuda"]);
        room.ok(&["decompress", "a.bmg", "cpu.raw", "--backend", "cpu"]);
        assert_eq!(room.read("cuda.raw"), room.read("cpu.raw"));
    } else {
        room.fails(&args, FAILED, "cuda");
        room.fails(&["decompress", "a.bmg", "c.raw", "--backend", "cuda"], FAILED, "cuda");
    }
}

#[test]
fn generated_fields_are_reproducible() {
    let room = Room::new();
    let gen_bytes = |args: &[&str]| {
        room.ok(&[&["gen", "turbulence", "g_12x13x14.f32", "--overwrite"], args].concat());
        room.read("g_12x13x14.f32")
    };
    let first = gen_bytes(&[]);
    assert_eq!(first.len(), 12 * 13 * 14 * 4);
    assert_eq!(first, gen_bytes(&["--threads", "1", "--seed", "0"]));
    assert_ne!(first, gen_bytes(&["--seed", "1"]));
    room.fails(&["gen", "waves", "x.f32"], USAGE, "--shape");
    room.fails(&["gen", "waves", "x_3x4"], USAGE, "--dtype");
    room.fails(&["gen", "waves", "x_3x4.f32", "--seed", "x"], USAGE, "--seed");
    // Flags come before names.
    room.ok(&["gen", "ramp", "r_3x4.f32", "--shape", "5", "--dtype", "f64"]);
    assert_eq!(f64s(&room.read("r_3x4.f32")), [1.0, 2.0, 3.0, 4.0, 5.0]);
}
