//! What the document says of the API as a whole: its tags in the order of the work, where it is served, and who may call.

use serde_json::{Value, json};

/// The name of a tag, what people read, and what is below it, in two sentences.
const TAGS: &[(&str, &str, &str)] = &[
    (
        "slates",
        "Slates and files",
        "A slate is a tree of folders with files in it; a file has immutable versions, byte for byte, and typed metatags. \
         Write them one at a time, many at once or as an archive, and browse them by path.",
    ),
    (
        "queries",
        "Queries",
        "A request asks for files by name, by metatag, by name pattern or by a tree of tests, and gets their union, the same \
         for the same question every time. Facets tell which metatags there are to ask for.",
    ),
    (
        "sessions",
        "Sessions",
        "A session is one bounded retrieval loop for one task of a model: it never gives a file twice, ends after \
         `maxRounds` rounds, and survives restarts. The caller plays the rounds, or the service runs them against a model \
         itself.",
    ),
    (
        "provenance",
        "Provenance",
        "Every answer with contents is on record: which versions, which hashes, why each matched. The records of a session \
         are chained and sealed, and can be verified at any time.",
    ),
    (
        "retrieve",
        "Retrieve and citations",
        "`retrieve` fetches one identified thing of a slate, the web, a registered API or a database, with all that is needed \
         to trust it. A citation brings exactly the cited bytes again, and a quote is checked against them.",
    ),
    (
        "corpora",
        "Corpora and tools",
        "The catalogue holds corpora to search, routes that pack them into sessions, and capabilities that sessions call as \
         tools. The gateway searches the corpora that lie in slates.",
    ),
    (
        "administration",
        "Administration",
        "The operator makes tenants and their keys, with the operator token. A tenant's admin sets its settings, and registers \
         sources and the secrets that they need.",
    ),
    ("service", "Service", "Health, metrics and this document. None of them asks for a key."),
];

/// Adds it to the document.
pub fn add(document: &mut Value) {
    let tag = |(name, title, description): &(&str, &str, &str)| json!({"name": name, "x-displayName": title, "description": description});
    document["tags"] = TAGS.iter().map(tag).collect();
    document["servers"] = json!([
        {"url": "/", "description": "The service that gives this document"},
        {"url": "http://127.0.0.1:8080", "description": "A service on this machine, as it listens by default"},
    ]);
    document["info"]["license"] = json!({"name": "Apache-2.0", "identifier": "Apache-2.0"});
    document["components"]["securitySchemes"] = json!({"token": {"type": "http", "scheme": "bearer",
        "description": "An API key of a tenant, `slb_<tenant number>_<key id>_<secret>`, or the operator token. A key has \
                        scopes: `read` is for what reads slates, `write` for what changes them, `retrieve` for queries, \
                        sessions, `retrieve`, citations and the gateway, `admin` for settings, the catalogue and sources."}});
}
