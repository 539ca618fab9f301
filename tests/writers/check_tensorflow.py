"""check_tensorflow.py FILE: does it compile, and does it use raw operations that exist, and them alone?

The list of operations is that of the stand-in, which has only what TensorFlow has.
"""
import ast
import inspect
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "stand_in"))
import tensorflow  # noqa: E402

ALLOWED = {"constant", "convert_to_tensor", "raw_ops", "bool"} | {
    f"{kind}{bits}" for kind in ("float", "int", "uint") for bits in (8, 16, 32, 64)}


def check(tree):
    """(line, message) of everything wrong."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "tf" and node.attr not in ALLOWED:
                yield node.lineno, f"tf.{node.attr} is no part of the public interface used here"
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("tf.raw_ops."):
            continue
        name = node.func.attr
        operation = getattr(tensorflow.raw_ops, name, None)
        if operation is None:
            yield node.lineno, f"there is no raw operation '{name}'"
            continue
        given = {keyword.arg for keyword in node.keywords}
        if node.args or given != set(inspect.signature(operation).parameters):
            yield node.lineno, f"{name} does not take {sorted(given)}"


def main():
    path = sys.argv[1]
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    wrong = list(check(tree))
    for line, message in wrong:
        print(f"{path}:{line}: {message}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
