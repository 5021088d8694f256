"""A server on this machine that speaks OpenAI's chat protocol: answers, streams, tool calls, errors, rate limits."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


class Reply:
    """What the server says to one request.

    text: streamed word by word.   calls: (id, name, args) of tool calls.   status, headers: of an error.
    endless: goes on with words until the caller hangs up.   cut: hangs up itself, in the middle of a stream.
    """

    def __init__(self, text="", *, calls=(), status=200, headers=None, endless=False, cut=False):
        self.text = text
        self.calls = calls
        self.status = status
        self.headers = headers or {}
        self.endless = endless
        self.cut = cut


class OpenAIServer:
    """Serves the given replies, one for each request; `requests` are the bodies it got. Use it with `with`."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.requests = []
        self.hung_up = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def _handler(server):  # noqa: C901, N805 - `self` is the handler's, and all methods of it count
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append(body)
                reply = server.replies.pop(0)
                self.close_connection = True
                if reply.status != 200:
                    self._send(reply.status, {"error": {"message": "no", "type": "error"}}, reply.headers)
                elif body.get("stream"):
                    self._stream(reply)
                else:
                    self._send(200, _whole(reply), {})

            def _send(self, status, body, headers):
                data = json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", "Connection": "close", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def _stream(self, reply):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                try:
                    for piece in _pieces(reply):
                        self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
                        self.wfile.flush()
                    if not reply.cut:
                        self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    server.hung_up.set()

            def log_message(self, *_):
                pass

        return Handler


def _whole(reply):
    message = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for key, name, args in reply.calls
        ]
    reason = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {**_head("chat.completion"), "choices": [choice], "usage": USAGE}


def _pieces(reply):
    words = reply.text.split(" ")
    for number, word in enumerate(words if reply.text else ()):
        yield _delta({"role": "assistant", "content": word if number == 0 else f" {word}"})
    while reply.endless:
        yield _delta({"content": " more"})
        time.sleep(0.01)
    if reply.cut:
        return
    for index, (key, name, args) in enumerate(reply.calls):
        text = json.dumps(args)
        yield _delta({"tool_calls": [_call(index, id=key, name=name, arguments="")]})
        for part in (text[:4], text[4:]):
            yield _delta({"tool_calls": [_call(index, arguments=part)]})
    yield _delta({}, reason="tool_calls" if reply.calls else "stop")
    yield {**_head("chat.completion.chunk"), "choices": [], "usage": USAGE}


def _call(index, id=None, **function):
    return {"index": index, "function": function, **({"id": id, "type": "function"} if id else {})}


def _delta(delta, reason=None):
    return {**_head("chat.completion.chunk"), "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def _head(kind):
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": "tiny"}
