// @generated automatically by Diesel CLI.

pub mod sql_types {
    #[derive(diesel::sql_types::SqlType)]
    #[diesel(postgres_type(name = "tsvector", schema = "pg_catalog"))]
    pub struct Tsvector;
}

diesel::table! {
    api_keys (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        label -> Text,
        secret_sha256 -> Bytea,
        scopes -> Array<Nullable<Text>>,
        slates -> Nullable<Array<Nullable<Text>>>,
        created_at -> Timestamptz,
        expires_at -> Nullable<Timestamptz>,
        revoked_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    blobs (tenant_id, sha256) {
        tenant_id -> Int8,
        sha256 -> Bytea,
        data -> Bytea,
    }
}

diesel::table! {
    catalog_versions (tenant_id, kind, id, version) {
        tenant_id -> Int8,
        kind -> Text,
        id -> Text,
        version -> Text,
        document -> Json,
        status -> Text,
        revision -> Int8,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    corpora (tenant_id, id) {
        tenant_id -> Int8,
        id -> Text,
        document -> Json,
        status -> Text,
        slate -> Nullable<Text>,
        folder -> Nullable<Text>,
        revision -> Int8,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        collection -> Text,
    }
}

diesel::table! {
    file_ids (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        slate_id -> Int8,
        created_at -> Timestamptz,
        deleted_at -> Nullable<Timestamptz>,
        hidden -> Bool,
    }
}

diesel::table! {
    file_tags (tenant_id, folder_id, name) {
        tenant_id -> Int8,
        file_id -> Int8,
        slate_id -> Int8,
        folder_id -> Int8,
        name -> Text,
        path -> Text,
        hidden -> Bool,
        tags -> Jsonb,
        term_ids -> Array<Nullable<Int8>>,
        revision -> Int8,
        of_source -> Nullable<Jsonb>,
    }
}

diesel::table! {
    file_versions (tenant_id, file_id, version) {
        tenant_id -> Int8,
        slate_id -> Int8,
        path -> Text,
        version -> Int8,
        file_id -> Int8,
        sha256 -> Bytea,
        size -> Int8,
        media_type -> Text,
        is_text -> Bool,
        source_modified_at -> Nullable<Timestamptz>,
        source_version -> Nullable<Text>,
        created_at -> Timestamptz,
        purged_at -> Nullable<Timestamptz>,
        blob -> Nullable<Bytea>,
    }
}

diesel::table! {
    files (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        slate_id -> Int8,
        folder_id -> Int8,
        name -> Text,
        path -> Text,
        size -> Int8,
        version -> Int8,
        sha256 -> Bytea,
        media_type -> Text,
        is_text -> Bool,
        authority -> Nullable<Text>,
        sensitive -> Bool,
        hidden -> Bool,
        revision -> Int8,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        nfc -> Nullable<Text>,
        modified_at -> Timestamptz,
        data -> Nullable<Bytea>,
    }
}

diesel::table! {
    folders (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        slate_id -> Int8,
        parent_id -> Nullable<Int8>,
        path -> Text,
        name -> Text,
        entry -> Text,
        authority -> Nullable<Text>,
        sensitive -> Bool,
        hidden -> Bool,
        created_at -> Timestamptz,
        nfc -> Nullable<Text>,
    }
}

diesel::table! {
    idempotency_keys (tenant_id, key_id, key) {
        tenant_id -> Int8,
        key_id -> Int8,
        key -> Text,
        request_sha256 -> Bytea,
        status -> Nullable<Int2>,
        content_type -> Nullable<Text>,
        etag -> Nullable<Text>,
        body -> Nullable<Bytea>,
        lease_until -> Timestamptz,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    key_aliases (tenant_id, key_id) {
        tenant_id -> Int8,
        key_id -> Int8,
        sha256 -> Bytea,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    mcp_sessions (tenant_id, id) {
        tenant_id -> Int8,
        id -> Uuid,
        key_id -> Int8,
        session_id -> Nullable<Uuid>,
        initialize -> Nullable<Json>,
        created_at -> Timestamptz,
        expires_at -> Timestamptz,
    }
}

diesel::table! {
    passage_roots (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        slate -> Text,
        path -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use super::sql_types::Tsvector;

    passages (tenant_id, file_id, root_id, position) {
        tenant_id -> Int8,
        root_id -> Int8,
        file_id -> Int8,
        position -> Int4,
        path -> Text,
        title -> Text,
        heading -> Text,
        text -> Text,
        first_line -> Int4,
        last_line -> Int4,
        tsv -> Tsvector,
    }
}

diesel::table! {
    provenance (tenant_id, id) {
        tenant_id -> Int8,
        id -> Uuid,
        kind -> Text,
        key_id -> Nullable<Int8>,
        session_id -> Nullable<Uuid>,
        round -> Nullable<Int4>,
        position -> Int8,
        previous -> Nullable<Bytea>,
        hash -> Bytea,
        created_at -> Timestamptz,
        slate -> Nullable<Text>,
        folder -> Nullable<Text>,
        recursive -> Bool,
        request -> Nullable<Json>,
        file_ids -> Array<Nullable<Int8>>,
        versions -> Array<Nullable<Int8>>,
        statuses -> Array<Nullable<Int2>>,
        matched_by -> Array<Nullable<Int2>>,
        authorities -> Array<Nullable<Int2>>,
        freshness -> Array<Nullable<Int2>>,
        asked -> Json,
        details -> Nullable<Json>,
    }
}

diesel::table! {
    rounds (tenant_id, session_id, number) {
        tenant_id -> Int8,
        session_id -> Uuid,
        number -> Int4,
        epoch -> Int4,
        output -> Json,
        idempotency_key -> Nullable<Text>,
        decision -> Text,
        reason -> Nullable<Text>,
        forced -> Bool,
        record_id -> Nullable<Uuid>,
        ignored -> Json,
        errors -> Json,
        listings -> Json,
        hints -> Json,
        repeats -> Json,
        truncated -> Bool,
        omitted_files -> Int8,
        omitted_bytes -> Int8,
        total -> Nullable<Int8>,
        status -> Text,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    run_answers (tenant_id, session_id, round) {
        tenant_id -> Int8,
        session_id -> Uuid,
        round -> Int4,
        output -> Json,
        form -> Text,
        prompt_tokens -> Nullable<Int8>,
        completion_tokens -> Nullable<Int8>,
        received_at -> Timestamptz,
        outcome -> Nullable<Json>,
    }
}

diesel::table! {
    run_queue (tenant_id, session_id) {
        tenant_id -> Int8,
        session_id -> Uuid,
        next_at -> Timestamptz,
        lease_owner -> Nullable<Uuid>,
        lease_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    runs (tenant_id, session_id) {
        tenant_id -> Int8,
        session_id -> Uuid,
        key_id -> Int8,
        model -> Json,
        attempts -> Int4,
        trouble -> Nullable<Json>,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    secrets (tenant_id, name) {
        tenant_id -> Int8,
        name -> Text,
        key_id -> Text,
        nonce -> Bytea,
        ciphertext -> Bytea,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    session_context (tenant_id, session_id, epoch, file_id, slot) {
        tenant_id -> Int8,
        session_id -> Uuid,
        epoch -> Int4,
        file_id -> Int8,
        slot -> Int8,
        version -> Int8,
        round -> Int4,
        item -> Int4,
    }
}

diesel::table! {
    session_events (tenant_id, session_id, number) {
        tenant_id -> Int8,
        session_id -> Uuid,
        number -> Int8,
        kind -> Text,
        data -> Json,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    session_seals (tenant_id, session_id) {
        tenant_id -> Int8,
        session_id -> Uuid,
        records -> Int8,
        last_hash -> Nullable<Bytea>,
        sealed_at -> Timestamptz,
    }
}

diesel::table! {
    sessions (tenant_id, id) {
        tenant_id -> Int8,
        id -> Uuid,
        slate -> Text,
        folder -> Text,
        declaration -> Json,
        fields -> Json,
        goal -> Nullable<Json>,
        working -> Json,
        status -> Text,
        round -> Int4,
        epoch -> Int4,
        shown_bytes -> Int8,
        answer -> Nullable<Json>,
        forced -> Bool,
        failure -> Nullable<Json>,
        chain_length -> Int8,
        chain_hash -> Nullable<Bytea>,
        revision -> Int8,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        finished_at -> Nullable<Timestamptz>,
        route -> Nullable<Json>,
        is_run -> Bool,
        event_count -> Int8,
    }
}

diesel::table! {
    slates (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        name -> Text,
        description -> Nullable<Text>,
        authority -> Nullable<Text>,
        volatile -> Bool,
        max_age_seconds -> Nullable<Int8>,
        retention_days -> Int4,
        metatag_types -> Jsonb,
        revision -> Int8,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
        deleted_at -> Nullable<Timestamptz>,
        language -> Text,
    }
}

diesel::table! {
    sources (tenant_id, kind, name) {
        tenant_id -> Int8,
        kind -> Text,
        name -> Text,
        document -> Json,
        revision -> Int8,
        created_at -> Timestamptz,
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    tag_keys (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        name -> Text,
    }
}

diesel::table! {
    tag_terms (tenant_id, id) {
        tenant_id -> Int8,
        id -> Int8,
        key_id -> Int8,
        kind -> Char,
        term -> Text,
        digest -> Bytea,
        num -> Nullable<Numeric>,
    }
}

diesel::table! {
    tenant_settings (tenant_id) {
        tenant_id -> Int8,
        default_slate -> Nullable<Text>,
        deny_globs -> Array<Nullable<Text>>,
        deny_regex -> Nullable<Text>,
        session_retention_days -> Int4,
        revision -> Int8,
        max_concurrent_runs -> Nullable<Int4>,
        max_rounds_per_day -> Nullable<Int8>,
        max_tokens_per_day -> Nullable<Int8>,
    }
}

diesel::table! {
    tenants (id) {
        id -> Int8,
        name -> Text,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    usage_days (tenant_id, day) {
        tenant_id -> Int8,
        day -> Date,
        rounds -> Int8,
        prompt_tokens -> Int8,
        completion_tokens -> Int8,
    }
}

diesel::joinable!(api_keys -> tenants (tenant_id));
diesel::joinable!(blobs -> tenants (tenant_id));
diesel::joinable!(catalog_versions -> tenants (tenant_id));
diesel::joinable!(corpora -> tenants (tenant_id));
diesel::joinable!(mcp_sessions -> tenants (tenant_id));
diesel::joinable!(passage_roots -> tenants (tenant_id));
diesel::joinable!(provenance -> tenants (tenant_id));
diesel::joinable!(run_queue -> tenants (tenant_id));
diesel::joinable!(secrets -> tenants (tenant_id));
diesel::joinable!(session_seals -> tenants (tenant_id));
diesel::joinable!(sessions -> tenants (tenant_id));
diesel::joinable!(slates -> tenants (tenant_id));
diesel::joinable!(sources -> tenants (tenant_id));
diesel::joinable!(tag_keys -> tenants (tenant_id));
diesel::joinable!(tenant_settings -> tenants (tenant_id));
diesel::joinable!(usage_days -> tenants (tenant_id));

diesel::allow_tables_to_appear_in_same_query!(
    api_keys,
    blobs,
    catalog_versions,
    corpora,
    file_ids,
    file_tags,
    file_versions,
    files,
    folders,
    idempotency_keys,
    key_aliases,
    mcp_sessions,
    passage_roots,
    passages,
    provenance,
    rounds,
    run_answers,
    run_queue,
    runs,
    secrets,
    session_context,
    session_events,
    session_seals,
    sessions,
    slates,
    sources,
    tag_keys,
    tag_terms,
    tenant_settings,
    tenants,
    usage_days,
);
