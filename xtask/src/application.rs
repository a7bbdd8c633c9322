//! An application outside the workspace: it builds and runs with no more than the README tells it to add.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, lines};
use crate::{root, target_dir};

/// The one line that an application with the feature `cuda` adds.
const SETTINGS: &str = ".cargo/config.toml";

/// `test-application`: builds and runs `tests/application` without and with the feature `cuda`, in a folder where the workspace's
/// settings do not apply: cargo reads `.cargo/config.toml` of all folders above the one that it runs in.
pub fn test() -> Result<Vec<String>> {
    let folder = Folder::new()?;
    let application = folder.0.join("application");
    fs::create_dir_all(application.join("src"))?;
    let manifest = copy(&application, "Cargo.toml")?;
    copy(&application, "src/main.rs")?;
    // The versions that the workspace's tests run with; cargo drops what the application does not use.
    fs::copy(root().join("Cargo.lock"), application.join("Cargo.lock"))?;
    let mut results = vec![run(&application, &[])?];
    let settings = copy(&application, SETTINGS)?;
    results.push(run(&application, &["--features", "cuda"])?);

    let readme = fs::read_to_string(root().join("README.md"))?;
    let dependency = manifest.lines().find(|line| line.starts_with("bmgard = ")).context("the application depends on bmgard")?;
    for line in [dependency, settings.trim_end()] {
        if !readme.contains(line) {
            bail!("README.md does not show the line `{line}`, which the application has");
        }
    }
    Ok(results)
}

/// A folder that holds a link to the repository, `bmgard`, and is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("bmgard-application-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let folder = Self(folder.canonicalize()?);
        if let Some(above) = folder.0.ancestors().find(|above| above.join(".cargo/config.toml").exists()) {
            bail!("{} lies below {}, which has settings of cargo: name another TMPDIR", folder.0.display(), above.display());
        }
        std::os::unix::fs::symlink(root(), folder.0.join("bmgard"))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Copies a file of the application, with the paths to the repository that hold in its new place; returns the text.
fn copy(application: &Path, file: &str) -> Result<String> {
    let from = root().join("tests/application").join(file);
    let text = fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?.replace("\"../../", "\"../bmgard/");
    let to = application.join(file);
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::write(to, &text)?;
    Ok(text)
}

/// Runs the application; returns what it says.
fn run(application: &Path, features: &[&str]) -> Result<String> {
    let mut said = String::new();
    let mut command = cargo();
    command.args(["run", "--quiet"]).args(features).current_dir(application);
    // Cargo sets this for xtask, and would find it in the environment.
    command.env_remove("CUDA_LIBRARY_PATH").env("CARGO_TARGET_DIR", target_dir().join("application"));
    lines(&mut command, |line| said += line)?;
    println!("{said}");
    if !said.starts_with("backend ") {
        bail!("the application did not say what it did");
    }
    let with = if features.is_empty() { "without" } else { "with" };
    Ok(format!("{with} the feature `cuda`: {said}"))
}
