//! The first results of POSTs, kept for a day (REST contract, "Writing safely").
//!
//! A key belongs to the API key that sent it. Its first call takes a lease, which is committed before the work begins;
//! the result is kept once the work is done. Whoever dies in between leaves a lease that ends, and then the key is free
//! again. What holds always:
//!
//! * one call at a time works under a key: the lease is the fence, and a call that lost it keeps nothing;
//! * a secret is never kept, only that it was shown.

mod key;
pub mod ops;
mod store;

pub use key::{KEPT_HOURS, Key, LEASE_SECONDS, Outcome, fingerprint};
