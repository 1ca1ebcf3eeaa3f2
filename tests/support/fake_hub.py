"""A hub of one process: the HTTP answers of the real one for repositories held in memory.

The real client library talks to it, so what is tested is the library's behaviour too.
"""

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Repository:
    """Files by commit, commits by reference."""

    refs: dict[str, str] = field(default_factory=dict)
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: bool = False

    def push(self, files: dict[str, bytes], ref: str = "main") -> str:
        text = repr((ref, sorted(files.items()), len(self.commits)))
        commit = hashlib.sha1(text.encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.refs[ref] = commit
        return commit


class FakeHub:
    """Serve ``repositories`` ({(kind, name): Repository}); ``requests`` holds what was asked."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.requests: list[tuple[str, str, str | None]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.answer(self, body=True)

            def do_HEAD(self):
                hub.answer(self, body=False)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def serve(self, monkeypatch, cache) -> None:
        """Let the client library ask this hub, and keep its files in ``cache``."""
        place = "huggingface_hub.constants"
        template = f"{self.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(f"{place}.ENDPOINT", self.url)
        monkeypatch.setattr(f"{place}.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(f"{place}.HF_HUB_CACHE", str(cache))

    def repository(self, kind: str, name: str) -> Repository:
        return self.repositories.setdefault((kind, name), Repository())

    def answer(self, request: BaseHTTPRequestHandler, body: bool) -> None:
        path = urlsplit(request.path).path
        self.requests.append((request.command, path, request.headers.get("Authorization")))
        words = [unquote(word) for word in path.strip("/").split("/")]
        if words[0] == "api":
            kind, name, rest = words[1].rstrip("s"), "/".join(words[2:4]), words[4:]
        else:
            kind = "dataset" if words[0] == "datasets" else "model"
            words = words[1:] if kind == "dataset" else words
            name, rest = "/".join(words[:2]), words[2:]
        repository = self.repositories.get((kind, name))
        if repository is None:
            return self.refuse(request, 401, "RepoNotFound")
        if repository.gated:
            return self.refuse(request, 403, "GatedRepo")
        rest = rest or ["revision", "main"]
        revision = repository.refs.get(rest[1], rest[1])
        if revision not in repository.commits:
            return self.refuse(request, 404, "RevisionNotFound")
        files = repository.commits[revision]
        siblings = [{"rfilename": file} for file in files]
        known = {
            "revision": {"id": name, "sha": revision, "siblings": siblings, "tags": []},
            "tree": [{"type": "file", "path": file, "size": len(data), "oid": "0" * 40}
                     for file, data in files.items()],
        }  # fmt: skip
        if rest[0] in known:
            return self.send(request, json.dumps(known[rest[0]]).encode(), {}, body)
        if rest[0] != "resolve":
            return self.refuse(request, 404, "")
        file = "/".join(rest[2:])
        if file not in files:
            return self.refuse(request, 404, "EntryNotFound")
        data = files[file]
        etag = hashlib.sha256(data).hexdigest()
        return self.send(request, data, {"X-Repo-Commit": revision, "ETag": f'"{etag}"'}, body)

    def send(self, request, data: bytes, headers: dict, body: bool, status: int = 200) -> None:
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            request.send_header(key, value)
        request.end_headers()
        if body:
            request.wfile.write(data)

    def refuse(self, request, status: int, code: str) -> None:
        self.send(request, b"", {"X-Error-Code": code}, False, status)
