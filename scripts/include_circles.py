#!/usr/bin/env python3
"""Circles of files: what depends on itself through others, a header and its sources as one part.

    scripts/include_circles.py [ROOT] [--parts]

Prints each circle with all that holds it together, and with --parts what each source belongs to.
check_rules.py calls circles(); its test has a small tree for each of the rules below.

What is one part:
 1. X.h and X.cc of one folder.
 2. A source without a header of its name, with the header that declares what it defines: where it
    defines members of a class of that header, or where that header has a source of its own name.
 3. A header that has neither (a list of functions that many sources define, as graph/operators.h)
    is a part of its own, and so is each of those sources.
 4. Headers in include/ are parts of their own: they are the interface, whoever implements them.

What depends on what:
 1. A file on each file that it includes, also by HWY_TARGET_INCLUDE.
 2. A file on the source that defines a function which it names, where that source is no part of the
    header that declares the function: includes alone would not show it.
 3. A header on the source that defines members of its classes, but an interface in include/.
 4. A file on the header that defines a class which it declares only, but an interface again.

So that nothing of this is hidden, a source declares no function that another file defines, no
#include names a macro, and no file of the product includes one of the tests. The tests' own files
(testing/, *_test*, test_*, testing_*) are left out: they look at whatever they compare.
"""
import collections
import os.path
import pathlib
import re
import sys

INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*(?:include|define[ \t]+HWY_TARGET_INCLUDE)[ \t]*["<]([^">]+)[">]', re.MULTILINE)
SUFFIXES = {".h", ".hpp", ".inc", ".ipp", ".cc"}
NAMESPACE = re.compile(r"^(?:inline )?namespace\b ?([\w:]*)$")
CLASS = re.compile(r"\b(?:class|struct|union)\b")
MACRO_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]+[A-Za-z_]\w*", re.MULTILINE)
TEMPLATE = re.compile(r"^(?:template\s*<.*?>\s*)+(?=\w)")
FORWARD = re.compile(r"(?:enum )?(?:class|struct|union) \w+(?: ?: ?[\w:]+)?")
SCOPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:inline\s+)?(namespace|class|struct|union|enum)\b")
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "alignof", "operator",
            "static_assert", "alignas", "noexcept", "defined", "catch", "requires", "assert"}
NAME = r"((?:~?\w+\s*(?:<[^<>]*>)?\s*::\s*)*(?:~?\w+|operator\s*\S{1,3}))\s*\("
ACCESS = re.compile(r"^\s*(?:(?:public|private|protected):\s*)+")


def strip(text):
    """The text without comments, literals and directives; lines stay where they are."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE)
    return pattern.sub(lambda m: "\n" * m.group(0).count("\n"), text)


def is_scope(head):
    return SCOPE.match(head) and "(" not in head or head.startswith("extern")


def heads(stripped):
    """Each head at namespace or class scope: (scopes around it, head, ends with a brace, line)."""
    scopes, depth, at, line = [], 0, 0, 1
    for match in re.finditer("[{};]", stripped):
        c, head = match.group(), stripped[at:match.start()]
        line += head.count("\n")
        at = match.end()
        if depth:
            depth += {"{": 1, "}": -1}.get(c, 0)
            continue
        plain = " ".join(ACCESS.sub("", head).split())
        if plain and c != "}":
            yield tuple(scopes), plain, c == "{", line
        if c == "{" and is_scope(plain):
            scopes.append(plain)
        elif c == "{":
            depth = 1
        elif c == "}" and scopes:
            scopes.pop()


def called(head):
    """(qualified name, parameters) of a function's head, or None."""
    head = TEMPLATE.sub("", head)
    for match in re.finditer(NAME, head):
        name = re.sub(r"\s|<[^<>]*>", "", match.group(1))
        if name.split("::")[-1] not in KEYWORDS:
            return name, parameters(head[match.end():])
    return None


def parameters(text):
    """The parameters up to the parenthesis that closes, without what they are by default."""
    found, one, depth = [], "", 0
    for c in text:
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(c, 0)
        if depth < 0 or c == "," and depth == 0:
            found.append(re.sub(r"\s|=.*", "", one))
            one = ""
            if depth < 0:
                break
        else:
            one += c
    return tuple(p for p in found if p)


def same(one, two):
    """Whether two lists of parameters are of one function; a name may be missing in one of them."""
    return len(one) == len(two) and all(
        a.startswith(b) or b.startswith(a) for a, b in zip(one, two))


def type_name(head):
    match = re.search(r"\b(?:class|struct|union)\s+(?:\[\[\w+\]\]\s*)?((?:\w+::)*\w+)",
                      TEMPLATE.sub("", head))
    return match.group(1) if match else None


def space_of(scopes):
    """The namespace or class that the scopes are, or None inside of one that has no name."""
    names = []
    for scope in scopes:
        match = NAMESPACE.match(scope)
        if match and not match.group(1):
            return None
        if not scope.startswith("extern"):
            names.append(match.group(1) if match else type_name(scope) or "enum")
    return "::".join(names)


class Names:
    """What one file declares and defines for others, by qualified names.

    functions, bodies: {name: [parameters]} of functions declared and defined, members among them;
    classes, forward: names of classes defined, and {name: line} of those declared alone.
    """

    def __init__(self, stripped):
        self.functions, self.bodies = {}, {}
        self.classes, self.forward, self.lines = set(), {}, {}
        for scopes, head, brace, line in heads(stripped):
            space = space_of(scopes)
            if space is None:
                continue
            self.add(space, any(CLASS.search(s) for s in scopes), head, brace, line)

    def add(self, space, inside, head, brace, line):
        before = space + "::" if space else ""
        function = None if is_scope(head) else called(head)
        if "(" not in head and type_name(head):
            name = before + type_name(head)
            if brace:
                self.classes.add(name)
            elif FORWARD.fullmatch(TEMPLATE.sub("", head)):
                self.forward.setdefault(name, line)
        elif head.startswith(("static ", "friend ", "using ", "typedef ")) or inside:
            return
        elif function:
            (self.bodies if brace else self.functions).setdefault(before + function[0], []).append(
                function[1])
            self.lines.setdefault(before + function[0], (line, head))
        elif re.match(r"(?:extern )?(?:const|thread_local)\b", head):
            variable = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*(=.*)?$", head)
            if variable:
                declared = head.startswith("extern") and not brace and not variable.group(2)
                table = self.functions if declared else self.bodies
                table.setdefault(before + variable.group(1), []).append(())

    def lists(self, name, each):
        return any(same(each, one) for one in self.functions.get(name, []))

    def class_of(self, name):
        """The class defined here that `name` is a member of, or None."""
        parts = name.split("::")
        return next((c for c in ("::".join(parts[:i]) for i in range(1, len(parts)))
                     if c in self.classes), None)


def line_of(text, match):
    return text.count("\n", 0, match.start(match.lastindex or 0)) + 1


def is_product(path):
    return not (path.name.endswith("_test.cc") or "testing" in path.parts
                or path.name.startswith(("testing_", "test_")) or "_test_" in path.name)


def resolve(name, path, files):
    """The file that #include "name" in `path` means, or None."""
    for base in ("src", "include", str(path.parent)):
        other = pathlib.PurePosixPath(os.path.normpath(f"{base}/{name}"))
        if other in files:
            return other
    return None


class Parts:
    """The files of src/ and include/, which part each belongs to, and what depends on what."""

    def __init__(self, text):
        self.text = {p: t for p, t in text.items() if is_product(p)}
        self.files = set(self.text)
        self.plain = {p: strip(t) for p, t in self.text.items()}
        self.names = {p: Names(t) for p, t in self.plain.items()}
        self.words = {p: set(re.findall(r"\w+", t)) for p, t in self.plain.items()}
        self.includes = {p: self.included(p) for p in self.files}
        self.reached = {p: self.closure(p) for p in self.files}
        self.why, self.part = {}, {}
        for path in sorted(self.files):
            self.part[path] = self.owner(path)

    def included(self, path):
        found = []
        for match in INCLUDE.finditer(self.text[path]):
            other = resolve(match.group(1), path, self.files)
            if other and other != path:
                found.append((other, line_of(self.text[path], match)))
        return found

    def closure(self, path):
        """{header: line of the include in `path` that leads to it}"""
        found, queue = {}, collections.deque(self.includes[path])
        while queue:
            other, line = queue.popleft()
            if other not in found and other != path:
                found[other] = line
                queue.extend((each, line) for each, _ in self.includes[other])
        return found

    def given(self, source, header):
        """What `source` defines that `header` declares: (functions, classes of members)."""
        bodies, names = self.names[source].bodies, self.names[header]
        functions = {n for n, lists in bodies.items() for one in lists if names.lists(n, one)}
        return functions, {c for c in map(names.class_of, bodies) if c}

    def owner(self, path):
        if path.suffix != ".cc" or path.with_suffix(".h") in self.files:
            return path.with_suffix(".h") if path.suffix == ".cc" else path
        best = None
        for header, _ in self.includes[path]:
            if header.suffix != ".h" or header.parts[0] == "include":
                continue
            functions, classes = self.given(path, header)
            count = len(functions) + sum(
                len(lists) for n, lists in self.names[path].bodies.items()
                if self.names[header].class_of(n))
            score = (count, header.parent == path.parent)
            if count and (best is None or score > best[0]):
                best = (score, header, functions | classes)
                self.why[path] = (header, best[2], classes)
        if best and (self.why[path][2] or best[1].with_suffix(".cc") in self.files):
            return best[1]
        return path

    def uses(self, path, name):
        """Whether `path` names what is called `name` (a::b::c)."""
        space, last = name.split("::")[-2:] if "::" in name else ("", name)
        if last not in self.words[path]:
            return False
        for match in re.finditer(rf"(?<![\w.>:])((?:\w+::)*){last}\b", self.plain[path]):
            qualifier = match.group(1).split("::")[-2] if match.group(1) else space
            if qualifier == space:
                return True
        return False

    def own(self, path, name):
        """Whether the part of `path` has a function of that name itself."""
        last = name.split("::")[-1]
        return any(n.split("::")[-1] == last for n in self.names[path].bodies)

    def edges(self):
        """{part: {part: [(file, line, file)]}}"""
        graph = {part: {} for part in self.part.values()}

        def join(path, line, other):
            one, two = self.part[path], self.part[other]
            if one != two:
                graph[one].setdefault(two, []).append((path, line, other))

        for path in sorted(self.files):
            for other, line in self.includes[path]:
                join(path, line, other)
        elsewhere = {}
        for source in sorted(p for p in self.files if p.suffix == ".cc"):
            for header in self.reached[source]:
                if self.part[header] == self.part[source]:
                    continue
                functions, classes = self.given(source, header)
                if classes and header.parts[0] != "include":
                    join(header, 1, source)
                if functions:
                    elsewhere.setdefault(header, []).append((source, functions))
        for path in sorted(self.files):
            for header, line in self.reached[path].items():
                for source, functions in elsewhere.get(header, ()):
                    if self.part[path] != self.part[source] and any(
                            self.uses(path, n) and not self.own(path, n) for n in functions):
                        join(path, line, source)
        for path, line, header in self.forward():
            join(path, line, header)
        return graph

    def forward(self):
        """(file, line, header) for each class that a file declares and a header defines."""
        where = {c: p for p in self.files if p.suffix == ".h" for c in self.names[p].classes}
        for path in sorted(p for p in self.files if p.parts[0] != "include"):
            for name, line in self.names[path].forward.items():
                if name in where and name not in self.names[path].classes:
                    yield path, line, where[name]

    def undeclared(self):
        """(file, line, name) for each function that a source declares and does not define."""
        for path in sorted(p for p in self.files if p.suffix == ".cc"):
            names = self.names[path]
            for name in names.functions:
                line, head = names.lines[name]
                if name not in names.bodies and re.match(r"(?:extern )?[\w:<>,*& ]+[ *&]~?[\w:]+\(",
                                                         head):
                    yield path, line, name


def components(graph):
    """Strongly connected components of more than one part (Tarjan, without recursion)."""
    index, low, stack, on, found = {}, {}, [], set(), []
    for start in sorted(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph[start])))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            node, rest = work[-1]
            step = next(rest, None)
            if step is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = set(stack[stack.index(node):])
                    del stack[stack.index(node):]
                    on -= group
                    if len(group) > 1:
                        found.append(group)
            elif step not in index:
                index[step] = low[step] = len(index)
                stack.append(step)
                on.add(step)
                work.append((step, iter(sorted(graph[step]))))
            elif step in on:
                low[node] = min(low[node], index[step])
    return sorted(found, key=sorted)


def shortest_circle(graph, group):
    best = None
    for start in sorted(group):
        before, queue = {start: None}, collections.deque([start])
        while queue:
            node = queue.popleft()
            if node != start and start in graph[node]:
                way = [node]
                while before[way[-1]] is not None:
                    way.append(before[way[-1]])
                if best is None or len(way) < len(best):
                    best = way[::-1]
                break
            for other in sorted(graph[node]):
                if other in group and other not in before:
                    before[other] = node
                    queue.append(other)
    return best


def read(root, listed):
    return {p: (root / p).read_text(encoding="utf-8", errors="replace") for p in listed
            if p.parts[0] in {"src", "include"} and p.suffix in SUFFIXES}


def hidden_includes(text):
    """(file, line, message) for each include that the graph of includes cannot see."""
    for path in sorted(p for p in text if is_product(p)):
        for match in MACRO_INCLUDE.finditer(text[path]):
            yield path, line_of(text[path], match), "an include of a macro, allowed the file's name"
        for match in INCLUDE.finditer(text[path]):
            other = resolve(match.group(1), path, text)
            if other and not is_product(other):
                yield (path, line_of(text[path], match),
                       f"the product includes {match.group(1)}, which is the tests'")


def circles(root, listed):
    """(path, line, message) for each circle, and for what could hide one."""
    text = read(root, listed)
    yield from hidden_includes(text)
    parts = Parts(text)
    graph = parts.edges()
    for group in components(graph):
        way = shortest_circle(graph, group)
        steps = [graph[one][two][0] for one, two in zip(way, way[1:] + way[:1])]
        said = ", ".join(f"{path}:{line} needs {other}" for path, line, other in steps)
        more = f" (one of a knot of {len(group)} files)" if len(group) > len(way) else ""
        yield steps[0][0], steps[0][1], f"a circle of files: {said}{more}, allowed one direction"
    for path, line, name in parts.undeclared():
        yield path, line, f"a declaration of {name}, allowed the header that declares it"


def print_parts(parts):
    for path in sorted(parts.files):
        if path.suffix == ".cc" and path.with_suffix(".h") not in parts.files:
            header, names, _ = parts.why.get(path, (None, (), None))
            owner = parts.part[path] if parts.part[path] != path else "its own"
            print(path, "->", owner, f"{header}: {', '.join(sorted(names))}" if header else "")


def print_knots(graph):
    for group in components(graph):
        print(f"== {len(group)} parts")
        for one in sorted(group):
            for two in sorted(set(graph[one]) & group):
                at = "; ".join(f"{p}:{n} -> {o}" for p, n, o in graph[one][two])
                print(f"   {one} -> {two}   [{at}]")


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parents[1])
    listed = [pathlib.PurePosixPath(p.relative_to(root)) for top in ("src", "include")
              for p in (root / top).rglob("*")]
    if "--parts" in sys.argv:
        print_parts(Parts(read(root, listed)))
        return 0
    print_knots(Parts(read(root, listed)).edges())
    found = list(circles(root, listed))
    print("\n".join([f"{p}:{n}: {m}" for p, n, m in found] + [f"{len(found)} circles"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
