#!/usr/bin/env python3
"""What a hostile client does to a program that shows a live page: the program must not notice.

    attack_test.py SCRIPTED_SERVER TESSERA [any-memory]

The server of the first program, with all the events it keeps, is attacked in turn as below. After and
during each attack the program runs on, loses no event, answers `tessera top`, and has not grown by more
than 64 MiB (not checked with "any-memory": under sanitizers). Prints a line per check.
"""
import json
import resource
import socket
import subprocess
import sys
import time
import urllib.parse

SERVER, TESSERA = sys.argv[1:3]
LIMIT_KB = 64 * 1024 if "any-memory" not in sys.argv[3:] else 1 << 40
HOST = "Host: localhost\r\n"
failed = 0


def check(what, ok, found=""):
    global failed
    print(f"{'ok    ' if ok else 'FAILED'} {what}{': ' + str(found) if found != '' else ''}", flush=True)
    failed += not ok


class Target:
    """The attacked program."""

    def __init__(self):
        self.process = subprocess.Popen([SERVER, "262144", "queue", "full"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        self.port = urllib.parse.urlparse(self.url).port
        self.top()
        self.start_kb = self.memory("VmRSS")

    def memory(self, name):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(name + ":"))

    def growth_kb(self):
        return self.memory("VmHWM") - self.start_kb

    def connect(self, receive_bytes=0):
        client = socket.socket()
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.settimeout(20)
        client.connect(("127.0.0.1", self.port))
        return client

    def ask(self, request, limit=1 << 30):
        """The beginning of the answer, up to its end or `limit` bytes."""
        with self.connect() as client:
            client.sendall(request.encode())
            return read(client, limit)

    def top(self):
        """What `tessera top` gets."""
        top = subprocess.run([TESSERA, "top", self.url, "--once", "--json"], capture_output=True, text=True,
                             check=False)
        return json.loads(top.stdout)["snapshot"] if top.returncode == 0 else None


def read(client, limit=1 << 30):
    answer = b""
    try:
        while len(answer) < limit:
            more = client.recv(65536)
            if not more:
                break
            answer += more
    except OSError:
        pass
    return answer.decode(errors="replace")


def flood(target, begin, forever, most=2_000_000_000):
    """Sends until the server closes, or `most` bytes; returns the bytes sent and the answer's first line."""
    piece = forever.encode() * (65536 // len(forever))
    sent = 0
    with target.connect() as client:
        client.settimeout(10)
        try:
            client.sendall(begin.encode())
            while sent < most:
                sent += client.send(piece)
        except OSError:
            pass
        return sent, read(client, 4096).split("\r\n")[0]


def ranges(target):
    text = "bytes=0-" + ",0-" * 500
    answer = target.ask(f"GET /trace HTTP/1.1\r\n{HOST}Range: {text}\r\nConnection: close\r\n\r\n")
    check("501 ranges get the one trace", answer.startswith("HTTP/1.1 200") and "multipart" not in answer[:2000],
          f"{len(answer)} bytes")


def endless(target):
    for what, begin, forever, status in [
            ("an endless request line", "GET /", "a", "414"),
            ("endless header fields", f"GET / HTTP/1.1\r\n{HOST}", "A: b\r\n", "431"),
            ("an endless header field", f"GET / HTTP/1.1\r\n{HOST}A: ", "a", "431"),
            ("2 GB in chunks", f"POST /control HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n",
             "1000\r\n" + "x" * 4096 + "\r\n", "413"),
            ("2 GB of a body", f"POST /control HTTP/1.1\r\n{HOST}Content-Length: 2000000000\r\n\r\n", "x", "413"),
    ]:
        sent, line = flood(target, begin, forever)
        check(f"{what} is refused", sent < 50_000_000 and (line.startswith("HTTP/1.1 " + status) or line == ""),
              f"{line!r} after {sent} bytes")


def cross_site(target):
    clients = [target.connect(4096) for _ in range(24)]
    for client in clients:
        client.sendall(f"GET /trace HTTP/1.1\r\n{HOST}Sec-Fetch-Site: cross-site\r\n\r\n".encode())
    lines = {client.recv(12).decode() for client in clients}
    check("24 requests of another site without Origin are refused", lines == {"HTTP/1.1 403"}, lines)


def slow_sockets(target):
    clients = [target.connect() for _ in range(40)]
    for i, client in enumerate(clients):
        client.sendall(b"GET /state HTT" if i % 2 else b"P")
    check("40 slow sockets leave an answer for top", target.top() is not None)


def many_connections(target):
    clients = []
    for i in range(1000):
        try:
            clients.append(target.connect())
            if i % 3:
                clients[-1].send(b"GET / HTTP/1.1\r\n"[:i % 16])
        except OSError:
            pass
        if i % 250 == 249:
            check(f"{i + 1} connections leave an answer for top", target.top() is not None)


def slow_readers(target):
    clients = []
    for path in ["/trace"] * 30 + ["/history?from=0&to=4000000000000000&events=100000&bins=4000"] * 30 + \
            ["/history?from=4611686018427387902&to=4611686018427387903"] * 3 + \
            ["/history?from=1000000000000000&to=1000000000000001"] * 3 + \
            ["/events?from=0&interval=20"] * 30:
        try:
            clients.append(target.connect(4096))
            clients[-1].sendall(f"GET {path} HTTP/1.1\r\n{HOST}\r\n".encode())
        except OSError:
            pass
    time.sleep(1.5)
    check("90 slow readers of traces, histories and streams leave an answer for top", target.top() is not None)
    # Whichever request holds the trace by now, this one holds it or is asked to wait too.
    holder = target.connect(4096)
    holder.sendall(f"GET /trace HTTP/1.1\r\n{HOST}\r\n".encode())
    holder.recv(12)
    busy = target.ask(f"GET /trace HTTP/1.1\r\n{HOST}Connection: close\r\n\r\n", 12)[:12]
    check("a second trace is asked to wait", busy == "HTTP/1.1 503", busy)


def pipelined(target):
    clients = [target.connect() for _ in range(20)]
    for client in clients:
        client.settimeout(0.2)
        try:
            for path in ["/state", "/history?from=0&to=9000000000", "/page.js", "/metrics"] * 200:
                client.sendall(f"GET {path} HTTP/1.1\r\n{HOST}\r\n".encode())
        except OSError:
            pass
    check("20 clients with 800 requests behind each other leave an answer for top", target.top() is not None)


ATTACKS = [ranges, endless, cross_site, slow_sockets, many_connections, slow_readers, pipelined]


def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    target = Target()
    before = target.top()
    for attack in ATTACKS:
        attack(target)
        after = target.top()
        check(f"{attack.__name__}: the program runs on", target.process.poll() is None and after is not None)
        if target.process.poll() is not None or after is None:
            break
        check(f"{attack.__name__}: its tasks go on, and no event is lost",
              after["tasks"]["ok"] > before["tasks"]["ok"] and after["dropped"] == before["dropped"])
        check(f"{attack.__name__}: it has grown by at most 64 MiB", target.growth_kb() <= LIMIT_KB,
              f"{target.growth_kb() / 1024:.1f} MiB at most so far")
        before = after
    target.process.stdin.close()
    check("it ends as it should", target.process.wait(20) == 0)
    return 1 if failed else 0


sys.exit(main())
