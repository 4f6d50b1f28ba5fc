"""Serves the real engine of ClickHouse, as a library, by the part of its HTTP
interface that the store uses: python3 server.py FOLDER PORT. A line is printed
when it serves."""
import http.server
import re
import sys
import threading
import urllib.parse

from chdb import session

engine = session.Session(sys.argv[1])
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        given = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        if "Content-Length" in self.headers:
            body = self.rfile.read(int(self.headers["Content-Length"]))
        else:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        if (self.headers.get("X-ClickHouse-User"), self.headers.get("X-ClickHouse-Key")) != ("gateway", "se'cret"):
            self.answer(403, b"Code: 516. DB::Exception: gateway: Authentication failed (AUTHENTICATION_FAILED)", "516")
            return
        try:
            with lock:
                answer = self.run(given, body)
        except Exception as e:
            text = str(e)
            code = re.search(r"Code: (\d+)", text)
            self.answer(500, text.encode(), code[1] if code else "1000")
            return
        self.answer(200, answer)

    def run(self, given, body):
        engine.query("USE " + given["database"])
        if "query" in given:
            insert = re.fullmatch(r"(INSERT INTO .*) FORMAT (\w+)", given["query"])
            token = given["insert_deduplication_token"]
            with engine.send_insert(f"{insert[1]} SETTINGS insert_deduplication_token='{token}'", insert[2]) as rows:
                rows.append(body)
                rows.finish()
            return b""
        query = body.decode("utf-8", "surrogateescape")
        if asked := re.fullmatch(r"(?s)(.*) FORMAT (\w+)", query):
            return engine.query(asked[1], asked[2]).bytes()
        if query.startswith("ALTER") and given.get("mutations_sync") == "1" and "DROP PARTITION" not in query:
            query += " SETTINGS mutations_sync = 1"
        engine.query(query)
        return b""

    def answer(self, status, body, code=None):
        self.send_response(status)
        if code:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
print("serving", flush=True)
server.serve_forever()
