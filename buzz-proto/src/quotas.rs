//! The quotas of a relay.
