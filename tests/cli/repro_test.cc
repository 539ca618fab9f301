// tessera repro: what it needs, what it prints, its fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "command.h"

namespace tessera::cli {
namespace {

using ::testing::HasSubstr;

// One row of each kind of figure, invented but for the first, which is the closed form.
std::string small_data() {
  const std::string folder = work_folder() + "/figures";
  std::filesystem::create_directories(folder);
  write_text(folder + "/scalesim_v3.csv",
             "dataflow_array,workload,cycles\n"
             "8x4_ws,gemm_10x8x16,111\n"    // 2 * 2 * (16 + 4 + 10 - 2) - 1
             "8x4_os,gemm_10x8x16,103\n");  // 2 * 2 * (8 + 4 + 16 - 2) - 1
  write_text(folder + "/gemmini_rtl_8x8_ws.csv",
             "kind,test,mapping,gemmini_rtl_cycles\n"
             "gemm,small,[T] N64 C64 M64 - [O] N2 C1 M2 - [I] N40 C64 M40,5000\n");
  return folder;
}

TEST(Repro, TimingGivesATableForEachFileThatIsThere) {
  const CommandResult text = tessera({"repro", "timing", "--data", small_data()});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("8x4_ws gemm_10x8x16"));
  EXPECT_THAT(text.out, HasSubstr("neuron_trn1_matmul.csv"));  // is not there

  const CommandResult result = tessera({"repro", "timing", "--data", small_data(), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = result.json();
  EXPECT_EQ(json.at("experiment"), "timing");
  ASSERT_EQ(json.at("tables").size(), 2u);
  const nlohmann::json& systolic = json.at("tables")[0];
  EXPECT_EQ(systolic.at("name"), "systolic");
  EXPECT_EQ(systolic.at("largest_error_percent"), 0.0);
  ASSERT_EQ(systolic.at("rows").size(), 2u);
  EXPECT_EQ(systolic.at("rows")[1].at("ours"), 103.0);
  EXPECT_EQ(systolic.at("rows")[1].at("difference"), 0.0);
  const nlohmann::json& row = json.at("tables")[1].at("rows")[0];
  // 8 x 8 x 8 commands of 8 cycles, and the loads before the first.
  EXPECT_GT(row.at("ours").get<double>(), 8 * 8 * 8 * 8);
  EXPECT_LT(row.at("ours").get<double>(), 2 * 8 * 8 * 8 * 8);
}

TEST(Repro, DramGivesItsErrorsAtTheTop) {
  const std::string folder = work_folder() + "/dram_figures";
  std::filesystem::create_directories(folder);
  const std::string header =
      "device,mapping,pattern,outstanding,requests,bandwidth_gbs,latency_mean_ns,latency_p99_ns,"
      "row_hits,row_misses,row_conflicts,refreshes\n";
  // Dependent reads of 21 cycles of 833 ps, less rows and refreshes; the second is twice that.
  write_text(folder + "/dram_reference.csv",
             header + "DDR4-2400,RoBaRaCoCh,1_seq_read,1,32768,3.460,18.5,30.8,32435,333,0,78\n" +
                 "DDR4-2400,RoBaRaCoCh,2_seq_write,1,32768,23.890,,,32489,279,0,23\n" +
                 "GDDR6,RoBaRaCoCh,1_seq_read,1,32768,3.460,18.5,30.8,32435,333,0,78\n");
  const CommandResult result = tessera({"repro", "dram", "--data", folder, "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = result.json();
  EXPECT_EQ(json.at("experiment"), "dram");
  EXPECT_NEAR(json.at("mean_error"), 25, 0.1);
  EXPECT_NEAR(json.at("p95_error"), 50, 0.1);
  EXPECT_NEAR(json.at("largest_error"), 50, 0.1);
  EXPECT_EQ(json.at("rows_compared"), 2);
  EXPECT_EQ(json.at("rows_left_out"), 1);
  ASSERT_EQ(json.at("rows").size(), 2u);
  const nlohmann::json& row = json.at("rows")[0];
  EXPECT_EQ(row.at("device"), "DDR4-2400");
  EXPECT_EQ(row.at("outstanding"), 1);
  EXPECT_NEAR(row.at("ours_gbs"), 3.460, 0.001);
  EXPECT_NEAR(row.at("ours_latency_mean_ns"), 18.5, 0.1);
  EXPECT_EQ(json.at("rows")[1].at("ours_latency_mean_ns"), nullptr);
  EXPECT_EQ(json.at("by_device").size(), 1u);
  EXPECT_EQ(json.at("by_pattern")[0].at("pattern"), "1_seq_read");
  EXPECT_THAT(json.at("notes")[0].get<std::string>(), HasSubstr("unknown device 'GDDR6'"));

  const CommandResult text = tessera({"repro", "dram", "--data", folder});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("by_pattern"));
  EXPECT_THAT(text.out, HasSubstr("mean_error: 2"));
  EXPECT_THAT(text.out, HasSubstr("unknown device 'GDDR6'"));

  write_text(folder + "/dram_reference.csv", "device,mapping\nDDR4-2400,BG64\n");
  const CommandResult bad = tessera({"repro", "dram", "--data", folder});
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.err, HasSubstr("dram_reference.csv:1: no column 'pattern'"));
}

TEST(Repro, WorkloadsOfFilesWithOddLinesAreRunOrNamed) {
  const std::string folder = work_folder() + "/workloads";
  std::filesystem::create_directories(folder);
  write_text(
      folder + "/tpuv3.csv",
      "# a core\r\nWorkload,TPUv3\r\n  gemm_130x7x1 , 800\r\n\"conv_2x5x9x3x8x3x2x1\",900\r\n"
      "attention_2x16x8,1000\r\nlayernorm_3x40,700\r\nsoftmax_2x3x8,700\r\nvgg16,1\r\n"
      "gemm_1x1,5\r\ngemm_130x7x1,1600\r\n");
  write_text(folder + "/tpuv6e.csv",
             "workload,dtype,cycles,latency_ns\ngemm_64x64x64,float16,1750,1000\n");
  const CommandResult result = tessera({"repro", "timing", "--data", folder, "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = result.json();
  ASSERT_EQ(json.at("tables").size(), 3u);
  const nlohmann::json& table = json.at("tables")[0];
  EXPECT_EQ(table.at("name"), "tpuv3");
  ASSERT_EQ(table.at("rows").size(), 6u);
  for (const nlohmann::json& row : table.at("rows")) {
    EXPECT_GE(row.at("ours").get<double>(), row.at("array bound").get<double>());
    EXPECT_GE(row.at("ours").get<double>(), row.at("memory bound").get<double>());
  }
  EXPECT_EQ(table.at("rows")[0].at("ours"), table.at("rows")[5].at("ours"));
  EXPECT_THAT(table.at("notes")[0].get<std::string>(), HasSubstr("workload 'vgg16': not modelled"));
  EXPECT_THAT(table.at("notes")[1].get<std::string>(), HasSubstr("needs 3 extents"));
  EXPECT_TRUE(table.contains("median_absolute_error_percent"));
  EXPECT_TRUE(table.contains("worst_row"));
  // At 1.75 GHz in both, so both tables say the same.
  const nlohmann::json& cycles = json.at("tables")[1].at("rows")[0];
  const nlohmann::json& time = json.at("tables")[2].at("rows")[0];
  EXPECT_NEAR(cycles.at("error_percent"), time.at("error_percent").get<double>(), 1e-6);
}

TEST(Repro, RowsNeedNoFile) {
  const CommandResult both = tessera({"repro", "timing", "--rows", "tpuv3", "--data", "."});
  EXPECT_EQ(both.status, 1);
  EXPECT_THAT(both.err, HasSubstr("give one of them"));
  const CommandResult other = tessera({"repro", "dram", "--rows", "tpuv3"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("dram has no rows of its own"));
  const CommandResult profile = tessera({"repro", "timing", "--rows", "tpuv33"});
  EXPECT_EQ(profile.status, 1);
  EXPECT_THAT(profile.err, HasSubstr("did you mean 'tpuv3'?"));
}

TEST(Repro, SaysWhatItNeeds) {
  const CommandResult without = tessera({"repro", "timing"});
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.err, HasSubstr("timing needs --data FOLDER"));
  EXPECT_THAT(without.err, HasSubstr("scalesim_v3.csv"));
  const CommandResult empty = tessera({"repro", "timing", "--data", "nowhere"});
  EXPECT_EQ(empty.status, 1);
  EXPECT_THAT(empty.err, HasSubstr("nothing to compare with in 'nowhere'"));
  const CommandResult unknown = tessera({"repro", "timin", "--data", "."});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'timing'? allowed card, dram, remote, timing"));
}

// A network that is none of the published ones has latency and changes alone.
TEST(Repro, CardGivesTablesAndAPage) {
  const std::string folder = work_folder() + "/card";
  const CommandResult result =
      tessera({"repro", "card", "--networks", "resnet18", "--output", folder, "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = result.json();
  EXPECT_EQ(json.at("experiment"), "card");
  ASSERT_EQ(json.at("rows").size(), 10u);
  const nlohmann::json& row = json.at("rows")[4];
  EXPECT_EQ(row.at("cores"), 16);
  EXPECT_EQ(row.at("published"), nullptr);
  EXPECT_EQ(row.at("ours"),
            row.at("cycles_published").get<double>() / row.at("cycles").get<double>());
  EXPECT_GT(row.at("ours"), row.at("ours_strong"));
  EXPECT_GT(row.at("dram_bytes_strong"), row.at("dram_bytes"));
  EXPECT_EQ(row.at("ring_bytes_strong"), 0);  // nothing is forwarded
  EXPECT_THAT(row.at("explanation").get<std::string>(), HasSubstr("MB of DRAM against"));
  EXPECT_EQ(json.at("rows")[9].at("network"), "mean of 1");
  EXPECT_EQ(json.at("sensitivity").size(), 13u);
  EXPECT_EQ(json.at("scaling").size(), 12u);
  EXPECT_EQ(json.at("within_bound").size(), 0u);

  const std::string csv = read_text(folder + "/rows.csv");
  EXPECT_THAT(csv, HasSubstr("table,network,cores,cards,gigabits,published,ours,"));
  EXPECT_THAT(csv, HasSubstr("latency,resnet18,16,1,,,"));
  EXPECT_THAT(read_text(folder + "/sensitivity.csv"), HasSubstr("\nmerge = 0,resnet18,16,ours,"));
  EXPECT_THAT(read_text(folder + "/tables.md"), HasSubstr("\n| cycles, 8-bit data | 1 core |"));
  const std::string page = read_text(folder + "/card.html");
  EXPECT_THAT(page, HasSubstr("<h2>Latency of resnet18</h2>"));
  EXPECT_THAT(page, HasSubstr(">strong baseline</text>"));
}

TEST(Repro, CardSaysWhatItTakes) {
  const CommandResult unknown = tessera({"repro", "card", "--networks", "resnet50,alexnet"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("--networks: there is no network 'alexnet'; allowed "));
  const CommandResult twice = tessera({"repro", "card", "--networks", "vgg16,vgg16"});
  EXPECT_EQ(twice.status, 1);
  EXPECT_THAT(twice.err, HasSubstr("--networks names 'vgg16' twice; once is enough"));
  const CommandResult data = tessera({"repro", "card", "--data", "."});
  EXPECT_EQ(data.status, 1);
  EXPECT_THAT(data.err, HasSubstr("card runs networks of the zoo and needs no --data or --rows"));
  const CommandResult timing = tessera({"repro", "timing", "--networks", "vgg16"});
  EXPECT_EQ(timing.status, 1);
  EXPECT_THAT(timing.err, HasSubstr("timing takes no --networks, which goes with card"));
  const CommandResult dram = tessera({"repro", "dram", "--output", "x"});
  EXPECT_EQ(dram.status, 1);
  EXPECT_THAT(dram.err, HasSubstr("dram takes no --output, which goes with card"));
}

// The whole one takes minutes; this is its form with one network and few runs, between the same processes.
TEST(Repro, RemoteComparesThreeWaysToAProcessorWithTheLocalOne) {
  const std::string folder = work_folder() + "/remote";
  const CommandResult result = tessera({"repro", "remote", "--networks", "mobilenet_v1", "--runs",
                                        "5", "--json", "--output", folder});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json json = result.json();
  ASSERT_EQ(json.at("remote").size(), 4u);
  std::map<std::string, nlohmann::json> ways;
  for (const nlohmann::json& row : json.at("remote")) {
    EXPECT_EQ(row.at("network"), "mobilenet_v1");
    EXPECT_GE(row.at("latency_us"), row.at("modelled_us"));
    EXPECT_GT(row.at("per_second"), 0.0);
    ways[row.at("way")] = row;
  }
  EXPECT_EQ(ways.at("local").at("round_trips"), 0);
  EXPECT_EQ(ways.at("ours").at("round_trips"), 1);
  // Two blocks: allocated, released; one written, one read; arguments, launch, wait.
  EXPECT_EQ(ways.at("forwarded").at("round_trips"), 9);
  // MobileNetV1 has 28 layers with weights.
  EXPECT_GT(ways.at("forwarded_layers").at("round_trips"), 9 + 2 * 26);
  const nlohmann::json& parts = json.at("parts")[0];
  EXPECT_GT(parts.at("bytes_there"), 3 * 224 * 224);
  EXPECT_GT(parts.at("serialise_us"), 0.0);
  EXPECT_GT(parts.at("wire_us"), 0.0);
  EXPECT_TRUE(json.contains("ours_of_local_throughput_least"));
  for (const char* const file : {"remote.csv", "parts.csv", "tables.md", "remote.html"}) {
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + file)) << file;
  }
  const CommandResult card = tessera({"repro", "card", "--runs", "5"});
  EXPECT_EQ(card.status, 1);
  EXPECT_THAT(card.err, HasSubstr("card takes no --runs, which goes with remote"));
}

TEST(Repro, CardsOfDaemonsTakeTheCyclesOfOneProcess) {
  if (std::system("command -v etcd > /dev/null") != 0) {
    GTEST_SKIP() << "etcd is not installed (package etcd-server)";
  }
  // Two cards take a minute on a busy machine; cluster_test has them with a smaller network.
  const CommandResult result = tessera(
      {"repro", "card", "--over-daemons", "--networks", "mobilenet_v1", "--cards", "1", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto rows = nlohmann::json::parse(result.out).at("over_daemons");
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("cards"), 1);
    EXPECT_EQ(row.at("cores"), 16);
    EXPECT_GT(row.at("cycles"), 10'000);
    EXPECT_EQ(row.at("cycles_over_daemons"), row.at("cycles"));
    EXPECT_EQ(row.at("verdict"), "same");
  }
}

TEST(Repro, WhatCardsOfDaemonsAreAskedForIsChecked) {
  const auto error = [](std::vector<std::string> words) {
    words.insert(words.begin(), "repro");
    const CommandResult result = tessera(words);
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_THAT(error({"card", "--cards", "2"}),
              HasSubstr("--cards goes with --over-daemons; without it the tables of one to four "
                        "cards are all made"));
  EXPECT_THAT(error({"remote", "--over-daemons"}),
              HasSubstr("remote takes no --over-daemons, which goes with card; leave it out"));
  EXPECT_THAT(error({"card", "--over-daemons", "--output", work_folder() + "/none"}),
              HasSubstr("--over-daemons has one table and no plots; leave --output out"));
  EXPECT_THAT(error({"card", "--over-daemons", "--cards", "2,2"}),
              HasSubstr("--cards names 2 twice; once is enough"));
}

TEST(Repro, AnOutputThatIsNoFolderIsSaidBeforeAnythingRuns) {
  const std::string file = work_folder() + "/no_folder";
  write_text(file, "text");
  const CommandResult result = tessera({"repro", "card", "--output", file + "/below"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("--output '" + file +
                                    "/below': no files can be made there (Not a directory); name a "
                                    "folder that can be written to"));
}

TEST(Repro, ABadFigureIsNamedWithItsLine) {
  const std::string folder = work_folder() + "/bad_figures";
  std::filesystem::create_directories(folder);
  write_text(folder + "/scalesim_v3.csv", "dataflow_array,workload,cycles\n8x4_ws,vgg,1\n");
  const CommandResult result = tessera({"repro", "timing", "--data", folder});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("scalesim_v3.csv:2: found 'vgg', allowed gemm_MxNxK"));
}

}  // namespace
}  // namespace tessera::cli
