//! Slatebase: a multi-tenant store of knowledge that LLM agents read deterministically.
#![warn(missing_docs)]

pub mod app;
pub mod authority;
pub mod cli;
pub mod config;
pub mod ctx;
pub mod db;
pub mod error;
pub mod files;
pub mod folders;
pub mod hex;
pub mod http;
pub mod idempotency;
pub mod item;
pub mod metatags;
pub mod path;
pub mod precondition;
pub mod provenance;
pub mod retrieval;
pub mod sessions;
pub mod slates;
pub mod tenants;
pub mod yaml;
