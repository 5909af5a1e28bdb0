//! Requests to other hosts.

use std::sync::Once;

/// Chooses who does the cryptography of TLS, for the whole process; without it no client can be built. May be called
/// any number of times.
pub fn install_tls() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Fails where the process has chosen already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
