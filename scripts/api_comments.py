#!/usr/bin/env python3
"""Doxygen's input filter: the plain comments of the public headers as the comments that Doxygen reads.

    scripts/api_comments.py HEADER

Prints the header, each line in its place. A comment above a declaration begins with `///` there, one
behind a declaration with `///<`, and C's block comments likewise; the comment at the head of a file
describes the file. Pictures and examples, which are indented behind an empty line, are kept as they are, and
lines that begin with a term and two blanks are items of a list.
"""
import re
import sys

RULE = re.compile(r"-{10,}|NOLINT|namespace")  # comments that are of no declaration
LINE = re.compile(r"(\s*)//( ?)(.*)")
BEHIND = re.compile(r"(\s*\S.*?\s)//( ?)(.*)")
TERM = re.compile(r"(\w[\w()]*\.?) {2,}(\S.*)")  # "Errors.   A function that ...": an item of a list
# What a comment behind it does not describe.
NO_DECLARATION = re.compile(r"\s*(?:[{}]|#(?!\s*define)|namespace|return|public:|private:)")


def literal(text):
    """The text with nothing in it that Doxygen takes for a command or a tag; code in `` stays."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([\\@<>#%])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def marked(texts):
    """The lines of one comment; those of a picture are moved to where they are one."""
    result, picture, before = [], False, True
    for text in texts:
        indented = text.startswith("  ")
        picture = indented and (picture or before)
        before = not text.strip()
        term = TERM.fullmatch(text)
        if picture:
            result.append("    " + text)
        else:
            result.append(f"- **{term[1]}** {literal(term[2])}" if term else literal(text))
    return result


def of_lines(lines):
    """Comments of C++."""
    result, at = [], 0
    while at < len(lines):
        full = LINE.fullmatch(lines[at])
        if full:
            end = at
            while end < len(lines) and LINE.fullmatch(lines[end]):
                end += 1
            block = [LINE.fullmatch(line) for line in lines[at:end]]
            followed = end < len(lines) and lines[end].strip() and not NO_DECLARATION.match(lines[end])
            if at == 0 or (followed and not RULE.search(block[0][3])):
                texts = marked([line[3] for line in block])
                if at == 0:
                    texts[-1] += " @file"
                result += [f"{line[1]}/// {text}".rstrip() for line, text in zip(block, texts)]
            else:
                result += lines[at:end]
            at = end
            continue
        behind = BEHIND.fullmatch(lines[at])
        if behind and not NO_DECLARATION.match(lines[at]):
            column = len(behind[1])
            result.append(f"{behind[1]}///< {literal(behind[3])}")
            at += 1
            while at < len(lines) and (more := LINE.fullmatch(lines[at])) and len(more[1]) == column:
                result.append(f"{more[1]}///< {literal(more[3])}")
                at += 1
            continue
        result.append(lines[at])
        at += 1
    return result


def of_blocks(text):
    """Comments of C."""
    def replace(match):
        before, body = match[1], match[2]
        if RULE.search(body):
            return match[0]
        texts = marked([re.sub(r"^\s*\*? ?", "", line, count=1) if number else line.lstrip()
                        for number, line in enumerate(body.split("\n"))])
        mark = "/**< " if before.strip() else "/** "
        return before + mark + "\n".join(texts).rstrip() + (" @file" if match.start() == 0 else "") + " */"
    return re.sub(r"^([^\n]*?)/\*(.*?)\*/", replace, text, flags=re.M | re.S)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    print("\n".join(of_lines(of_blocks(text).split("\n"))), end="")


if __name__ == "__main__":
    main()
