#!/usr/bin/env python3
"""Names in comments that nothing in the tree has any more.

    scripts/dead_references.py [ROOT]

A name is looked for in everything that is not a comment: code, literals, keys of TOML, CMake. It is
  - a file name (surface.h, arith/format.h, docs/numbers.md): a tracked file ends with it;
  - make_plan(), ChipConfig::name: each part is a word of the code;
  - ProductWorkspace, kPanelPixels, make_plan, and every word in backquotes.
Documents (docs/*.md, README.md) are asked for the first two. What others made (libraries,
standards, papers) is in FOREIGN, or in a string or #include of ours.

check_rules.py calls dead_references().
"""
import pathlib
import re
import subprocess
import sys

CODE = {".h", ".cc", ".cpp", ".py", ".cmake", ".toml", ".ts", ".js", ".mjs", ".cjs", ".sh", ".in",
        ".fbs", ".json", ".map", ".html", ".css", ".tasm", ".txt", ".dict", ".yml", ".yaml"}
CPP = {".h", ".cc", ".cpp", ".ts", ".js", ".mjs", ".cjs", ".fbs"}
HASH = {".py", ".cmake", ".toml", ".sh"}
# Names of others: libraries, tools, file formats, standards; of formulas and of examples.
FOREIGN = set("""
    JavaScript TypeScript PyTorch TensorFlow NumPy GitHub OpenAPI WebSocket MathML OpenMP OpenSSL
    SystemVerilog FlatBuffers GoogleTest ThreadSanitizer AddressSanitizer LeakSanitizer MobileNet
    ResNet GoogLeNet SqueezeNet ImageNet WordPiece Gemmini NeuronCore BrainWave SystolicArray
    DejaVu WenQuanYi
    ModelProto FunctionProto DevTools ScaledTanh InvStdDev GoogleMock sysexits
    optimum round_half_even default_field tiling status_expression LogSum LogSumExp OrEqual
    GlobalAverage
""".split())
# E4M3; x.cc, F.tasm, NAME_fuzz.cc, page.html of an example; i_k, digit_i of a formula.
EXAMPLE_NAME = re.compile(r"E\dM\d|(?:.*/)?(?:\w|[A-Z]{3,}\w*|page|reader)\.\w+|[A-Z]{4,}/.*|kPage|"
                         r"mix_frame200|sysexits\.h|\w+_[ik]")
FILE = re.compile(r"(?<![\w/.<*-])((?:[\w-]+/)*[\w-]+\."
                  r"(?:h|cc|cpp|py|md|cmake|tasm|ts|toml|sh|html|fbs))\b(?!\()")
CALL = re.compile(r"(?<![\w.:>-])((?:\w+::)*~?\w+)\(\)")
SCOPED = re.compile(r"\b((?:\w+::)+\w+)\b")
CAMEL = re.compile(r"\b([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|k[A-Z][A-Za-z0-9]+)\b")
SNAKE = re.compile(r"(?<![\w/.:-])([a-z][a-z0-9]*(?:_[a-z0-9]+)+_?)\b(?![/-]|\.\w)")
OTHERS = {"std", "testing", "hn", "hwy", "onnx", "google"}
QUOTED = re.compile(r"(?<!`)`([^`\n]{2,60})`(?!`)")
WORD = re.compile(r"[A-Za-z_]\w*")


CPP_COMMENT = re.compile(
    r'(?P<c>//[^\n]*|/\*.*?\*/)|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|`(?:\\.|[^`\\])*`", re.DOTALL)
# Also what a Python file says of itself and of its functions.
HASH_COMMENT = re.compile(
    r'(?P<c>^[ \t]*""".*?"""|(?:^|(?<=\s))#[^\n]*)|""".*?"""'
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL | re.MULTILINE)


def kind_of(path):
    return path.name if path.name == "CMakeLists.txt" else path.suffix


def strip_comments(text, kind):
    """(text without comments, [(position, comment)])"""
    if kind not in CPP | HASH | {"CMakeLists.txt"}:
        return text, []
    code, comments, at = [], [], 0
    for match in (CPP_COMMENT if kind in CPP else HASH_COMMENT).finditer(text):
        if match.group("c") is not None:
            code.append(text[at:match.start()])
            comments.append((match.start(), match.group("c")))
            at = match.end()
    return "".join(code) + text[at:], comments


def is_data(path):
    """What fuzzing found, and what it begins with."""
    return "corpus" in path.parts or "found" in path.parts


class Known:
    """The words of all code, and the names of all files."""

    def __init__(self, root, files):
        self.words, self.paths = set(FOREIGN), set()
        for path in files:
            for i, part in enumerate(path.parts):
                self.paths.add("/".join(path.parts[i:]))
                self.words.update(WORD.findall(part))
            known = path.suffix in CODE or path.name in {"CMakeLists.txt", "Makefile", "run"}
            if known and not is_data(path):
                text = (root / path).read_text(encoding="utf-8", errors="replace")
                code, _ = strip_comments(text, kind_of(path))
                self.words.update(WORD.findall(code))
                # What CMake embeds under another name, and includes of libraries.
                self.paths.update(re.findall(r"[\w/-]+\.\w+", code))

    def word(self, name):
        """Also as a member (name_) or a plural."""
        if name in self.words or name.rstrip("_") in self.words or name + "_" in self.words:
            return True
        return name.endswith("s") and (name[:-1] in self.words or name[:-2] in self.words)

    def file(self, name):
        return name in self.paths or name.split("/")[-1] in self.paths and "/" not in name


def candidates(text, known, document):
    """(match, whether nothing has it) of each name in a text, the longest form first."""
    for match in FILE.finditer(text):
        yield match, not known.file(match.group(1))
    for pattern in (CALL, SCOPED):
        for match in pattern.finditer(text):
            parts = [p for p in match.group(1).replace("~", "").split("::") if p]
            yield match, parts[0] not in OTHERS and not all(known.word(p) for p in parts)
    if document:
        return
    for pattern in (CAMEL, SNAKE):
        for match in pattern.finditer(text):
            yield match, not known.word(match.group(1)) and not known.file(match.group(1))
    for match in QUOTED.finditer(text):
        if re.fullmatch(r"[A-Za-z_][\w.]*(?:\(\))?", match.group(1)):
            words = [w for w in WORD.findall(match.group(1)) if len(w) > 2]
            yield match, not all(known.word(w) for w in words)


def dead_in(text, known, document=False):
    """(offset, name) for each name in a comment's text that nothing has."""
    found, seen = [], []
    for match, dead in candidates(text, known, document):
        first, last = match.span(1)
        inside = any(a <= first < b for a, b in seen)
        if dead and not inside and not EXAMPLE_NAME.fullmatch(match.group(1)):
            found.append((first, match.group(1)))
        if dead or match.re is FILE:
            seen.append((first, last))
    return found


def comments_of(root, path):
    """(text, [(position, comment)], whether it is a document)"""
    document = path.suffix == ".md" and path.name != "CHANGELOG.md"
    if is_data(path) or not document and kind_of(path) not in CPP | HASH | {"CMakeLists.txt"}:
        return "", [], False
    text = (root / path).read_text(encoding="utf-8", errors="replace")
    if not document:
        return text, strip_comments(text, kind_of(path))[1], False
    plain = re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text,
                   flags=re.DOTALL | re.MULTILINE)
    return text, [(0, plain)], True


def dead_references(root, files):
    """(path, line, message) for each name that nothing has."""
    known = Known(root, files)
    for path in files:
        text, comments, document = comments_of(root, path)
        for position, comment in comments:
            for offset, name in dead_in(comment, known, document):
                line = text.count("\n", 0, position + offset) + 1
                place = "a document" if document else "a comment"
                yield path, line, f"{place} names {name}, allowed what the tree has"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True,
                            check=True)
    files = sorted(pathlib.PurePosixPath(n) for n in listed.stdout.split("\0") if n)
    found = list(dead_references(root, [f for f in files if (root / f).is_file()]))
    print("\n".join([f"{p}:{n}: {m}" for p, n, m in found] + [f"{len(found)} names"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
