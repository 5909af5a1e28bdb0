//! The API, through the real server against a real Postgres; one file a feature.

mod catalogue;
mod filters;
mod idempotency;
mod large_bodies;
mod openapi;
mod oracle;
mod plans;
mod problems;
mod provenance;
mod query;
mod service;
mod sessions;
#[allow(dead_code, reason = "each feature's tests use a part of it")]
mod support;
mod tenancy;
mod tenants;
