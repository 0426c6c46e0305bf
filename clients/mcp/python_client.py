"""A client on the Python SDK that knows nothing but the address of the server. It talks with the harness as talk.mjs does."""

import asyncio
import json
import os
import sys
import time
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

MCP_URL = os.environ["MCP_URL"]
DOCUMENT = os.environ.get("DOCUMENT") or None

system_time = time.time


def say(**message):
    print(json.dumps(message), flush=True)


class Storage:
    """Keeps what an app keeps for the SDK."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Callback:
    """Waits for redirects of the browser on a port of this machine."""

    def __init__(self):
        self.arrived = asyncio.Queue()

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.redirect_uri = f"http://127.0.0.1:{port}/callback"

    async def serve(self, reader, writer):
        target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        body = b"<!doctype html><title>Done</title><p id=done>You can close this window."
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()
        if target.startswith("/callback?"):
            await self.arrived.put(parse_qs(urlsplit(target).query))

    async def answer(self):
        answer = await self.arrived.get()
        one = lambda name: answer.get(name, [None])[0]
        return AuthorizationCodeResult(code=one("code"), state=one("state"), iss=one("iss"))


async def open_in_browser(url):
    say(open=url)


async def expire():
    """Lets the access token expire. The SDK trusts its own clock, so that moves too."""
    say(expire=True)
    answer = (await asyncio.to_thread(sys.stdin.readline)).strip()
    assert answer == "expired", f"the harness answers {answer}"
    time.time = lambda: system_time() + 3_700


def new_pack(name):
    return {"name": name, "type": "context", "text": "Friendly and short."}


async def call(client, name, arguments):
    result = await client.call_tool(name, arguments)
    text = "\n".join(part.text for part in result.content if part.type == "text")
    assert not result.is_error, f"{name} failed: {text}"
    return text


async def main():
    callback, storage = Callback(), Storage()
    await callback.start()
    metadata = OAuthClientMetadata(client_name="Python SDK", redirect_uris=[callback.redirect_uri])
    auth = OAuthClientProvider(
        server_url=MCP_URL,
        client_metadata=metadata,
        storage=storage,
        redirect_handler=open_in_browser,
        callback_handler=callback.answer,
        client_metadata_url=DOCUMENT,
    )
    async with httpx2.AsyncClient(auth=auth, timeout=120) as http:
        async with Client(streamable_http_client(MCP_URL, http_client=http)) as client:
            say(did="connect", client=storage.client.client_id)
            say(did="list", tools=[tool.name for tool in (await client.list_tools()).tools])
            say(did="read", result=await call(client, "whoami", {}))
            await expire()
            say(did="read after expiry", result=await call(client, "whoami", {}))
            say(did="write", result=await call(client, "create_pack", new_pack("Pack 1")))
            say(did="read after write", result=await call(client, "search_packs", {"type": "context", "query": "friendly"}))
            say(did="write again", result=await call(client, "create_pack", new_pack("Pack 2")))
    say(did="end", scope=storage.tokens.scope)


asyncio.run(main())
