# The service, for a Postgres apart (docker-compose.yml has one). There is no embedded Postgres in this image.
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked && cp target/release/slatebase /usr/local/bin/slatebase

FROM debian:bookworm-slim
# Certificates to trust, for requests to other hosts.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin slatebase
COPY --from=build /usr/local/bin/slatebase /usr/local/bin/slatebase
USER slatebase
ENV SLATEBASE_LISTEN=0.0.0.0:8080 SLATEBASE_LOG_FORMAT=json
EXPOSE 8080
# Ready is more than alive: the database can be reached and its schema is current.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["slatebase"]
CMD ["serve"]
