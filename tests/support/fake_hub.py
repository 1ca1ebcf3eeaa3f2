"""A hub of one process: the HTTP answers of the real one for repositories held in memory.

The real client library talks to it, so what is tested is the library's behaviour too.
"""

import base64
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
    regular: set[str] = field(default_factory=set)  # files that came within a commit

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
        self.damaged: set[str] = set()  # paths whose bytes come out changed
        self.blobs: dict[str, bytes] = {}  # uploaded, by SHA-256
        self.refused: dict[str, int] = {}  # SHA-256 of an upload, or "commit" -> status
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.answer(self, body=True)

            def do_HEAD(self):
                hub.answer(self, body=False)

            def do_POST(self):
                hub.take(self)

            def do_PUT(self):
                hub.take(self)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

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
        if rest[0] == "revision":
            siblings = [
                {
                    "rfilename": file,
                    "size": len(data),
                    "blobId": hashlib.sha1(data).hexdigest(),
                    "lfs": None
                    if file in repository.regular
                    else {
                        "sha256": hashlib.sha256(data).hexdigest(),
                        "size": len(data),
                        "pointerSize": 130,
                    },
                }
                for file, data in files.items()
            ]
            info = {"id": name, "sha": revision, "siblings": siblings, "tags": []}
            return self.send(request, json.dumps(info).encode(), {}, body)
        if rest[0] != "resolve":
            return self.refuse(request, 404, "")
        file = "/".join(rest[2:])
        if file not in files:
            return self.refuse(request, 404, "EntryNotFound")
        data = files[file]
        etag = hashlib.sha256(data).hexdigest()
        if file in self.damaged:
            data = bytes(byte ^ 1 for byte in data)
        return self.send(request, data, {"X-Repo-Commit": revision, "ETag": f'"{etag}"'}, body)

    def take(self, request: BaseHTTPRequestHandler) -> None:
        """Answer what writes: models only, weights by git's large file storage, one branch."""
        path = urlsplit(request.path).path
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        self.requests.append((request.command, path, request.headers.get("Authorization")))
        words = path.strip("/").split("/")
        if words[0] == "lfs":
            return self.store(request, words[1], body)
        if words[:2] == ["api", "validate-yaml"]:
            return self.send(request, b'{"errors": [], "warnings": []}', {}, True)
        if words[:3] == ["api", "repos", "create"]:
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            found = ("model", name) in self.repositories
            if not found:
                self.repository("model", name).push({})
            answer = json.dumps({"url": f"{self.url}/{name}", "name": name}).encode()
            return self.send(request, answer, {}, True, 409 if found else 200)
        if words[2:] == ["info", "lfs", "objects", "batch"]:
            return self.send(request, json.dumps(self.batch(json.loads(body))).encode(), {}, True)
        name = "/".join(words[2:4])
        if words[4] == "preupload":
            files = [
                {
                    "path": one["path"],
                    "uploadMode": "lfs" if one["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for one in json.loads(body)["files"]
            ]
            return self.send(request, json.dumps({"files": files}).encode(), {}, True)
        if "commit" in self.refused:
            return self.refuse(request, self.refused.pop("commit"), "")
        return self.commit(request, name, [json.loads(line) for line in body.splitlines()])

    def batch(self, asked: dict) -> dict:
        """Return where to upload each object, nowhere for those that are there."""
        objects = []
        for one in asked["objects"]:
            link = {"actions": {"upload": {"href": f"{self.url}/lfs/{one['oid']}"}}}
            objects.append({**one, **({} if one["oid"] in self.blobs else link)})
        return {"transfer": "basic", "objects": objects}

    def store(self, request: BaseHTTPRequestHandler, sha256: str, data: bytes) -> None:
        if sha256 in self.refused:
            return self.refuse(request, self.refused.pop(sha256), "")
        assert hashlib.sha256(data).hexdigest() == sha256
        self.blobs[sha256] = data
        return self.send(request, b"", {}, True)

    def commit(self, request: BaseHTTPRequestHandler, name: str, lines: list[dict]) -> None:
        repository = self.repositories["model", name]
        head = repository.refs["main"]
        if lines[0]["value"]["parentCommit"] != head:
            return self.refuse(request, 412, "")
        files = dict(repository.commits[head])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
                repository.regular.add(value["path"])
            else:
                files[value["path"]] = self.blobs[value["oid"]]
        commit = repository.push(files)
        answer = {"commitUrl": f"{self.url}/{name}/commit/{commit}", "commitOid": commit}
        return self.send(request, json.dumps({**answer, "success": True}).encode(), {}, True)

    def send(
        self, request, data: bytes, headers: dict[str, str], body: bool, status: int = 200
    ) -> None:
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            request.send_header(key, value)
        request.end_headers()
        if body:
            request.wfile.write(data)

    def refuse(self, request, status: int, code: str) -> None:
        request.send_response(status)
        request.send_header("X-Error-Code", code)
        request.send_header("Content-Length", "0")
        request.end_headers()
