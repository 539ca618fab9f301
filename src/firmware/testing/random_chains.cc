#include "firmware/testing/random_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace tessera::firmware::testing {
namespace {

// Vectors that some chain has written.
struct Volume {
  std::string name;
  int planes = 1, rows = 1, columns = 1, length = 1;

  std::string shape() const {
    return fmt::format("[{}, {}, {}, {}]", planes, rows, columns, length);
  }
};

class RandomChains {
 public:
  explicit RandomChains(std::uint64_t seed) : random_(seed) {}

  std::string run() {
    Volume x{"x", below(4) == 0 ? 2 : 1, 1 + below(6), 1 + below(7), random_length()};
    declarations_ += fmt::format("dram x {} input\n", x.shape());
    Volume v = x;
    v.name = "v0";
    declarations_ += fmt::format("vector v0 {} in initial\n", v.shape());
    chains_ += "chain \"arrive\"\nread x\nwrite v0\nend\n";
    written_ = {v};
    const int count = 1 + below(5);
    for (int i = 0; i < count; ++i) add_chain();
    const Volume& last = written_.back();
    declarations_ += fmt::format("dram y {} output\n", last.shape());
    chains_ += fmt::format("chain \"leave\"\nread {}\nwrite y\nend\n", last.name);
    return "firmware 1\n" + declarations_ + chains_;
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint64_t>(limit)); }
  int random_length() {
    static constexpr std::array<int, 8> kLengths = {1, 7, 16, 40, 64, 128, 130, 300};
    return kLengths[static_cast<std::size_t>(below(kLengths.size()))];
  }
  std::string next_name(const char* kind) { return kind + std::to_string(++names_); }

  void add_chain() {
    // The newest volume most of the time, so that chains build on each other.
    const std::size_t newest = written_.size() - 1;
    const Volume source =
        written_[below(3) == 0 ? static_cast<std::size_t>(below(static_cast<int>(newest) + 1))
                               : newest];
    Volume result = source;
    std::string lines = fmt::format("read {}", source.name);
    const bool product = below(3) != 0;
    std::string matrix_window;
    if (product && below(2) == 0) lines += window(source, result, matrix_window);
    lines += "\n";
    if (product) {
      result.length = random_length();
      const std::string matrix = next_name("m");
      declarations_ +=
          fmt::format("matrix {} [{}, {}]{} in matrix = random {} {}\n", matrix, result.length,
                      source.length, matrix_window, below(1000), 0.02 + 0.1 * below(4));
      lines += fmt::format("product {}\n", matrix);
    }
    if (below(6) == 0) lines += "quantised\n";
    add_operations(result, lines);
    result.name = next_name("v");
    declarations_ += fmt::format("vector {} {} in initial\n", result.name, result.shape());
    lines += fmt::format("write {}\n", result.name);
    chains_ += fmt::format("chain \"{}\"\n{}end\n", result.name, lines);
    written_.push_back(result);
  }

  // A window that fits the volume; over planes only where the vectors fill native ones.
  std::string window(const Volume& source, Volume& result, std::string& matrix_window) {
    const auto size_of = [this](int extent) { return 1 + below(std::min(extent, 3)); };
    const int planes = source.length % 128 == 0 ? size_of(source.planes) : 1;
    const int rows = size_of(source.rows);
    const int columns = size_of(source.columns);
    const std::array<int, 3> stride = {1, 1 + below(2), 1 + below(2)};
    const std::array<int, 3> pad = {0, below(rows), below(columns)};
    result.planes = source.planes - planes + 1;
    result.rows = (source.rows + 2 * pad[1] - rows) / stride[1] + 1;
    result.columns = (source.columns + 2 * pad[2] - columns) / stride[2] + 1;
    matrix_window = fmt::format(" window {} x {} x {}", planes, rows, columns);
    std::string text = fmt::format("{} stride {} x {} x {} pad 0 x {} x {}", matrix_window,
                                   stride[0], stride[1], stride[2], pad[1], pad[2]);
    if (below(3) == 0) {
      text += fmt::format(" tap {} x {} x {}", below(planes), below(rows), below(columns));
    }
    return text;
  }

  // At most one of each part of a vector unit, in any order.
  void add_operations(const Volume& value, std::string& lines) {
    std::array<int, 3> parts = {0, 1, 2};
    std::shuffle(parts.begin(), parts.end(), random_);
    bool any = false;
    for (const int part : parts) {
      if (below(2) == 0 && (any || part != 2)) continue;
      any = true;
      if (part == 2) {
        static constexpr std::array<const char*, 7> kWords = {
            "relu", "sigmoid", "tanh", "exp", "softmax", "reciprocal", "square_root"};
        lines += fmt::format("{}\n", kWords[static_cast<std::size_t>(below(kWords.size()))]);
        continue;
      }
      static constexpr std::array<const char*, 4> kAdders = {"add", "subtract", "subtract_from",
                                                             "maximum"};
      const char* const word =
          part == 0 ? "multiply" : kAdders[static_cast<std::size_t>(below(kAdders.size()))];
      Volume operand = value;
      if (below(2) == 0) operand.planes = operand.rows = operand.columns = 1;
      operand.name = next_name("o");
      declarations_ += fmt::format("vector {} {} in {} = random {} 1.5\n", operand.name,
                                   operand.shape(), part == 0 ? "multiply" : "addsub", below(1000));
      lines += fmt::format("{} {}\n", word, operand.name);
    }
  }

  std::mt19937_64 random_;
  std::string declarations_, chains_;
  std::vector<Volume> written_;
  int names_ = 0;
};

}  // namespace

std::string random_chains(std::uint64_t seed) { return RandomChains(seed).run(); }

}  // namespace tessera::firmware::testing
