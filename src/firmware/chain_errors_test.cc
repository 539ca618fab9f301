// Every rule of the chain level, broken once: the message names line, column, rule and way out.
#include <gtest/gtest.h>

#include "firmware/assembler.h"

namespace tessera::firmware {
namespace {

// Declarations that the cases below share; they take lines 2 to 10.
constexpr const char* kHead =
    "queue x [64] in\n"
    "queue y [32] out\n"
    "matrix W [32, 64] in matrix = random 1 0.1\n"
    "vector b [32] in addsub = 0\n"
    "vector m [32] in multiply = 0\n"
    "vector v [8, 8, 64] in initial = 0\n"
    "vector u [32] in initial\n"
    "dram k [4, 32] = 1.5\n"
    "set three = 3\n";

// The error of the text behind the head, without the file's name.
std::string error_of(const std::string& text, bool streaming = false) {
  const ChipConfig chip;
  AssembleOptions options;
  options.chip = &chip;
  options.streaming = streaming;
  const auto program = assemble("firmware 1\n" + std::string(kHead) + text, "t", options);
  return program.ok() ? "" : program.error().message;
}

std::string error_of_chain(const std::string& lines) {
  return error_of("chain \"c\"\n" + lines + "end\n");
}

TEST(ChainErrors, ProductsAndVectorUnits) {
  EXPECT_EQ(error_of_chain("read x\nproduct W\nproduct W\nwrite y\n"),
            "t:14:1: a second product; a chain has at most one, write and begin another");
  EXPECT_EQ(error_of_chain("read u\nadd b\nproduct W\nwrite y\n"),
            "t:12:6: 'u' is read before anything was written to it; give it contents, as in '= 0', "
            "or write it first");
  EXPECT_EQ(error_of_chain("read v[0, 0]\nrelu\nproduct W\nwrite y\n"),
            "t:14:1: a product stands first in its chain, behind the read");
  EXPECT_EQ(error_of_chain("read x\nproduct W\nadd b\nsubtract b\nwrite y\n"),
            "t:15:1: 'subtract' finds no vector unit: 'tessera128' has 1, each with one "
            "multiplier, one adder and one activation a chain; write to a register file here, and "
            "begin another chain");
}

TEST(ChainErrors, Memories) {
  EXPECT_EQ(error_of_chain("read x\nproduct W\nadd m\nwrite y\n"),
            "t:14:5: 'm' lies in multiply; add takes the register file addsub");
  EXPECT_EQ(error_of_chain("read b\nwrite y\n"),
            "t:12:6: 'b' lies in addsub; read takes an incoming queue, DRAM or the register file "
            "initial");
  EXPECT_EQ(error_of_chain("read x\nproduct b\nwrite y\n"),
            "t:13:9: 'b' lies in addsub; product takes the matrix register file, or rows of it in "
            "initial");
  EXPECT_EQ(error_of_chain("read x\nproduct W\nwrite x\n"),
            "t:14:7: 'x' lies in incoming queue; write takes an outgoing queue, DRAM or a register "
            "file");
  EXPECT_EQ(error_of_chain("read x\nproduct W\nwrite k[0]\n"),
            "t:14:7: 'k' is a constant; a chain writes to an output or to the workspace");
  EXPECT_EQ(error_of_chain("read x\nproduct W\nmultiply addsub[0]\nwrite y\n"),
            "t:14:10: 'addsub' lies in addsub; multiply takes the register file multiply");
}

TEST(ChainErrors, WindowsAndIterations) {
  EXPECT_EQ(error_of_chain("read v window 9 x 1\nproduct W\nwrite y\n"),
            "t:12:1: a window of 9 with pad 0 and tap 0 on a volume of 8: it must fit, and pad and "
            "tap are smaller than the window");
  EXPECT_EQ(
      error_of_chain("iterate 9\nread v[0] step 1\nrelu\nwrite u\n"),
      "t:13:6: 9 iterations in steps of 1 reach vector 8 of 'v', which has 8 along this axis");
  EXPECT_EQ(error_of_chain("iterate 2 x 2\nread v step 1 x 1 x 1\nproduct W\nadd b\nwrite y\n"),
            "t:16:7: all 2 iterations would write one vector of 'y'");
  EXPECT_EQ(error_of_chain("iterate 4 x 4\nread v\nproduct W\nwrite y\n"),
            "t:13:6: 'v' has 1 x 8 x 8 vectors, the chain 1 x 4 x 4 iterations; give 'step', or "
            "'iterate' in front of the read");
  EXPECT_EQ(error_of_chain("read v window 2 x 2 pad 1 x 1\nrelu\nwrite v\n"),
            "t:12:6: a window without a product takes one 'tap' and no pad: nothing stands in for "
            "what lies outside");
  EXPECT_EQ(error_of_chain("read v[8]\nwrite v\n"), "t:12:8: index 8 of 'v', allowed 0..7");
  EXPECT_EQ(error_of_chain("iterate 1 x 1 x 1 x 1\n"), "t:12:21: iterations: more than 3 axes");
}

TEST(ChainErrors, Addresses) {
  EXPECT_EQ(error_of("vector w [2, 300] in addsub at 0\n"),
            "t:11:8: 'w' at 0..5 of addsub overlaps 'b' at 0..0, declared in line 5; leave 'at' "
            "out, and it is placed");
  EXPECT_EQ(error_of("file multiply 4\nvector w [600] in multiply\n"),
            "t:12:8: 'w' takes native vectors 1..5 of multiply, which has 4; enlarge the file or "
            "share an address");
  EXPECT_EQ(error_of_chain("read initial[0]\nwrite y\n"),
            "t:12:6: an address in initial whose size is not declared; declare it with 'file "
            "initial NUMBER'");
  EXPECT_EQ(error_of("file initial 80\nchain \"c\"\niterate 5\nread initial[70] length 300\n"
                     "write y\nend\n"),
            "t:14:6: native vectors 70..84 of initial, which has 80");
}

TEST(ChainErrors, Shapes) {
  EXPECT_EQ(error_of_chain("read v\nproduct W\nadd v\nwrite y\n"),
            "t:14:5: 'v' lies in initial; add takes the register file addsub");
  EXPECT_EQ(error_of_chain("read x\nadd b\nwrite y\n"),
            "t:13:5: 'b' has vectors of 32 elements, the chain's have 64");
  EXPECT_EQ(error_of_chain("read k[0]\nproduct W\nwrite y\n"),
            "t:13:1: 'W' has columns of 64 and a window of 1 x 1 x 1, the chain's vectors have 32 "
            "elements and a window of 1 x 1 x 1");
  EXPECT_EQ(error_of("vector w [4] in initial = [1, 2, 3]\n"),
            "t:11:8: 'w' has 4 elements, its contents 3");
}

TEST(ChainErrors, OrderOfLines) {
  EXPECT_EQ(error_of_chain("relu\nwrite y\n"), "t:12:1: 'relu' in front of the read");
  EXPECT_EQ(error_of_chain("read x\nproduct W\n"), "t:11:1: a chain ends with one or more writes");
  EXPECT_EQ(error_of_chain("read x\nproduct W\nwrite y\nrelu\n"),
            "t:15:1: 'relu' behind a write; begin another chain");
  EXPECT_EQ(error_of_chain("read x\nread x\n"),
            "t:13:1: a second read; a chain has one, operations bring the others");
  EXPECT_EQ(
      error_of_chain("read x\nsigmod\nwrite y\n"),
      "t:13:1: 'sigmod' is no line of a chain; did you mean 'sigmoid'? allowed: iterate, "
      "engines, read, write, product, correlate, quantised, end, add, subtract, subtract_from, "
      "maximum, multiply, relu, sigmoid, tanh, exp, reciprocal, square_root, softmax");
}

TEST(ChainErrors, Engines) {
  EXPECT_EQ(error_of_chain("engines load\nread x\nproduct W\nwrite y\n"),
            "t:12:9: found 'load'; allowed: 'neural' or 'planar', the kind of the engines");
  EXPECT_EQ(error_of_chain("read x\nengines neural unicast\nproduct W\nwrite y\n"),
            "t:13:1: 'engines' behind the read; it stands in front of it");
  EXPECT_EQ(error_of_chain("engines neural 2 to 2\nread x\nproduct W\nwrite y\n"),
            "t:12:21: engines 2 to 2: 1 to 255 engines, the last excluded");
  EXPECT_EQ(error_of_chain("engines neural together\nread x\nproduct W\nwrite y\n"),
            "t:12:16: found 'together'; allowed: engines as in 0 to 2, 'broadcast' or 'unicast'");
  EXPECT_EQ(error_of_chain("engines neural 1 to 3\nread x\nproduct W\nwrite y\n"),
            "t:11:1: this comes to a neural task that cannot be: runs on engines 1 to 2 of its "
            "kind, the core has 1");
}

TEST(ChainErrors, NamesAndScalars) {
  EXPECT_EQ(error_of("vector b [2] in initial\n"), "t:11:8: 'b' is declared in line 5 already");
  EXPECT_EQ(error_of("set a = thre * 2\n"),
            "t:11:9: the value: 'thre' is no scalar register; did you mean 'three'? declare it "
            "with 'set thre = VALUE'");
  EXPECT_EQ(error_of("set a = three / (three - 3)\n"), "t:11:15: the value: division by 0");
  EXPECT_EQ(
      error_of("chian \"c\"\n"),
      "t:11:1: 'chian' is no statement; did you mean 'chain'? allowed: set, file, scalar, vector, "
      "matrix, queue, dram, chain, task, repeat, steps");
  EXPECT_EQ(error_of_chain("read xx\nwrite y\n"),
            "t:12:6: 'xx' is not declared; did you mean 'x'?");
}

TEST(ChainErrors, LoopsAndStreaming) {
  EXPECT_EQ(error_of("repeat i 2\n"), "t:12:1: the text ends inside a loop; close it with 'end'");
  EXPECT_EQ(error_of("repeat i 0\nend\n"), "t:11:10: the count is 0, allowed 1..1048576");
  EXPECT_EQ(error_of("repeat i 2\nsteps t 2\nend\nend\n"),
            "t:12:1: one time loop a text, and not inside another loop");
  EXPECT_EQ(error_of("repeat i 2\nvector w [2] in initial\nend\n"),
            "t:12:1: 'vector' in a loop; declare names in front of it");
  EXPECT_EQ(error_of("repeat i 1000\nrepeat j 1000\nset a = i\nset b = j\nend\nend\n"),
            "t:13:1: the loops unroll into more than 131072 chains or 1048576 statements");
  EXPECT_EQ(error_of("repeat i 1048576\nrepeat j 1048576\nend\nend\n"),
            "t:12:1: the loops unroll into more than 131072 chains or 1048576 statements");
  const std::string chain = "chain \"c\"\nread x\nproduct W\nwrite y\nend\n";
  EXPECT_EQ(error_of(chain, true),
            "t:1:1: streaming runs the time loop's body for every vector that arrives; this text "
            "has none: write 'steps t COUNT' ... 'end'");
  EXPECT_EQ(error_of(chain + "steps t 2\n" + chain + "end\n", true),
            "t:11:1: a queue in front of the time loop; streaming passes vectors inside it only");
  EXPECT_EQ(error_of("steps t 2\n" + chain + "end\n" + chain, true),
            "t:18:1: a chain behind the time loop; streaming has no end to run it at");
}

TEST(ChainErrors, WhatDoesNotFitTheProcessor) {
  EXPECT_EQ(error_of("vector w [2, 300, 300, 128] in initial\n"),
            "t:1:1: the register files (initial 180065, addsub 1, multiply 1 native vectors) take "
            "360134 bytes of a partition, 'tessera128' has 196608");
  EXPECT_EQ(error_of("matrix Z [8192, 512] in matrix = 0\nvector z [512] in initial = 0\n"
                     "queue o [8192] out\nchain \"c\"\nread z\nproduct Z\nwrite o\nend\n"),
            "t:14:1: the matrices take 65536 bytes of a partition of the matrix register file, "
            "'tessera128' has 32768; use fewer at a time, or a chip with more");
  EXPECT_EQ(error_of("dram i [300, 400, 128] input\ndram o [300, 400, 128] output\n"
                     "chain \"c\"\nread i\nrelu\nwrite o\nend\n"),
            "t:13:1: the temporaries of this chain do not fit into the 196474 bytes of a partition "
            "behind the register files; iterate over less at a time");
}

}  // namespace
}  // namespace tessera::firmware
