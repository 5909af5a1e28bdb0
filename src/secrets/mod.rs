//! Secrets of a tenant, by name: what its sources, gateways and tools authenticate with (provenance, "Sources").
//!
//! What always holds:
//!
//! * a secret is encrypted before it comes to the database, under a key that the database never sees, and bound to its
//!   tenant and its name: moved to another row it cannot be opened;
//! * once stored it is shown to no caller; only [`ops::reveal`] opens it, for a request to another host;
//! * no `Debug` text and no error holds a secret or a key.
//!
//! Deliberately absent: versions of a secret, and scopes narrower than the tenant.

pub mod api;
pub mod keys;
pub mod name;
pub mod ops;
mod store;
