#!/usr/bin/env python3
"""Puts measured tables into a page.

    scripts/paste_tables.py TABLES.md PAGE.md

Each table of PAGE.md whose first line one of TABLES.md has, too, becomes that one: `tessera repro card --output FOLDER`
writes those of docs/card.md as FOLDER/tables.md. Prints what was replaced, and what found no place; the text around the
tables is left as it is.
"""
import pathlib
import sys


def tables_of(lines):
    """(first line's place, place behind the last) of each table."""
    places, first = [], None
    for i, line in enumerate(lines + [""]):
        if line.startswith("|") and first is None:
            first = i
        elif not line.startswith("|") and first is not None:
            places.append((first, i))
            first = None
    return places


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    new = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    page = pathlib.Path(sys.argv[2])
    tables = {new[first]: new[first:last] for first, last in tables_of(new)}
    lines = page.read_text(encoding="utf-8").splitlines()
    used = set()
    for first, last in reversed(tables_of(lines)):
        head = lines[first]
        if head in tables:
            lines[first:last] = tables[head]
            used.add(head)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for head in tables:
        print(f"{'replaced' if head in used else 'no place for'}: {head}")


if __name__ == "__main__":
    main()
