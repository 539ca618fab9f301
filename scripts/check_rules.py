#!/usr/bin/env python3
"""Checks the rules of the house that no compiler checks.

    scripts/check_rules.py [ROOT]

Prints one line a violation, "file:line: what was found, what is allowed", and ends with status 1
where there is any. scripts/check_rules_test.py breaks each rule once. include_circles.py has the
rules about what depends on what among files, dead_references.py those about names in comments.
"""
import pathlib
import re
import subprocess
import sys

from dead_references import dead_references
from include_circles import circles

FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
SOURCE_SUFFIXES = {".h", ".cc", ".cpp", ".cmake", ".py", ".sh", ".ts", ".js", ".mjs", ".cjs",
                   ".html", ".tasm"}
FORBIDDEN_FOLDERS = {"utils", "util", "common", "helpers", "misc"}
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:home|root|work|Users|mnt)/[\w.-]+")
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Which folders of src/ a folder may include and link, besides itself. The waist (base, arch, arith,
# isa) is open to everyone; the compiler and the virtual processor never see each other.
WAIST = {"base", "arch", "arith", "isa"}
ALLOWED_INCLUDES = {
    "base": set(),
    "arith": {"base"},
    "arch": {"base", "arith"},
    "isa": {"base", "arith", "arch"},
    "model": {"base", "arith"},
    "graph": {"base", "arith", "arch", "model"},
    "package": WAIST | {"graph"},  # the graph travels in the package
    "firmware": WAIST,
    "compile": WAIST | {"package", "model", "graph"},
    "link": WAIST,
    "engines": WAIST,
    "card": WAIST | {"engines"},
    "host": WAIST | {"model", "graph"},
    "concord": WAIST | {"package", "model", "graph"},
    "network": WAIST | {"package", "model", "graph", "compile", "concord", "firmware", "link", "card"},
    "pipeline": {"base", "metrics"},
    "memory": {"base"},
    "schedule": {"base", "arch"},
    "device": WAIST | {"package", "graph", "network", "link", "card", "host", "concord", "metrics",
                       "memory"},
    "cluster": {"base", "arch", "network", "package", "device", "store", "transport"},
    "runtime": WAIST | {"package", "model", "graph", "network", "device", "cluster", "host", "pipeline",
                        "metrics", "dashboard", "schedule"},
    "c": set(),  # the public C++ interface is all it stands on
    "repro": WAIST | {"card"},
    "metrics": {"base"},
    "http": {"base"},
    "dashboard": {"base", "metrics", "http"},
    "serve": {"base", "http"},  # and the public C++ interface
    "store": {"base"},
    "transport": {"base"},
    "cluster_simulation": {"base", "store"},
    "zoo": {"base"},  # writes ONNX; its tests read it back
}
# What the processor is made of. Their tests stand on nothing more either.
ALONE = {"isa", "engines", "card"}
# What stands behind the public interface, which is all that the C interface includes.
LINKED_BESIDES = {"c": {"arith", "network", "runtime"}, "serve": {"runtime"}}
# Public headers that are for applications: nothing below the runtime knows of them.
APPLICATION_HEADERS = {"tessera/session.h", "tessera/shared_session.h", "tessera/runtime.h",
                       "tessera/memory.h", "tessera/virtual_card.h", "tessera/cluster.h",
                       "tessera/card_schedule.h",
                       "tessera/dynamic_pipeline.h", "tessera/growing_pipeline.h", "tessera/picture.h", "tessera/tessera.h", "tessera/tessera_c.h",
                       "tessera/tessera_dynamic_c.h", "tessera/tessera_growing_c.h", "tessera/tessera_cluster_c.h"}
ABOVE_DEVICES = {"runtime", "c", "report", "serve", "tools"}


def list_files(root):
    """Files that git knows or would add; every file where ROOT is no git checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and (root / ".git").exists():
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
    return sorted(pathlib.PurePosixPath(n) for n in set(names) if (root / n).is_file())


def is_source(path):
    return path.suffix in SOURCE_SUFFIXES or path.name in {"CMakeLists.txt", "Makefile"}


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def strip_cpp(text):
    """The text without comments, literals and directives; lines stay where they are."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
        re.DOTALL | re.MULTILINE)

    def blank(match):
        quoted = match.group(0)[0] in "\"'R"
        return ('""' if quoted else "") + "\n" * match.group(0).count("\n")

    return pattern.sub(blank, text)


# Outside its parentheses a function's head has no "=" but that of an operator.
ASSIGNMENT = re.compile(r"(?<!operator)(?<![=!<>+*/%&|^-])=(?!=)")
TEMPLATE = re.compile(r"^template\s*<[^{;]*?>\s*(?=namespace|class|struct|union|enum)")


def classify(head):
    """What the brace after `head` opens: a scope to look into, a function, or anything else."""
    head = TEMPLATE.sub("", head.strip())
    if re.match(r"(?:inline\s+)?namespace\b|(?:class|struct|union)\b|extern\b", head):
        return "scope"
    if "(" not in head or head.count("(") != head.count(")") or head.startswith("enum"):
        return "other"
    outside, depth = "", 0
    for c in head:
        depth += {"(": 1, ")": -1}.get(c, 0)
        outside += c if depth == 0 else ""
    return "other" if ASSIGNMENT.search(outside) else "function"


def long_functions(text):
    """(first line, lines) of each function that is too long."""
    stripped = strip_cpp(text)
    found, stack, head, line = [], [], "", 1
    for c in stripped:
        if c == "\n":
            line += 1
        if c == "{":
            inside = any(kind != "scope" for kind, _ in stack)
            stack.append(("other" if inside else classify(head), line))
            head = ""
        elif c == "}":
            if stack:
                kind, first = stack.pop()
                if kind == "function" and line - first + 1 > FUNCTION_LINES_MAX:
                    found.append((first, line - first + 1))
            head = ""
        elif c == ";":
            head = ""
        else:
            head += c
            if head.strip() in {"public:", "private:", "protected:"}:
                head = ""
    return found


def check_cpp(path, text):
    # Highway includes a -inl.h once for each instruction set; such a file guards itself.
    once = path.suffix == ".h" and not path.name.endswith("-inl.h")
    if once and "#pragma once" not in text:
        yield 1, "no #pragma once, required in each header"
    for first, lines in long_functions(text):
        yield first, f"a function of {lines} lines, allowed {FUNCTION_LINES_MAX}"
    for match in INCLUDE.finditer(text):
        line = line_of(text, match.start())
        yield from ((line, message) for message in check_include(path, *match.groups()))


def check_include(path, bracket, name):
    """The messages about one #include line."""
    parts = path.parts
    if parts[:2] == ("include", "tessera"):
        standard = bracket == "<" and re.fullmatch(r"[a-z_0-9]+|std(?:int|def|bool)\.h", name)
        if not standard and not name.startswith("tessera/"):
            yield f"a public header includes {name}, allowed the standard library and tessera/"
    if parts[0] == "src" and len(parts) > 2 and bracket == '"':
        folder, other = parts[1], name.split("/")[0]
        allowed = ALLOWED_INCLUDES.get(folder)
        # Tests may look at more: they compare one part with another.
        test = path.name.endswith("_test.cc") or "testing" in parts
        if name in APPLICATION_HEADERS and folder not in ABOVE_DEVICES and not test:
            yield f"src/{folder} includes {name}, which is for applications"
        if allowed is None or other == folder or other not in KNOWN_FOLDERS:
            return
        if test and folder not in ALONE:
            return
        if other not in allowed:
            names = ", ".join(sorted(allowed)) or "nothing"
            yield f"src/{folder} includes {name}, allowed {names}"


KNOWN_FOLDERS = set(ALLOWED_INCLUDES) | {"report", "tools", "cluster", "serve"}


LIBRARY = re.compile(r"\btessera_library\(\s*(tessera_\w+)([^()]*)\)")


def check_links(path, text):
    """The messages about what the library of a folder is linked with."""
    folder = path.parts[1]
    for match in LIBRARY.finditer(re.sub(r"#[^\n]*", "", text)):
        if match.group(1) != f"tessera_{folder}":
            continue  # what tests share
        for other in re.findall(r"\btessera_(\w+)", match.group(2)):
            allowed = ALLOWED_INCLUDES.get(folder)
            if allowed is None or other not in KNOWN_FOLDERS or other in allowed:
                continue
            if other in LINKED_BESIDES.get(folder, set()):
                continue
            names = ", ".join(sorted(allowed)) or "nothing"
            yield line_of(text, text.index(match.group(1))), (
                f"src/{folder} is linked with tessera_{other}, allowed {names}")


def check_text(path, text):
    if path.suffix in SOURCE_SUFFIXES or path.name == "CMakeLists.txt":
        lines = text.count("\n")
        if lines > FILE_LINES_MAX:
            yield 1, f"a file of {lines} lines, allowed {FILE_LINES_MAX}"
    for match in TODO.finditer(text):
        yield line_of(text, match.start()), f"{match.group(1)} without a number, allowed TODO(#123)"
    for match in MACHINE_PATH.finditer(text):
        yield (line_of(text, match.start()),
               f"the path {match.group(0)} of one machine, allowed relative paths")
    if path.suffix in {".h", ".cc", ".cpp"}:
        yield from check_cpp(path, text)
    if path.name == "CMakeLists.txt" and path.parts[0] == "src" and len(path.parts) == 3:
        yield from check_links(path, text)


def check_folders(root, files):
    """Rules about names and lists, not about the text of one file."""
    for path in files:
        for part in path.parts[:-1]:
            if part in FORBIDDEN_FOLDERS:
                yield path, 1, f"a folder '{part}', allowed folders named after their subject"
    page = root / "docs" / "architecture.md"
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    for folder in sorted({p.parts[1] for p in files if p.parts[0] == "src" and len(p.parts) > 2}):
        if f"`src/{folder}/`" not in text:
            yield ("docs/architecture.md", 1,
                   f"src/{folder} is not in the table of folders, add `src/{folder}/`")
    lists = [p for p in files if p.name == "CMakeLists.txt" or p.suffix == ".cmake"]
    for path in files:
        if path.parts[0] != "src" or path.suffix != ".cc":
            continue
        if not any(named(root, each, path) for each in lists):
            yield path, 1, "a source that no list of CMake names"


# A path in the text of a page: `src/base/`, `CHANGELOG.md`, [numbers](docs/numbers.md). NAME stands
# for any.
PAGE_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:md|json))`|\]\(([\w./-]+)\)")


def check_contributing(root, files):
    """Recipes are true: every path that CONTRIBUTING.md names is in the tree."""
    page = "CONTRIBUTING.md"
    if not (root / page).is_file():
        return
    there = {str(p) for p in files} | {str(parent) for p in files for parent in p.parents}
    text = (root / page).read_text(encoding="utf-8")
    for match in PAGE_PATH.finditer(text):
        path = (match.group(1) or match.group(2)).rstrip("/")
        if "NAME" not in path and path not in there:
            yield page, line_of(text, match.start()), f"names {path}, which is not in the tree"


def named(root, cmake_list, path):
    """Whether a CMakeLists.txt or .cmake file in a folder above `path` names it."""
    if cmake_list.parent not in path.parents:
        return False
    name = str(path.relative_to(cmake_list.parent))
    return re.search(rf"(?<![\w/]){re.escape(name)}\b", (root / cmake_list).read_text()) is not None


def check(root):
    files = list_files(root)
    messages = [(str(path), line, text)
                for found in (check_folders(root, files), check_contributing(root, files),
                              circles(root, files), dead_references(root, files)) for path, line, text in found]
    for path in files:
        if not is_source(path) or path.name.startswith("check_rules"):
            continue
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        messages += [(str(path), line, message) for line, message in check_text(path, text)]
    return [f"{path}:{line}: {text}" for path, line, text in sorted(messages)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    messages = check(root)
    print("\n".join(messages + [f"rules: {len(messages)} broken"]))
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
