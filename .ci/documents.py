#!/usr/bin/env python3
"""Seeds directories of real documents through the command line while a server runs, and compares what the server then gives
with the files, their front matter read by PyYAML rather than by the service's own reader.

    documents.py <slatebase> <base url> <directory> ...
"""
import http.client, json, os, pathlib, re, subprocess, sys, tempfile, urllib.parse, uuid

import yaml


class Core(yaml.SafeLoader):
    """The 1.2 core schema, which knows neither dates nor `yes`."""


Core.yaml_implicit_resolvers = {}
for tag, pattern, first in [
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+0123456789."),
]:
    Core.add_implicit_resolver("tag:yaml.org,2002:" + tag, re.compile(pattern), list(first))


def integer(loader, node):
    text = node.value
    return int(text, 0) if text[:2] in ("0x", "0o") else int(text)


Core.add_constructor("tag:yaml.org,2002:int", integer)
Core.add_constructor("tag:yaml.org,2002:float", lambda loader, node: float(node.value))


def front_matter(contents):
    text = contents.decode("utf-8-sig")
    found = re.match(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$", text, re.S | re.M)
    return yaml.load(found[1], Loader=Core) or {} if found else {}


def same(one, other):
    """Equal, with equal JSON types: 1 is not true, and 1.0 is 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other or isinstance(one, float) and isinstance(other, int) and one == other


class Server:
    def __init__(self, base, token):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(base).netloc, timeout=30)
        self.headers = {"Authorization": "Bearer " + token}

    def get(self, path):
        self.connection.request("GET", urllib.parse.quote(path), headers=self.headers)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, (path, answer.status, body)
        return body


def seed(slatebase, directory, tenant, slate):
    ran = subprocess.run(
        [slatebase, "seed", directory, "--tenant", tenant, "--slate", slate], capture_output=True, text=True)
    print("   ", ran.stdout.strip().splitlines()[-1])
    return ran


def main(slatebase, base, *directories):
    tenant = "documents-" + uuid.uuid4().hex[:12]
    for directory in map(pathlib.Path, directories):
        print(directory.name)
        ran = seed(slatebase, directory, tenant, directory.name)
        assert ran.returncode == 0, ran.stderr
        token = subprocess.run([slatebase, "key", "create", tenant], capture_output=True, text=True, check=True).stdout.strip()
        server = Server(base, token)
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        values = 0
        for path in files:
            at, contents = path.relative_to(directory).as_posix(), path.read_bytes()
            assert server.get(f"/v1/slates/{directory.name}/files/{at}") == contents, f"{at}: other bytes"
            tags = json.loads(server.get(f"/v1/slates/{directory.name}/metatags/{at}"))
            wanted = front_matter(contents) if path.suffix == ".md" else {}
            wanted = {name: value for name, value in wanted.items() if value is not None}
            for name in wanted.keys() | tags.keys():
                assert name in tags and name in wanted, f"{at}: {name} is only on one side"
                assert same(wanted[name], tags[name]), f"{at}: {name}: {wanted[name]!r} came back as {tags[name]!r}"
                values += 1
        print(f"    {len(files)} files have their bytes, {values} front matter values their value and type")
        assert values > 0
        ran = seed(slatebase, directory, tenant, directory.name)
        assert ran.returncode == 0 and f"{len(files)} unchanged" in ran.stdout, ran.stdout
    with tempfile.TemporaryDirectory() as planted:
        contents = b"---\na: 1\nb: [\n---\nbody\n"
        pathlib.Path(planted, "broken.md").write_bytes(contents)
        pathlib.Path(planted, "good.md").write_bytes(b"---\na: 1\n---\n")
        ran = seed(slatebase, planted, tenant, "planted")
        assert ran.returncode == 1 and re.search(r"^problem: broken\.md:\d+: ", ran.stderr, re.M), ran.stderr
        assert "2 files loaded" in ran.stdout and "1 problems" in ran.stdout, ran.stdout
        assert server.get("/v1/slates/planted/files/broken.md") == contents
    subprocess.run([slatebase, "tenant", "delete", tenant, "--yes"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
