//! A key for an agent.

use std::io;
use std::path::Path;

use buzz_adapters::keys::{SecretKey, npub};
use serde_json::json;

use crate::args::KeygenArgs;
use crate::exit::Failure;
use crate::ui::Ui;

/// Makes a key, keeps it in a file or shows it, and says who it is.
pub(crate) fn run(args: &KeygenArgs, ui: Ui) -> Result<(), Failure> {
    let key = SecretKey::generate().map_err(Failure::other)?;
    let public = key.public_key();
    let (npub, hex) = (npub(&public), public.to_string());
    if let Some(path) = &args.out {
        key.write_file(path)
            .map_err(|error| not_written(path, &error))?;
        ui.line(format_args!(
            "the private key is in {}, readable by you alone; keep a copy in a safe place",
            path.display()
        ));
    }
    // The key itself is shown only where it is kept nowhere else.
    let secret = args.out.is_none().then(|| key.nsec());
    let secret = secret.as_ref().map(|nsec| nsec.as_str());
    let shown = if ui.is_json() {
        let mut object = json!({"npub": npub, "public_key": hex});
        if let Some(secret) = secret {
            object["nsec"] = secret.into();
        }
        ui.out(object)
    } else {
        let lines = secret.into_iter().chain([npub.as_str(), hex.as_str()]);
        lines.into_iter().try_for_each(|line| ui.out(line))
    };
    shown.map_err(|error| Failure::other(format!("standard output cannot be written: {error}")))
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::settings(if error.kind() == io::ErrorKind::AlreadyExists {
        format!("{path} exists and may hold the only copy of a key: choose another name")
    } else {
        format!("the key cannot be written to {path}: {error}")
    })
}
