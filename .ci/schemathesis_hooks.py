"""How .ci/fuzz sends bodies of the media types that schemathesis does not know."""
import json

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def one_line(context, value):
    return value if isinstance(value, bytes) else json.dumps(value).encode() + b"\n"


schemathesis.serializer.alias(["application/gzip", "application/zip", "application/x-tar"], "application/octet-stream")
