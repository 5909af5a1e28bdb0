//! Tenants, their API keys and their settings (REST contract, "Operator" and "Slates").
//!
//! What always holds: of a key's secret only the SHA-256 is stored, and its token is shown once, in the answer to its
//! making; a revoked key opens nothing from that moment on; a tenant always has a row of settings.
//!
//! Deliberately absent: renaming a tenant, and changing a key. Make another and revoke the old one.

pub mod api;
pub mod ops;
pub mod secret;
pub mod settings;
mod store;
pub mod tenant;
