"""The kernels for 64-bit ARM: compiled with NEON, their tests run on an emulated processor.

neon_test.py SOURCE_FOLDER BUILD_FOLDER; 77 where the compiler, the emulator or GoogleTest's sources are absent.
"""

import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
COMPILERS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-g++-12")
EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
SOURCES = ("/usr/src/googletest/CMakeLists.txt", "/usr/include/hwy/highway.h", "/usr/include/fmt/format.h")


def first_of(names):
    return next((name for name in names if shutil.which(name)), None)


def absent():
    """What is not there, or nothing."""
    if first_of(COMPILERS) is None:
        return "a compiler for 64-bit ARM (g++-12-aarch64-linux-gnu)"
    if first_of(EMULATORS) is None:
        return "an emulator of 64-bit ARM (qemu-user)"
    return next((path for path in SOURCES if not pathlib.Path(path).exists()), None)


def main():
    source, build = (pathlib.Path(argument) for argument in sys.argv[1:3])
    missing = absent()
    if missing:
        print(f"skipped: {missing} is absent; scripts/install_packages.sh build neon installs all that it takes")
        return SKIPPED
    compiler = first_of(COMPILERS)
    subprocess.run(
        ["cmake", "-S", source / "tests/neon/program", "-B", build, "-G", "Ninja", "-DCMAKE_SYSTEM_NAME=Linux",
         "-DCMAKE_SYSTEM_PROCESSOR=aarch64", f"-DCMAKE_CXX_COMPILER={compiler}",
         f"-DCMAKE_C_COMPILER={compiler.replace('g++', 'gcc')}", "-DCMAKE_EXE_LINKER_FLAGS=-static",
         "-DTESSERA_UNITY=ON"],
        check=True)
    subprocess.run(["cmake", "--build", build, "--parallel", "2", "--target", "kernels_test"], check=True)
    test = build / "arith" / "kernels" / "kernels_test"
    return subprocess.run([first_of(EMULATORS), test, "--gtest_brief=1"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
