//! The API, through the real server against a real Postgres; one file a feature.

mod archives;
mod bulk;
mod capability;
mod catalog;
mod catalogue;
mod facets;
mod files;
mod filters;
mod folders;
mod gateway;
mod history;
mod idempotency;
mod large_bodies;
mod maintenance;
mod metatags;
mod nasty;
mod openapi;
mod oracle;
mod outbound;
mod plans;
mod prefetch;
mod problems;
mod provenance;
mod query;
mod runs;
mod secrets;
mod service;
mod sessions;
mod slates;
#[allow(dead_code, reason = "each feature's tests use a part of it")]
mod support;
mod tenancy;
mod tenants;
mod tools;
