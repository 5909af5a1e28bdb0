//! Slatebase: a multi-tenant store of knowledge that LLM agents read deterministically.
//!
//! # The code map
//!
//! A folder is a feature, and a feature is a column: wire (`api`), use case (`ops`), plain data and decisions (all other
//! files), SQL (`store`), in that order down. `tests/tidy.rs` proves who may import what.
//!
//! | module | what |
//! |---|---|
//! | [`cli`] | the subcommands of the binary |
//! | [`config`], [`app`] | one configuration, and what every front door stands on |
//! | [`http`] | callers, problems, pages, conditions, idempotency, the API document, the running server |
//! | [`tenants`], [`idempotency`] | who calls, and what a call that is sent twice is answered |
//! | [`slates`], [`folders`], [`files`], [`metatags`] | the store of knowledge |
//! | [`archives`] | archives loaded into a slate, and a slate as an archive |
//! | [`passages`] | the files of published corpora, cut into passages and searched |
//! | [`retrieval`] | a request, compiled to one search a mode; their union, within budgets |
//! | [`corpora`], [`routes`], [`tools`] | the catalogue: what is packed before a model speaks, and what it may call |
//! | [`sessions`] | the bounded loop of a model, as a pure state machine over durable rounds |
//! | [`runs`] | loops that the service runs itself, and watching any session |
//! | [`capability`] | `retrieve`: one thing of a file, the web, an API or a database; citations and quotes |
//! | [`provenance`] | the record of every response, chained, sealed, and verified |
//! | [`outbound`] | requests to other hosts |
//! | [`mcp`] | the Model Context Protocol: slates as tools and resources, and a session as a server of its own |
//! | [`maintenance`] | shedding what nobody needs any more |
//! | [`db`] | the doors to a connection, migrations, roles, and the embedded Postgres |
//! | [`ctx`], [`error`], [`path`], [`item`], [`authority`], [`precondition`], [`yaml`], [`schema`], [`given`], [`hex`] | plain types and functions that every feature may use |
//!
//! Features import downward only: provenance, metatags, slates, folders, files, retrieval, corpora, routes,
//! sessions, tools, runs, lowest first. What takes more than one transaction, such as a request to another host between two, is
//! in a feature's `runner`.
//!
//! # What always holds
//!
//! 1. One door: [`db::Db::tenant`] opens a transaction and sets its tenant, for that transaction alone. The role that it runs
//!    as owns no table and cannot bypass row-level security; the server refuses to start as one that can.
//! 2. The database holds every invariant that it can: foreign keys that carry the tenant, unique constraints, checks, and
//!    revoked privileges on what is only ever appended to.
//! 3. What a session does is decided by a pure function, and its state commits together with what came of it.
//! 4. Whatever leaves through a front door has its provenance record written in the same transaction.
//! 5. A mode compiles a request into one SQL search. Files are never matched in the application.
//!
//! # Deliberately absent
//!
//! Similarity search, triggers, caches of results, passwords of people, and anything that shortens content in silence.
#![warn(missing_docs)]

pub mod app;
pub mod archives;
pub mod authority;
pub mod capability;
pub mod cli;
pub mod config;
pub mod corpora;
pub mod ctx;
pub mod db;
pub mod error;
pub mod files;
pub mod folders;
pub mod given;
pub mod hex;
pub mod http;
pub mod idempotency;
pub mod item;
pub mod maintenance;
pub mod mcp;
pub mod metatags;
pub mod outbound;
pub mod passages;
pub mod path;
pub mod precondition;
pub mod provenance;
pub mod retrieval;
pub mod routes;
pub mod runs;
pub mod schema;
pub mod secrets;
pub mod sessions;
pub mod slates;
pub mod tenants;
pub mod tools;
pub mod yaml;
