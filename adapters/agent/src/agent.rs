//! An agent with workers, and the runtime it lives on.

use std::sync::Arc;

use buzz_adapters::acp::{AcpPool, AcpSettings, Facts, Workers};
use buzz_adapters::connect::{Handle, RecordTo, Report, Setup, connect};
use buzz_adapters::keep::Keeper;
use buzz_adapters::keys::SecretKey;
use buzz_adapters::runtime::Processes;
use buzz_adapters::sign::{Attestation, LocalSigner};
use buzz_adapters::tls::Tls;
use buzz_adapters::url::RelayUrl;
use buzz_adapters::verify::LocalVerifier;
use buzz_proto::config::Config;
use buzz_proto::schedule::Input;
use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// What an agent is made of.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) url: RelayUrl,
    pub(crate) tls: Tls,
    pub(crate) key: SecretKey,
    pub(crate) attestation: Option<Attestation>,
    pub(crate) worker: AcpSettings,
    pub(crate) keeper: Option<Box<dyn Keeper>>,
    pub(crate) record: Option<RecordTo>,
}

impl Parts {
    /// Starts the agent on a runtime, from within it. `look` sees what the workers tell, `report` takes
    /// what the agent tells; neither may block. The agent ends with its handle.
    ///
    /// # Errors
    /// When a setting cannot work.
    pub(crate) fn start<R: Processes>(
        self,
        look: impl Fn(&Input) + Send + Sync + 'static,
        report: impl FnMut(Report) + Send + 'static,
    ) -> Result<Handle<R>, Failure> {
        let worker = self.worker;
        let workers = move |facts: Facts| -> Box<dyn Workers> {
            let facts = move |fact| {
                look(&fact);
                facts(fact);
            };
            Box::new(AcpPool::<R>::new(worker, facts))
        };
        let setup = Setup {
            config: self.config,
            url: self.url,
            tls: self.tls,
            signer: Arc::new(LocalSigner::new(self.key)),
            verifier: Arc::new(LocalVerifier),
            attestation: self.attestation,
            workers: Some(Box::new(workers)),
            keeper: self.keeper,
            record: self.record,
            report: Box::new(report),
        };
        // With workers nobody else takes events, so the stream is not needed.
        let (handle, _no_events) = connect::<R>(setup).map_err(Failure::settings)?;
        Ok(handle)
    }
}

/// The runtime of a whole program.
pub(crate) fn start_runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("there is no runtime: {error}")))
}
