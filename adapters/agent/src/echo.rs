//! A worker that answers with what it was asked, for trying things out.

use std::io;

use crate::exit::Failure;

/// Speaks ACP on stdin and stdout until stdin ends.
pub(crate) fn run() -> Result<(), Failure> {
    match buzz_adapters::acp::echo::run(io::stdin().lock(), io::stdout().lock()) {
        // Whoever started it has gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| {
            let text = format!("the echo worker lost its standard streams: {error}");
            Failure::other(text)
        }),
    }
}
