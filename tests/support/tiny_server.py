"""A chat server of few lines with one peculiarity: python tiny_server.py PORT [KIND].

KIND: plain, no-chat (404), no-stream (JSON instead of events), names=A,B (what /v1/models lists),
no-routes (neither /health nor /v1/models), chat-loading (the chat route says 503 for a second),
refusing (400), health-late (503 for 1 s), hanging (the chat route never answers).
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

START = time.monotonic()
PORT, KIND = int(sys.argv[1]), (sys.argv[2:] or ["plain"])[0]


class Handler(BaseHTTPRequestHandler):
    """Answers 5 to everything."""

    def do_GET(self) -> None:
        is_late = KIND == "health-late" and time.monotonic() - START < 1
        if is_late:
            self.say(503, {"error": "loading"})
        elif KIND == "no-routes":
            self.say(404, {})
        elif self.path == "/health":
            self.say(200, {})
        elif self.path == "/v1/models" and KIND.startswith("names="):
            self.say(200, {"data": [{"id": name} for name in KIND[6:].split(",")]})
        else:
            self.say(404, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        print("asked for", asked.get("model"), flush=True)
        if KIND == "hanging":
            time.sleep(60)
        elif KIND == "no-chat":
            self.say(404, {"error": {"message": "no such route"}})
        elif KIND == "refusing":
            self.say(400, {"error": {"message": "max_tokens is unheard of"}})
        elif KIND == "chat-loading" and time.monotonic() - START < 1:
            self.say(503, {"error": {"message": "loading"}})
        elif "model" not in asked:
            self.say(422, {})
        elif KIND == "no-stream":
            self.say(
                200,
                {"choices": [{"index": 0, "message": {"content": "5"}, "finish_reason": "stop"}]},
            )
        else:
            choice = {"index": 0, "delta": {"content": "5"}, "finish_reason": "stop"}
            body = f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n"
            self.say(200, body, "text/event-stream")

    def say(self, status: int, content: object, kind: str = "application/json") -> None:
        """One whole answer."""
        body = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Nothing."""


print("listening", flush=True)
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
