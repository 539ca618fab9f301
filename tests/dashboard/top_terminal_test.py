#!/usr/bin/env python3
"""`tessera top` on terminals of its own: what stands on the screen, and what is left behind.

    top_terminal_test.py TESSERA SCRIPTED_SERVER

The terminal is a pseudo terminal, its screen the class below. Prints a line per check.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

TESSERA, SERVER = sys.argv[1:3]
PATIENCE = 20.0  # seconds; a check that holds takes a small part of them
failed = 0


def check(what, ok, found=""):
    global failed
    print(f"{'ok    ' if ok else 'FAILED'} {what}{': ' + str(found) if found != '' else ''}", flush=True)
    failed += not ok


class Screen:
    """What a terminal shows after the bytes it was sent: the sequences that top uses, and no others."""

    def __init__(self, columns, rows):
        self.other = False  # the alternate screen is shown
        self.cursor = True
        self.main = ""  # text on the main screen
        self.overflows = []  # lines that were wider or more than the screen
        self.pictures = 0
        self.rest = ""
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [""] * rows
        self.x = self.y = 0

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = re.compile(r"\x1b\[(\??\d*)([HKJhl])").match(text, at)
                if not match:
                    if len(text) - at > 12:
                        raise AssertionError(f"an unknown sequence: {text[at:at + 12]!r}")
                    self.rest = text[at:]
                    return
                self.sequence(match[1], match[2])
                at = match.end()
            else:
                self.put(text[at])
                at += 1

    def sequence(self, argument, letter):
        if letter == "H":
            self.x = self.y = 0
            self.pictures += 1
        elif letter == "K":
            self.lines[self.y] = self.lines[self.y][: self.x]
        elif letter == "J":
            self.lines[self.y] = self.lines[self.y][: self.x]
            self.lines[self.y + 1:] = [""] * (self.rows - self.y - 1)
        elif argument == "?1049":
            self.other = letter == "h"
        elif argument == "?25":
            self.cursor = letter == "h"
        else:
            raise AssertionError(f"an unknown sequence: {argument}{letter}")

    def put(self, character):
        if not self.other:
            self.main += character
        elif character == "\r":
            self.x = 0
        elif character == "\n":
            self.y += 1
            if self.y >= self.rows:
                self.overflows.append(f"row {self.y + 1} of {self.rows}")
                self.y = self.rows - 1
        else:
            line = self.lines[self.y].ljust(self.x)
            self.lines[self.y] = line[: self.x] + character + line[self.x + 1:]
            self.x += 1
            if self.x > self.columns:
                self.overflows.append(self.lines[self.y])

    def text(self):
        return "\n".join(self.lines)


class Top:
    """`tessera top` with a controlling terminal of its own."""

    def __init__(self, url, columns, rows):
        self.screen = Screen(columns, rows)
        self.status = None
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            # Not before the terminal has its size.
            while fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8)[:4] == b"\0" * 4:
                time.sleep(0.01)
            os.execv(TESSERA, [TESSERA, "top", url, "--interval", "0.1"])
        self.keys_before = termios.tcgetattr(self.terminal)
        self.set_size(columns, rows)

    def set_size(self, columns, rows):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def keys(self):
        return termios.tcgetattr(self.terminal)

    def read(self, seconds=0.05):
        ready, _, _ = select.select([self.terminal], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # the other end is closed
            return False
        self.screen.feed(data.decode())
        return bool(data)

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                check(what, False, f"not after {PATIENCE} s; the screen:\n{self.screen.text()}")
                return False
            self.read()
        return True

    def resize(self, columns, rows):
        self.set_size(columns, rows)
        # Pictures of the old size may still be on their way.
        seen = self.screen.pictures
        self.until("pictures go on", lambda: self.screen.pictures > seen + 3)
        self.screen.resize(columns, rows)
        self.screen.overflows.clear()

    def finish(self):
        """Waits for its end: its status, or None."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.read(0.02)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                # The keys are read before the last end of the terminal goes.
                while self.read(0.02):
                    pass
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None


class Server:
    def __init__(self):
        self.process = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


def restored(top, name):
    screen = top.screen
    check(f"{name}: the main screen and the cursor are back", not screen.other and screen.cursor)
    before, after = top.keys_before, top.keys()
    check(f"{name}: keys are read as before", before == after, "" if before == after else f"{before} {after}")


def whole_picture(top, columns, rows):
    name = f"{columns}x{rows}"
    screen = top.screen
    if not top.until(f"{name}: a picture", lambda: "ends with q" in screen.text()):
        return
    pictures = screen.pictures
    top.until(f"{name}: more pictures", lambda: screen.pictures > pictures + 3)
    text = screen.text()
    check(f"{name}: no line is too long, and none too many", not screen.overflows, "".join(screen.overflows[:2]))
    check(f"{name}: the other screen, without a cursor", screen.other and not screen.cursor)
    for wanted in ["scripted pipeline", "tasks ", "latency ", "limit ", "sim0 kernel A", "sim0 kernel B", "faults", "pre",
                   "post", "waited median", "execute queue", "at most"]:
        if wanted not in text:
            check(f"{name}: '{wanted}' is there", False, "\n" + text)
    check(f"{name}: kernels, stages and queues are there", True)
    bars = "#" in text
    check(f"{name}: bars where there is room", bars == (columns >= 100))


def sizes(url):
    top = Top(url, 80, 24)
    whole_picture(top, 80, 24)
    top.resize(100, 40)
    whole_picture(top, 100, 40)
    top.resize(80, 10)
    top.until("80x10: what has no room is told", lambda: "more lines in a higher window" in top.screen.lines[8])
    check("80x10: what has no room is told", True, top.screen.lines[8])
    top.until("80x10: the last line", lambda: "ends with q" in top.screen.lines[9])
    check("80x10: no line is too long, and none too many", not top.screen.overflows, "".join(top.screen.overflows[:2]))
    top.resize(30, 5)
    seen = top.screen.pictures
    top.until("30x5: a picture", lambda: top.screen.pictures > seen + 3 and "more lines in a higher" in top.screen.lines[3])
    check("30x5: no line is too long", not top.screen.overflows, top.screen.overflows[:2] or "")
    os.write(top.terminal, b"xyz\n")  # other keys do nothing
    os.write(top.terminal, b"q")
    check("q ends it well", top.finish() == 0)
    restored(top, "q")


def ends(url, server):
    for name, how in [("Ctrl-C", lambda top: os.write(top.terminal, b"\x03")),
                      ("SIGTERM", lambda top: os.kill(top.pid, signal.SIGTERM))]:
        top = Top(url, 100, 30)
        top.until(f"{name}: a picture", lambda: "ends with q" in top.screen.text())
        during = top.keys()
        check(f"{name}: keys come one by one, unseen", not during[3] & (termios.ICANON | termios.ECHO))
        how(top)
        check(f"{name} ends it well", top.finish() == 0)
        restored(top, name)
    top = Top(url, 100, 30)
    top.until("a picture", lambda: "ends with q" in top.screen.text())
    server.stop()
    check("a server that goes away ends it with an error", top.finish() == 1)
    restored(top, "no server")
    check("which stands on the main screen", "does not answer" in top.screen.main, top.screen.main.strip())
    top = Top(url, 100, 30)
    check("where no server is, the screen is left alone", top.finish() == 1 and top.screen.pictures == 0,
          top.screen.main.strip())


server = Server()
try:
    sizes(server.url)
    ends(server.url, server)
finally:
    if server.process.poll() is None:
        server.stop()
sys.exit(1 if failed else 0)
