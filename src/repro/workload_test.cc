#include "repro/workload.h"

#include <gtest/gtest.h>

#include "repro/workload_timing.h"

namespace tessera::repro {
namespace {

using Extents = std::vector<std::int64_t>;

TEST(Workload, EveryFormIsRead) {
  const struct {
    const char* name;
    WorkloadKind kind;
    Extents extents;
    std::int64_t macs;
  } rows[] = {
      {"gemm_1x1x1", WorkloadKind::kProduct, {1, 1, 1}, 1},
      {"gemm_16384x16384x16384", WorkloadKind::kProduct, {16384, 16384, 16384}, 1LL << 42},
      {" GEMM_7x13x5\t", WorkloadKind::kProduct, {7, 13, 5}, 455},
      // 2 images of 5 x 4 outputs of 16 channels, 3 x 3 taps of 8 channels.
      {"conv_2x9x8x8x16x3x2x1", WorkloadKind::kConvolution, {2, 9, 8, 8, 16, 3, 2, 1}, 46080},
      {"conv_1x1x1x1x1x1x1x0", WorkloadKind::kConvolution, {1, 1, 1, 1, 1, 1, 1, 0}, 1},
      {"attention_12x512x64", WorkloadKind::kAttention, {12, 512, 64}, 2LL * 12 * 512 * 512 * 64},
      {"layernorm_512x768", WorkloadKind::kLayerNorm, {512, 768}, 0},
      {"softmax_8x16x32", WorkloadKind::kSoftmax, {8, 16, 32}, 0},
      {"resnet18", WorkloadKind::kNetwork, {}, 0},
      {"ResNet50", WorkloadKind::kNetwork, {}, 0},
      {"bert_base", WorkloadKind::kNetwork, {}, 0},
  };
  for (const auto& row : rows) {
    const auto workload = parse_workload(row.name);
    ASSERT_TRUE(workload.ok()) << workload.error().message;
    EXPECT_EQ(workload->kind, row.kind) << row.name;
    EXPECT_EQ(workload->extents, row.extents) << row.name;
    EXPECT_EQ(workload_macs(*workload), row.macs) << row.name;
  }
}

TEST(Workload, OddOnesAreRefusedByName) {
  for (const char* name : {"",
                           "gemm",
                           "gemm_",
                           "gemm_1x2",
                           "gemm_1x2x3x4",
                           "gemm_1x2x0",
                           "gemm_1x2x-3",
                           "gemm_1x2x3x",
                           "gemm_1x2x3.5",
                           "gemm_1 x2x3",
                           "gemm_1x2x3_f16",
                           "gemm_131073x1x1",
                           "gemm_99999999999999999999x1x1",
                           "conv_1x9x9x8x16x3x2",
                           "conv_1x9x9x8x16x3x0x1",
                           "conv_1x2x9x8x16x5x1x1",
                           "conv_1x9x9x8x16x3x2x1x1",
                           "attention_12x512",
                           "layernorm_",
                           "softmax_1x1x1x1x1x1x1",
                           "softmax_0",
                           "vgg16",
                           "bert_large",
                           "gemm_65536x65536x1"}) {
    const auto workload = parse_workload(name);
    ASSERT_FALSE(workload.ok()) << name;
    EXPECT_NE(workload.error().message.find("allowed gemm_MxKxN, conv_"), std::string::npos)
        << workload.error().message;
  }
}

// A runner of closed forms: a cycle a thousand multiply-accumulates, and one more.
Result<WorkloadRun> counted(const Workload& workload, const ChipConfig&) {
  if (workload.kind == WorkloadKind::kSoftmax) {
    return Error{ErrorCode::kUnsupported, "not today"};
  }
  const std::int64_t macs = workload_macs(workload);
  return WorkloadRun{.cycles = macs / 1000 + 1, .macs = macs, .dram_bytes = 0};
}

TEST(WorkloadTiming, RowsOfAFileWithOddLinesAreComparedOrNamed) {
  const auto file = CsvTable::parse(
      "\xef\xbb\xbf# figures of a core\r\nWorkload , \"TPUv3\"\r\n\r\n gemm_10x10x100 , 10\r\n"
      "\"gemm_10x10x1000\",\"101\",\r\n# gemm_1x1x1,1\r\nvgg16,5\r\ngemm_1x1x1\r\n"
      "gemm_1x1x1,none\r\nsoftmax_8x8,3\r\ngemm_10x10x100,22",
      "tpuv3.csv", BadRows::kLeftOut);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto tables = tpuv3_timing(*file, counted);
  ASSERT_TRUE(tables.ok()) << tables.error().message;
  ASSERT_EQ(tables->size(), 1u);
  const TimingTable& table = tables->front();
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0].name, "gemm_10x10x100");
  EXPECT_EQ(table.rows[0].ours, 11);
  EXPECT_EQ(table.rows[1].error_percent(), 0);
  EXPECT_EQ(table.rows[2].error_percent(), -50);
  EXPECT_EQ(table.mean_absolute_error_percent(), 20);
  EXPECT_EQ(table.median_absolute_error_percent(), 10);
  EXPECT_EQ(table.worst_row(), "gemm_10x10x100");
  const std::vector<std::string>& notes = table.notes;
  ASSERT_EQ(notes.size(), 5u);
  EXPECT_EQ(notes[0], "left out: tpuv3.csv:8: found 1 cells, the header has 2");
  EXPECT_NE(notes[1].find("tpuv3.csv:7: workload 'vgg16': not modelled"), std::string::npos);
  EXPECT_NE(notes[2].find("tpuv3.csv:9: TPUv3: found 'none'"), std::string::npos);
  EXPECT_EQ(notes[3], "left out: line 10: workload 'softmax_8x8': not today");
}

TEST(WorkloadTiming, TimesAreComparedBesideCyclesOfAnotherClock) {
  const auto file = CsvTable::parse(
      "workload,dtype,cycles,latency_ns\ngemm_100x100x175,float16,3502,1000.57\n"
      "gemm_100x100x175,int8,1,1\n",
      "tpuv6e.csv", BadRows::kLeftOut);
  ASSERT_TRUE(file.ok());
  const auto tables = tpuv6e_timing(*file, counted);
  ASSERT_TRUE(tables.ok()) << tables.error().message;
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_EQ((*tables)[0].rows.at(0).ours, 1751);
  EXPECT_NEAR((*tables)[0].rows[0].error_percent(), -50, 0.01);
  // 1,751 cycles of 1.75 GHz.
  EXPECT_NEAR((*tables)[1].rows.at(0).ours, 1000.57, 0.01);
  EXPECT_EQ((*tables)[0].rows.size(), 1u);
  EXPECT_NE((*tables)[0].notes.at(0).find("dtype: found 'int8'"), std::string::npos);
  EXPECT_NE((*tables)[0].notes.at(1).find("cycles of 3.500 GHz"), std::string::npos);
  EXPECT_NE((*tables)[0].notes.at(1).find("compare nanoseconds"), std::string::npos);
}

}  // namespace
}  // namespace tessera::repro
