#include "arch/architecture_file.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <vector>

#include "arch/chip_config.h"
#include "arch/config_table.h"
#include "arch/dram_config.h"

namespace tessera {
namespace {

std::string error_of(std::string_view text) {
  const auto config = parse_chip_config(text, "arch/my.toml");
  return config.ok() ? "no error" : config.error().to_string();
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(ChipConfig, AnEmptyFileIsTheDefaultProcessor) {
  const auto config = parse_chip_config("", "arch/my.toml");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(describe(*config), describe(ChipConfig{}));
}

TEST(ChipConfig, EachKeyOfTheTableReachesItsOwnMember) {
  std::set<std::string> descriptions;
  for (const ConfigKey& key : config_keys()) {
    ChipConfig config;
    if (const auto* access = std::get_if<MemberAccess<std::int32_t>>(&key.member)) {
      (*access)(config) += 1;
    } else if (const auto* wide = std::get_if<MemberAccess<std::int64_t>>(&key.member)) {
      (*wide)(config) += 1;
    } else {
      const auto words = config_words(key);
      std::size_t other = words.size();  // a word that is not the default
      while (other > 0 && describe(config) == describe(ChipConfig{})) {
        ASSERT_TRUE(set_config_word(key, words[--other], config));
      }
      if (words.empty()) {
        ASSERT_TRUE(set_config_word(key, "other", config));
      }
    }
    EXPECT_TRUE(descriptions.insert(describe(config)).second) << key.path();
    EXPECT_NE(describe(config), describe(ChipConfig{})) << key.path();
    EXPECT_EQ(fingerprint(config) == fingerprint(ChipConfig{}), key.of_host() || key.of_card())
        << key.path();
    EXPECT_EQ(card_fingerprint(config) == card_fingerprint(ChipConfig{}), key.of_host())
        << key.path();
  }
}

TEST(ChipConfig, TheTableHasAKeyForEachMember) {
  // Sections of 32-bit numbers and choices, the wide ones, three words; a new member needs a new
  // row.
  std::size_t bytes = 0, custom = 0;
  for (const ConfigKey& key : config_keys()) {
    const bool number = std::holds_alternative<MemberAccess<std::int32_t>>(key.member);
    const bool choice = std::holds_alternative<MemberAccess<Dataflow>>(key.member) ||
                        std::holds_alternative<MemberAccess<Folds>>(key.member) ||
                        std::holds_alternative<MemberAccess<Arbitration>>(key.member) ||
                        std::holds_alternative<MemberAccess<DramKind>>(key.member) ||
                        std::holds_alternative<MemberAccess<DramInterleave>>(key.member) ||
                        std::holds_alternative<MemberAccess<CardSplit>>(key.member);
    if (key.section == "dram_custom") {
      custom += number ? sizeof(std::int32_t) : sizeof(std::int64_t);
    } else if (number || choice) {
      bytes += sizeof(std::int32_t);
    }
  }
  const std::size_t matrix_numbers =
      sizeof(MatrixFormat) - sizeof(std::int32_t) - 4 * sizeof(std::uint8_t);  // all but words
  // Five 32-bit sizes stand before the first 64-bit one.
  EXPECT_EQ(sizeof(DramDevice), 2 * sizeof(std::string_view) + custom + sizeof(std::int32_t));
  const std::size_t dram_numbers = 18 * sizeof(std::int32_t);  // all but the 64-bit size
  EXPECT_EQ(sizeof(DramConfig), dram_numbers + sizeof(std::int64_t));
  EXPECT_EQ(bytes, sizeof(NeuralEngineConfig) + sizeof(PlanarEngineConfig) +
                       sizeof(StateBufferConfig) + dram_numbers + sizeof(DmaConfigLimits) +
                       sizeof(TaskManagerConfig) + sizeof(MessageConfig) + sizeof(HostConfig) +
                       matrix_numbers + sizeof(FormatsConfig::quantised_bytes) +
                       sizeof(FormatsConfig::fixed_weight_bits) +
                       sizeof(FormatsConfig::logarithmic_weight_bits) + sizeof(CardConfig));
}

TEST(ChipConfig, DescribeAndParseAgree) {
  ChipConfig config;
  config.name = "other";
  config.neural.columns = 64;
  config.formats.vector = Format::kBf16;
  config.formats.matrix.kind = MatrixKind::kFloat;
  const auto again = parse_chip_config(describe(config), "described");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(describe(*again), describe(config));
  EXPECT_EQ(fingerprint(*again), fingerprint(config));
}

TEST(ChipConfig, TheFingerprintOfTheDefaultProcessorIsFixed) {
  EXPECT_EQ(fingerprint(ChipConfig{}), 13335754601741665108u);
}

// Packages of processors without it stay theirs.
TEST(ChipConfig, WhatAProcessorDoesWithoutIsNotInItsFingerprint) {
  const auto dense = parse_chip_config("[dram]\nedge_block_rows = 0\nedge_block_columns = 0", "a");
  EXPECT_EQ(fingerprint(*dense), fingerprint(ChipConfig{}));
  const auto blocks =
      parse_chip_config("[dram]\nedge_block_rows = 32\nedge_block_columns = 64", "a");
  const auto others =
      parse_chip_config("[dram]\nedge_block_rows = 64\nedge_block_columns = 32", "a");
  EXPECT_NE(fingerprint(*blocks), fingerprint(*dense));
  EXPECT_NE(fingerprint(*blocks), fingerprint(*others));
  const auto again = parse_chip_config(describe(*blocks), "described");
  EXPECT_EQ(again->dram.edge_block_rows, 32);
  EXPECT_EQ(again->dram.edge_block_columns, 64);
  EXPECT_EQ(fingerprint(*again), fingerprint(*blocks));
}

// A memory of a device: its keys are read, and are part of the fingerprint once they are used.
TEST(ChipConfig, ADeviceOfTheMemory) {
  const auto config = parse_chip_config(
      "[dram]\ndevice = \"ddr4-3200\"\nchannels = 3\nmapping = \"row\"\nbank_hash = 1", "a");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->dram.device, DramKind::kDdr4_3200);
  EXPECT_EQ(config->dram.channels, 3);
  EXPECT_EQ(config->dram.mapping, DramInterleave::kRow);
  EXPECT_EQ(config->dram.bank_hash, 1);
  EXPECT_NE(fingerprint(*config), fingerprint(ChipConfig{}));
  const auto again = parse_chip_config(describe(*config), "described");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(describe(*again), describe(*config));
  EXPECT_EQ(fingerprint(*again), fingerprint(*config));
}

// The words of dram.device other than these two are rows of the table of devices.
TEST(ChipConfig, EveryDeviceOfTheTableCanBeChosen) {
  std::set<std::string_view> words = {"flat", "custom"};
  for (const DramDevice& device : dram_devices()) words.insert(device.name);
  for (const ConfigKey& key : config_keys()) {
    if (key.path() != "dram.device") continue;
    const auto allowed = config_words(key);
    EXPECT_EQ(std::set<std::string_view>(allowed.begin(), allowed.end()), words);
    for (const std::string_view word : allowed) {
      ChipConfig config;
      ASSERT_TRUE(set_config_word(key, word, config));
      const DramDevice* device = dram_device(config);
      EXPECT_EQ(device == nullptr ? "flat" : device->name, word);
    }
  }
}

TEST(ChipProfiles, AreTheFilesInArchAndAllLoad) {
  const auto names = builtin_chip_names();
  const std::vector<std::string_view> expected = {
      "brainwave", "cloud16",  "edge",       "f32",          "gemmini8", "neuron2",
      "pe128x64",  "systolic", "tessera128", "tessera128x4", "tpuv3",    "tpuv6e"};
  ASSERT_EQ(std::vector<std::string_view>(names.begin(), names.end()), expected);
  for (const std::string_view name : names) {
    const std::string path = std::string(TESSERA_SOURCE_DIR "/arch/") + std::string(name) + ".toml";
    const auto built_in = load_chip_config(std::string(name));
    const auto from_file = load_chip_config(path);
    ASSERT_TRUE(built_in.ok()) << built_in.error().to_string();
    ASSERT_TRUE(from_file.ok()) << from_file.error().to_string();
    EXPECT_EQ(built_in->name, name);
    EXPECT_EQ(describe(*built_in), describe(*from_file));
  }
}

// But for writes: a file that says nothing of them has no limit to how long they wait.
ChipConfig default_with_limit() {
  ChipConfig chip;
  chip.dram.write_wait_bursts = 128;
  return chip;
}

TEST(ChipProfiles, Tessera128IsTheDefaultOfEachMember) {
  const auto config = load_chip_config("tessera128");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(describe(*config), describe(default_with_limit()));
}

TEST(ChipProfiles, F32DiffersFromTessera128InNameFormatsAndBufferOnly) {
  auto config = load_chip_config("f32");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->formats.vector, Format::kF32);
  EXPECT_EQ(config->formats.matrix.kind, MatrixKind::kFloat);
  EXPECT_EQ(config->state_buffer.bytes_per_partition, 524288);
  config->name = "tessera128";
  config->formats = {};
  config->state_buffer = {};
  EXPECT_EQ(describe(*config), describe(default_with_limit()));
}

TEST(ChipConfigErrors, AValueBelowItsRange) {
  EXPECT_EQ(error_of("\n[neural]\n# comment\nrows = 0\n"),
            "arch/my.toml:4: neural.rows: found 0, allowed 1..1024   [invalid argument]");
}

TEST(ChipConfigErrors, AValueAboveItsRange) {
  EXPECT_EQ(error_of("clock_hertz = 10_000_000_001"),
            "arch/my.toml:1: clock_hertz: found 10000000001, allowed 1000000..10000000000   "
            "[invalid argument]");
}

TEST(ChipConfigErrors, AValueOfTheWrongType) {
  EXPECT_EQ(error_of("[neural]\nrows = \"many\""),
            "arch/my.toml:2: neural.rows: found \"many\", allowed 1..1024   [invalid argument]");
  EXPECT_EQ(error_of("[neural]\nrows = 1.5"),
            "arch/my.toml:2: neural.rows: found 1.5 (a number with a fraction), allowed 1..1024   "
            "[invalid argument]");
  EXPECT_EQ(error_of("[neural]\nrows = true"),
            "arch/my.toml:2: neural.rows: found true, allowed 1..1024   [invalid argument]");
  EXPECT_EQ(error_of("[neural]\nrows = [1, 2]"),
            "arch/my.toml:2: neural.rows: found a list, allowed 1..1024   [invalid argument]");
  EXPECT_EQ(error_of("[neural]\nrows = {a = 1}"),
            "arch/my.toml:2: neural.rows: found a table, allowed 1..1024   [invalid argument]");
  EXPECT_EQ(error_of("[neural]\nrows = 2020-01-01"),
            "arch/my.toml:2: neural.rows: found a date or time, allowed 1..1024   "
            "[invalid argument]");
  EXPECT_EQ(
      error_of("name = 3"),
      "arch/my.toml:1: name: found 3, allowed 1 to 64 letters, digits, '-', '_', '.', '+' and "
      "':' in quotes   [invalid argument]");
}

TEST(ChipConfigErrors, ANameThatNeedsQuoting) {
  EXPECT_EQ(error_of("name = \"my chip\""),
            "arch/my.toml:1: name: found \"my chip\", allowed 1 to 64 letters, digits, '-', '_', "
            "'.', '+' and ':' in quotes   [invalid argument]");
}

TEST(ChipConfigErrors, AWordThatIsNotInTheList) {
  EXPECT_EQ(error_of("[formats]\nvector = \"f8\""),
            "arch/my.toml:2: formats.vector: found \"f8\", allowed \"f16\", \"bf16\", \"f32\"   "
            "[invalid argument]");
  EXPECT_EQ(error_of("[formats]\nmatrix = \"int\""),
            "arch/my.toml:2: formats.matrix: found \"int\", allowed \"bfp\", \"float\", \"mx\"   "
            "[invalid argument]");
}

TEST(ChipConfigErrors, AnUnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(error_of("[neural]\nrow = 128"),
            "arch/my.toml:2: neural.row: unknown key; did you mean neural.rows?   "
            "[invalid argument]");
  EXPECT_EQ(error_of("clock_herz = 128"),
            "arch/my.toml:1: clock_herz: unknown key; did you mean clock_hertz?   "
            "[invalid argument]");
  EXPECT_EQ(error_of("[dma]\nzzzzzzzzzzzzzzzzzzzzzz = 128"),
            "arch/my.toml:2: dma.zzzzzzzzzzzzzzzzzzzzzz: unknown key   [invalid argument]");
}

TEST(ChipConfigErrors, AnUnknownSectionNamesTheNearestOne) {
  EXPECT_EQ(error_of("\n[nueral]\nrows = 128"),
            "arch/my.toml:2: [nueral]: unknown section; did you mean [neural]?   "
            "[invalid argument]");
  EXPECT_EQ(error_of("[completely_different]\nrows = 128"),
            "arch/my.toml:1: [completely_different]: unknown section   [invalid argument]");
}

TEST(ChipConfigErrors, ASectionThatIsAValue) {
  EXPECT_EQ(error_of("neural = 3"),
            "arch/my.toml:1: neural: found 3, allowed a section [neural]   [invalid argument]");
}

TEST(ChipConfigErrors, TextThatIsNotToml) {
  EXPECT_EQ(error_of("[neural]\nrows == 3"),
            "arch/my.toml:2: not TOML: Error while parsing value: could not determine value type   "
            "[invalid argument]");
  EXPECT_EQ(error_of("[neural]\nrows = 1\nrows = 2").substr(0, 24), "arch/my.toml:3: not TOML");
  EXPECT_EQ(error_of("[neural]\n\u00b1 rows = 1").substr(0, 24), "arch/my.toml:2: not TOML");
  EXPECT_EQ(error_of("[neural]\n\u3001rows = 1").substr(0, 24), "arch/my.toml:2: not TOML");
}

// Each part of a key is a table inside the one before it.
TEST(ChipConfigErrors, KeyOfHundredThousandParts) {
  std::string key = "a";
  for (int i = 1; i < 100'000; ++i) key += ".a";
  const std::string message =
      "arch/my.toml: 99999 dots, in keys, numbers and comments together; an architecture file has "
      "at most 1000   [invalid argument]";
  EXPECT_EQ(error_of(key + " = 1"), message);
  EXPECT_EQ(error_of("[" + key + "]"), message);
  EXPECT_EQ(error_of("[[" + key + "]]"), message);
  EXPECT_EQ(error_of(std::string(2'000'000, '#')),
            "arch/my.toml: 2000000 bytes; an architecture file has at most 1048576   "
            "[invalid argument]");
}

TEST(ChipConfigErrors, KeyThatIsAsDeepAsItMayBe) {
  std::string key = "a";
  for (int i = 0; i < 1000; ++i) key += ".a";
  EXPECT_EQ(error_of(key + " = 1"),
            "arch/my.toml:1: [a]: unknown section; did you mean [dma]?   [invalid argument]");
}

TEST(ChipConfigErrors, ASectionWithoutAName) {
  const std::string message =
      "arch/my.toml: not TOML: a key or section name is malformed   [invalid argument]";
  EXPECT_EQ(error_of("[\nneural]"), message);
  EXPECT_EQ(error_of(std::string_view("[\0neural", 8)), message);
}

TEST(ChipConfigErrors, ColumnsBeyondThePartitions) {
  EXPECT_EQ(error_of("[neural]\ncolumns = 256"),
            "arch/my.toml:2: neural.columns: found 256, allowed at most state_buffer.partitions "
            "(128)   [invalid argument]");
}

TEST(ChipConfigErrors, LanesBeyondThePartitions) {
  EXPECT_EQ(error_of("[planar]\nlanes = 129"),
            "arch/my.toml:2: planar.lanes: found 129, allowed at most state_buffer.partitions "
            "(128)   [invalid argument]");
}

TEST(ChipConfigErrors, PartitionsThatAreNoMultipleOfRows) {
  EXPECT_EQ(error_of("[state_buffer]\npartitions = 192"),
            "arch/my.toml:2: state_buffer.partitions: found 192, allowed multiples of neural.rows "
            "(128)   [invalid argument]");
}

TEST(ChipConfigErrors, ARuleBrokenByADefaultNamesTheFileOnly) {
  EXPECT_EQ(error_of("[neural]\nrows = 48"),
            "arch/my.toml: state_buffer.partitions: found 128, allowed multiples of neural.rows "
            "(48)   [invalid argument]");
}

TEST(ChipConfigErrors, ABurstThatIsNoPowerOfTwo) {
  EXPECT_EQ(error_of("[dram]\nflat_burst_bytes = 48"),
            "arch/my.toml:2: dram.flat_burst_bytes: found 48, allowed powers of two   "
            "[invalid argument]");
}

TEST(ChipConfigErrors, ARequestThatCutsABurst) {
  EXPECT_EQ(error_of("[dma]\nrequest_bytes = 100"),
            "arch/my.toml:2: dma.request_bytes: found 100, allowed multiples of bursts of "
            "dram.device times dram.gang (128)   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\ndevice = \"flat\"\nflat_megabytes_per_second = 9\n"
                     "[dma]\nrequest_bytes = 100"),
            "arch/my.toml:5: dma.request_bytes: found 100, allowed multiples of "
            "dram.flat_burst_bytes (64)   [invalid argument]");
}

// What times of the memory in core cycles are said by today.
TEST(ChipConfigErrors, KeysThatWereReplacedNameWhatSaysTheSame) {
  const auto error = [](const std::string& key, const std::string& instead) {
    EXPECT_EQ(error_of("[dram]\n" + key + " = 16"),
              "arch/my.toml:2: dram." + key +
                  ": not a key any more, since times of the memory are no core cycles; allowed " +
                  instead + " (docs/formats/architecture_file.md)   [invalid argument]");
  };
  const std::string flat = " with dram.device = \"flat\", or a device's name there";
  error("latency_cycles", "dram.flat_nanoseconds" + flat);
  error("bytes_per_cycle", "dram.flat_megabytes_per_second" + flat);
  error("burst_bytes", "dram.flat_burst_bytes" + flat);
  for (const char* key : {"banks", "row_bytes", "row_miss_cycles"}) {
    error(key, "a device's name in dram.device, or [dram_custom]");
  }
}

TEST(ChipConfigErrors, ADeviceThatCannotBe) {
  EXPECT_EQ(error_of("[dram_custom]\nrow_bytes = 3000"),
            "arch/my.toml:2: dram_custom.row_bytes: found 3000, allowed powers of two   "
            "[invalid argument]");
  EXPECT_EQ(error_of("[dram_custom]\npseudo_channels = 2\nbank_groups = 8\nbanks_per_group = 8"),
            "arch/my.toml:4: dram_custom.banks_per_group: found 128, allowed at most banks of a "
            "channel, all groups and pseudo-channels together (64)   [invalid argument]");
  EXPECT_EQ(error_of("[dram_custom]\nbytes = 1_048_576\nrow_bytes = 65536\nbanks_per_group = 8"),
            "arch/my.toml:2: dram_custom.bytes: found 1048576, allowed multiples of a row of every "
            "bank (2097152)   [invalid argument]");
  EXPECT_EQ(error_of("[dram_custom]\nccd_long_ps = 2000"),
            "arch/my.toml:2: dram_custom.ccd_long_ps: found 2000, allowed at least "
            "dram_custom.ccd_short_ps (2500)   [invalid argument]");
  EXPECT_EQ(error_of("[dram_custom]\nrefresh_interval_ps = 400_000"),
            "arch/my.toml:2: dram_custom.refresh_interval_ps: found 400000, allowed at least twice "
            "a refresh and its precharge (462500)   [invalid argument]");
}

TEST(ChipConfigErrors, AMemoryWhoseKeysDoNotFitTogether) {
  EXPECT_EQ(error_of("[dram]\ndevice = \"lpddr5-6400\"\ninterleave_bytes = 192"),
            "arch/my.toml:3: dram.interleave_bytes: found 192, allowed multiples of bursts of "
            "dram.device times dram.gang (128)   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\ngang = 3"),
            "arch/my.toml:2: dram.gang: found 3, allowed powers of two   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\nwrite_high_percent = 20"),
            "arch/my.toml: dram.write_low_percent: found 20, allowed less than "
            "dram.write_high_percent (20)   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\ndevice = \"flat\""),
            "arch/my.toml: dram.flat_megabytes_per_second: found 0, allowed 1..100000000 with "
            "dram.device = \"flat\"   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\nflat_megabytes_per_second = 9"),
            "arch/my.toml:2: dram.flat_megabytes_per_second: found 9, allowed 0 where dram.device "
            "is not \"flat\"   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\ndevice = \"ddr5\""),
            "arch/my.toml:2: dram.device: found \"ddr5\", allowed \"flat\", "
            "\"ddr4-2400\", \"ddr4-3200\", \"hbm2-2000\", \"lpddr5-6400\", \"custom\"   "
            "[invalid argument]");
}

TEST(ChipConfigErrors, BlocksAtTheEdgesWithOneSideOnly) {
  EXPECT_EQ(error_of("[dram]\nedge_block_rows = 32"),
            "arch/my.toml: dram.edge_block_columns: found 0 with dram.edge_block_rows = 32, "
            "allowed both 0 (dense) or neither   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\nedge_block_rows = 0\nedge_block_columns = 64"),
            "arch/my.toml:2: dram.edge_block_rows: found 0 with dram.edge_block_columns = 64, "
            "allowed both 0 (dense) or neither   [invalid argument]");
  EXPECT_EQ(error_of("[dram]\nedge_block_rows = -1\nedge_block_columns = 64"),
            "arch/my.toml:2: dram.edge_block_rows: found -1, allowed 0..4096   [invalid argument]");
}

TEST(ChipConfigErrors, ANativeDimensionThatIsNoMultipleOfRows) {
  EXPECT_EQ(error_of("[formats]\nnative_dimension = 100"),
            "arch/my.toml:2: formats.native_dimension: found 100, allowed multiples of "
            "neural.rows (128)   [invalid argument]");
}

TEST(ChipConfigErrors, RowsThatCutABlockOfMicroscaling) {
  const std::string_view text =
      "[neural]\nrows = 48\n[state_buffer]\npartitions = 144\n[formats]\nnative_dimension = 48\n";
  EXPECT_EQ(error_of(text), "no error");
  EXPECT_EQ(error_of(std::string(text) + "matrix = \"mx\""),
            "arch/my.toml:2: neural.rows: found 48, allowed multiples and divisors of 32 with "
            "formats.matrix = \"mx\"   [invalid argument]");
}

TEST(ChipConfigErrors, QuantisedVectorInputsWithoutAFormatToQuantiseTo) {
  EXPECT_EQ(error_of("[formats]\nmatrix = \"float\"\nvector_inputs = \"quantised\""),
            "arch/my.toml:3: formats.vector_inputs: found \"quantised\" with formats.matrix = "
            "\"float\", which quantises nothing   [invalid argument]");
}

TEST(ChipConfigErrors, WordsOfTheMatrixFormat) {
  EXPECT_EQ(error_of("[formats]\nlong = \"q34\""),
            "arch/my.toml:2: formats.long: found \"q34\", allowed \"exact\", \"q34.40\"   "
            "[invalid argument]");
  EXPECT_EQ(error_of("[formats]\nmicro_scale = \"round\""),
            "arch/my.toml:2: formats.micro_scale: found \"round\", allowed \"floor\", \"ceil\", "
            "\"even\"   [invalid argument]");
  EXPECT_EQ(error_of("[formats]\nelement_moving = \"fp8\""),
            "arch/my.toml:2: formats.element_moving: found \"fp8\", allowed \"mxint8\", "
            "\"mxfp8e4m3\", \"mxfp8e5m2\", \"mxfp6e3m2\", \"mxfp6e2m3\", \"mxfp4e2m1\"   "
            "[invalid argument]");
}

TEST(ChipConfigErrors, AnUnknownProfileNamesTheNearestOne) {
  EXPECT_EQ(load_chip_config("tesera128").error().to_string(),
            "unknown architecture 'tesera128'; did you mean 'tessera128'? allowed brainwave, "
            "cloud16, edge, f32, gemmini8, neuron2, pe128x64, systolic, tessera128, tessera128x4, "
            "tpuv3, tpuv6e, or the path of a .toml file   [invalid argument]");
  EXPECT_EQ(load_chip_config("").error().to_string(),
            "unknown architecture ''; allowed brainwave, cloud16, edge, f32, gemmini8, "
            "neuron2, pe128x64, systolic, tessera128, tessera128x4, tpuv3, tpuv6e, or the path of "
            "a .toml file   [invalid argument]");
}

TEST(ChipConfigErrors, AFileThatIsNotThere) {
  EXPECT_EQ(load_chip_config("no/such.toml").error().to_string(),
            "cannot read architecture file 'no/such.toml': No such file or directory   "
            "[invalid argument]");
  EXPECT_EQ(load_chip_config("/").error().to_string(),
            "cannot read architecture file '/': it is a folder, allowed is a regular file   "
            "[invalid argument]");
}

TEST(ChipConfigDocument, IsWhatTheTableSays) {
  const std::string path = TESSERA_SOURCE_DIR "/docs/formats/architecture_file.md";
  EXPECT_EQ(file_text(path), chip_config_markdown()) << "write it again with `make docs`";
}

TEST(ChipConfig, ARequestForDescriptorsIsWhatTheFileSaysOrAChannelsUpTo4KiB) {
  ChipConfig chip;
  chip.dma.request_bytes = 16384;
  EXPECT_EQ(descriptor_request_bytes(chip), 4096);
  chip.dma.request_bytes = 1024;
  EXPECT_EQ(descriptor_request_bytes(chip), 1024);
  chip.task_manager.fetch_bytes = 8192;
  EXPECT_EQ(descriptor_request_bytes(chip), 8192);
}

}  // namespace
}  // namespace tessera
