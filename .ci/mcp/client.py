"""The official Python client against a server, over HTTP and over `slatebase mcp`.

    client.py <base> <token> <session id> <session id> <binary>
"""

import asyncio
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

BASE, TOKEN, SESSION, OTHER, BINARY = sys.argv[1:]


async def slates(client):
    tools = await client.list_tools()
    assert len(tools.tools) == 13, tools
    found = await client.call_tool("find", {"slate": "K", "metatag": {"name": "category"}})
    assert found.structured_content["items"][0]["path"] == "core.md", found
    quoted = await client.call_tool("check_quote", {"reference": "slate://K/core.md@1", "quote": "cut on Monday"})
    assert quoted.structured_content["status"] == "found", quoted
    read = await client.call_tool("read", {"slate": "K", "path": "core.md"})
    assert not read.is_error and read.structured_content["provenance_id"], read
    wrong = await client.call_tool("browse", {"slate": 1})
    assert wrong.is_error and "/slate" in wrong.content[0].text, wrong
    resources = await client.list_resources()
    contents = await client.read_resource(resources.resources[0].uri)
    assert "Core" in contents.contents[0].text, contents
    prompt = await client.get_prompt("research", {"slate": "K", "question": "When?"})
    assert "core.md" in prompt.messages[0].content.text, prompt


async def rounds(client):
    assert [tool.name for tool in (await client.list_tools()).tools] == ["retrieve", "answer"]
    given = await client.call_tool("retrieve", {"files": ["core.md"]})
    assert given.structured_content["status"] == "exhausted", given
    ended = await client.call_tool("answer", {"answer": "On Monday."})
    assert ended.structured_content["answer"] == "On Monday.", ended


async def main():
    for mode in ("auto", "legacy"):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as http:
            async with Client(streamable_http_client(f"{BASE}/mcp", http_client=http), mode=mode) as client:
                await slates(client)
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30) as http:
        async with Client(streamable_http_client(f"{BASE}/mcp/sessions/{SESSION}", http_client=http)) as client:
            await rounds(client)
    arguments = ["mcp", "--server", BASE]
    server = StdioServerParameters(command=BINARY, args=arguments, env={"SLATEBASE_TOKEN": TOKEN})
    async with Client(server) as client:
        await slates(client)
    session = StdioServerParameters(command=BINARY, args=[*arguments, "--session", OTHER], env={"SLATEBASE_TOKEN": TOKEN})
    async with Client(session) as client:
        await rounds(client)
    print("the Python client is served")


asyncio.run(main())
