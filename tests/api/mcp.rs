//! The Model Context Protocol over HTTP.

mod client;
mod edge;
mod resources;
mod rounds;
mod tools;
