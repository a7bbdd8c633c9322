#![doc = include_str!("../README.md")]

mod device;
mod ir;
mod ptx;
mod toolchain;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use ptx::{NarrowStore, launch_bounds, unsafe_narrow_stores};
pub use toolchain::{Toolchain, Versions};

/// The target that rustc compiles kernels for.
const TARGET: &str = "nvptx64-nvidia-cuda";

/// The MIR pass that must not run, as the flag that every crate of a kernel build gets.
///
/// JumpThreading knows nothing of convergence: it copies barriers and warp votes into the arms of a branch, where only some threads reach each copy.
pub const NO_JUMP_THREADING: &str = "-Zmir-enable-passes=-JumpThreading";

/// Why a build of kernels failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder given has no `Cargo.toml`.
    #[error("no kernel crate at {}: it has no Cargo.toml", .0.display())]
    NoCrate(PathBuf),
    /// Programs of the kernel toolchain are absent or do not fit together.
    #[error("the kernel toolchain is not complete: {}", .0.join("; "))]
    Toolchain(Vec<String>),
    /// A program could not be started or its output not be read.
    #[error("cannot run {program}")]
    Run {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ended with an error; it has said why on standard error.
    #[error("{program} failed ({status}){}{stderr}", if .stderr.is_empty() { "" } else { ":\n" })]
    Failed {
        /// The program.
        program: String,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What it wrote to standard error, where that was not shown already.
        stderr: String,
    },
    /// A file of the build could not be read or written.
    #[error("cannot access {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A crate was compiled without [`NO_JUMP_THREADING`].
    #[error("crate `{0}` was compiled without {NO_JUMP_THREADING}: its barriers and warp votes cannot be trusted")]
    JumpThreading(String),
    /// The compiled module is not what the builder expects of a kernel crate.
    #[error("{0}")]
    Module(String),
    /// The PTX would be miscompiled or cannot be launched.
    #[error("{0}")]
    Ptx(String),
}

/// The compute capability that kernels are built for; later ones run them too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NvvmArch {
    /// 8.0: A100 and later. The lowest that has the warp reductions of `cuda_std`.
    #[default]
    Compute80,
    /// 8.6: GeForce 30 and later.
    Compute86,
    /// 8.9: GeForce 40 and later.
    Compute89,
    /// 9.0: H100 and later.
    Compute90,
}

impl NvvmArch {
    /// The name that compilers use: `sm_80`.
    pub fn target_cpu(self) -> &'static str {
        match self {
            NvvmArch::Compute80 => "sm_80",
            NvvmArch::Compute86 => "sm_86",
            NvvmArch::Compute89 => "sm_89",
            NvvmArch::Compute90 => "sm_90",
        }
    }
}

/// What a build made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuiltPtx {
    /// The PTX.
    pub ptx: String,
    /// The kernels in it, in its order.
    pub kernels: Vec<String>,
    /// What compiled it.
    pub versions: Versions,
    /// Where it lies.
    pub path: PathBuf,
}

/// Builds a kernel crate; see the crate's documentation.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    path: PathBuf,
    arch: NvvmArch,
    copy_to: Option<PathBuf>,
    target_dir: Option<PathBuf>,
    locked: bool,
    toolchain: Toolchain,
}

impl CudaBuilder {
    /// A builder of the crate whose `Cargo.toml` lies in `path`.
    pub fn new(path: impl AsRef<Path>) -> Self {
        CudaBuilder {
            path: path.as_ref().to_owned(),
            arch: NvvmArch::default(),
            copy_to: None,
            target_dir: None,
            locked: false,
            toolchain: Toolchain::from_env(),
        }
    }

    /// The compute capability to build for.
    pub fn arch(mut self, arch: NvvmArch) -> Self {
        self.arch = arch;
        self
    }

    /// Where to copy the PTX when it is built.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.copy_to = Some(path.as_ref().to_owned());
        self
    }

    /// Where compilers put their files; by default `target` in the crate's folder.
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Whether the build fails where `Cargo.lock` would have to change.
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// The programs to build with, instead of Debian's and those that the environment names.
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = toolchain;
        self
    }

    /// Builds the PTX. What cargo says (diagnostics included) goes to standard error.
    pub fn build(self) -> Result<BuiltPtx, Error> {
        let versions = self.toolchain.versions()?;
        if !self.path.join("Cargo.toml").is_file() {
            return Err(Error::NoCrate(self.path));
        }
        let root = absolute(&self.path)?;
        let target_dir = match &self.target_dir {
            Some(path) => absolute(path)?,
            None => root.join("target"),
        };
        let work = target_dir.join("cuda_builder");
        fs::create_dir_all(&work).map_err(|source| Error::File { path: work.clone(), source })?;

        let bitcode = self.compile(&root, &target_dir)?;
        let text = run(Command::new(&self.toolchain.llvm_dis).arg(&bitcode).args(["-o", "-"]))?;
        let module = ir::Module::parse(&text).map_err(Error::Module)?;
        let kernels = write(work.join("kernels.ll"), &module.annotated(&text))?;
        let device = write(work.join("device.ll"), &device::module(&module))?;

        let linked = work.join("linked.bc");
        run(Command::new(&self.toolchain.llvm_link).args([&kernels, &device]).arg("-o").arg(&linked))?;
        let optimised = work.join("optimised.bc");
        let keep = format!("--internalize-public-api-list={}", module.kernel_names().join(","));
        run(Command::new(&self.toolchain.opt).arg("--passes=internalize,default<O3>").arg(keep).arg(&linked).arg("-o").arg(&optimised))?;
        let cpu = format!("-mcpu={}", self.arch.target_cpu());
        let raw = run(Command::new(&self.toolchain.llc).args(["-O3", &cpu]).arg(&optimised).args(["-o", "-"]))?;
        write(work.join("unfixed.ptx"), &raw)?;

        let ptx = ptx::finish(&raw, &versions, &module).map_err(Error::Ptx)?;
        let mut path = write(work.join("kernels.ptx"), &ptx)?;
        if let Some(copy) = &self.copy_to {
            path = write(copy.clone(), &ptx)?;
        }
        let kernels = module.kernel_names();
        Ok(BuiltPtx { ptx, kernels, versions, path })
    }

    /// Compiles the crate and all that it depends on to one module of bitcode, and returns its path.
    fn compile(&self, root: &Path, target_dir: &Path) -> Result<PathBuf, Error> {
        let bitcode = target_dir.join(TARGET).join("release").join("deps").join("cuda_builder_kernels.bc");
        let mut command = self.cargo(root, target_dir, &bitcode);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let program = self.toolchain.cargo.clone();
        let mut child = spawned.map_err(|source| Error::Run { program: program.clone(), source })?;
        let mut unflagged = None;
        for line in BufReader::new(child.stderr.take().expect("stderr is piped")).lines() {
            let line = line.map_err(|source| Error::Run { program: program.clone(), source })?;
            match LogLine::of(&line) {
                LogLine::Compiled { krate, flagged: false } => unflagged = Some(krate.to_owned()),
                LogLine::Compiled { .. } | LogLine::Detail => {}
                LogLine::Message => eprintln!("{line}"),
            }
        }
        let status = child.wait().map_err(|source| Error::Run { program: program.clone(), source })?;
        if !status.success() {
            return Err(Error::Failed { program: program.display().to_string(), status, stderr: String::new() });
        }
        match unflagged {
            Some(krate) => Err(Error::JumpThreading(krate)),
            None => Ok(bitcode),
        }
    }

    /// The call of cargo that compiles the kernels.
    fn cargo(&self, root: &Path, target_dir: &Path, bitcode: &Path) -> Command {
        let mut command = Command::new(&self.toolchain.cargo);
        command.current_dir(root);
        // Whoever calls may itself run under cargo and rustup, for another compiler: nothing of theirs may reach this one.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let foreign = ["CARGO", "RUST", "DEP_", "LD_LIBRARY_PATH", "DYLD_"].iter().any(|prefix| name.starts_with(prefix));
            if foreign && !["CARGO_HOME", "CARGO_NET_OFFLINE", "CARGO_HTTP_CAINFO", "RUSTUP_HOME"].contains(&&*name) {
                command.env_remove(&*name);
            }
        }
        command
            .env("RUSTC", &self.toolchain.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags().join("\x1f"))
            .args([
                "rustc",
                "--release",
                "--lib",
                "--crate-type",
                "cdylib",
                "--verbose",
                "-Zbuild-std=core",
                "--target",
                TARGET,
                "--target-dir",
            ])
            .arg(target_dir);
        if self.locked {
            command.arg("--locked");
        }
        command.arg("--").arg(format!("--emit=llvm-bc={}", bitcode.display())).arg("-Zno-link");
        command
    }

    /// The flags of every crate compiled for the device. What follows `--` on cargo's command line reaches the last crate only, so they do not go there.
    fn rustflags(&self) -> [String; 4] {
        [
            format!("-Ctarget-cpu={}", self.arch.target_cpu()),
            NO_JUMP_THREADING.to_owned(),
            // `cuda_std` refuses to compile without it.
            "--cfg=cuda_builder".to_owned(),
            // Panics do not say where they are: the PTX must not depend on the folder of the build.
            "-Zlocation-detail=none".to_owned(),
        ]
    }
}

/// What a line of `cargo --verbose` is to the builder.
#[derive(Debug, PartialEq, Eq)]
enum LogLine<'a> {
    /// A crate compiled for the device, and whether it got [`NO_JUMP_THREADING`].
    Compiled { krate: &'a str, flagged: bool },
    /// Other detail that only `--verbose` shows.
    Detail,
    /// What cargo says to people.
    Message,
}

impl LogLine<'_> {
    fn of(line: &str) -> LogLine<'_> {
        let detail = ["Running `", "Fresh ", "Dirty "].iter().any(|start| line.trim_start().starts_with(start));
        if !detail {
            return LogLine::Message;
        }
        let mut words = line.split_whitespace();
        if !line.contains(&format!("--target {TARGET}")) {
            return LogLine::Detail;
        }
        let krate = words.find(|&word| word == "--crate-name").and_then(|_| words.next());
        match krate {
            Some(krate) => LogLine::Compiled { krate, flagged: line.contains(NO_JUMP_THREADING) },
            None => LogLine::Detail,
        }
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

fn write(path: PathBuf, text: &str) -> Result<PathBuf, Error> {
    match fs::write(&path, text) {
        Ok(()) => Ok(path),
        Err(source) => Err(Error::File { path, source }),
    }
}

/// Runs a command to its end and returns what it wrote to standard output.
fn run(command: &mut Command) -> Result<String, Error> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).output().map_err(|source| Error::Run { program: program.clone(), source })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        return Err(Error::Failed { program: program.display().to_string(), status: output.status, stderr });
    }
    String::from_utf8(output.stdout).map_err(|e| Error::Run { program, source: std::io::Error::other(e) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_crate_gets_the_flag() {
        let builder = CudaBuilder::new("kernels");
        let command = builder.cargo(Path::new("/src/kernels"), Path::new("/out"), Path::new("/out/k.bc"));
        let flags = command.get_envs().find(|(name, _)| *name == "CARGO_ENCODED_RUSTFLAGS").and_then(|(_, value)| value).unwrap();
        assert!(flags.to_str().unwrap().split('\x1f').any(|flag| flag == NO_JUMP_THREADING));
    }

    #[test]
    fn a_crate_compiled_without_the_flag_is_noticed() {
        let line = format!(
            "     Running `/usr/bin/rustc --crate-name core --edition=2024 --target {TARGET} -Ctarget-cpu=sm_80 {NO_JUMP_THREADING}`"
        );
        assert_eq!(LogLine::of(&line), LogLine::Compiled { krate: "core", flagged: true });
        let line = line.replace(NO_JUMP_THREADING, "");
        assert_eq!(LogLine::of(&line), LogLine::Compiled { krate: "core", flagged: false });
        assert_eq!(LogLine::of("     Running `/usr/bin/rustc --crate-name syn --edition=2021`"), LogLine::Detail);
        assert_eq!(LogLine::of("       Fresh syn v2.0.0"), LogLine::Detail);
        assert_eq!(LogLine::of("warning: unused variable: `x`"), LogLine::Message);
    }

    #[test]
    fn a_folder_without_a_crate_is_an_error() {
        if Toolchain::from_env().versions().is_err() {
            eprintln!("skipped: the kernel toolchain is not installed");
            return;
        }
        assert!(matches!(CudaBuilder::new("/nonexistent").build(), Err(Error::NoCrate(_))));
    }
}
