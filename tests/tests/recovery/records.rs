//! Records, and the lives that begin with them.
