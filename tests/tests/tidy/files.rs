//! The text files that belong to the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file of the workspace.
pub(crate) struct TextFile {
    /// Path from the root of the workspace, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every file that git tracks or would track, or, outside a checkout, every file on disk.
/// Binary files and files that are deleted but still in the index are left out.
pub(crate) fn tracked() -> Vec<TextFile> {
    let root = root();
    let mut paths = listed_by_git(&root).unwrap_or_else(|| walked(&root));
    paths.sort();
    let read = |path: String| {
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(TextFile { path, text })
    };
    paths.into_iter().filter_map(read).collect()
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the suites live one folder below the root of the workspace")
        .to_owned()
}

/// New files count too, so that a breach shows before it is committed.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = listing
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    // An unpacked archive inside somebody else's checkout is ignored there and lists nothing.
    (!paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !is_folder {
                found.extend(relative(root, &path));
            } else if !is_built(&name.to_string_lossy()) {
                folders.push(path);
            }
        }
    }
    found
}

fn relative(root: &Path, path: &Path) -> Option<String> {
    let parts = path.strip_prefix(root).ok()?.components();
    let names: Vec<_> = parts
        .map(|part| part.as_os_str().to_string_lossy())
        .collect();
    Some(names.join("/"))
}

fn is_built(folder: &str) -> bool {
    matches!(
        folder,
        ".git" | "target" | "node_modules" | ".venv" | "__pycache__"
    )
}

#[test]
fn the_walk_without_git_finds_what_git_lists() {
    let root = root();
    let Some(listed) = listed_by_git(&root) else {
        return;
    };

    let walked = walked(&root);

    let missing: Vec<&String> = listed
        .iter()
        .filter(|path| root.join(path).is_file() && !walked.contains(path))
        .collect();
    assert!(missing.is_empty(), "not walked: {missing:?}");
}

#[test]
fn build_output_is_not_walked() {
    assert!(is_built("target"));
    assert!(!is_built("tests"));
    assert!(!walked(&root()).iter().any(|path| path.starts_with(".git/")));
}
