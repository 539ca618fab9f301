#include "emulation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "network/network.h"

namespace tessera::bench {
namespace {

constexpr int kRounds = 3;

// Products as x [M, K] times w [K, N]: how often each occurs.
std::map<std::array<std::int64_t, 3>, std::int64_t> products_of(const graph::Graph& graph) {
  std::map<std::array<std::int64_t, 3>, std::int64_t> products;
  for (const graph::Node& node : graph.nodes) {
    const Shape& out = graph.tensor(node.outputs[0]).dims;
    if (node.kind() == graph::NodeKind::kConv) {
      const auto& conv = node.as<graph::ConvAttributes>();
      if (conv.channel_wise) continue;
      const Shape& w = graph.tensor(node.inputs[1]).dims;
      products[{out[0] * out[2] * out[3], w[1] * w[2] * w[3], w[0] / conv.groups}] += conv.groups;
    } else if (node.kind() == graph::NodeKind::kMatMul) {
      const Shape& a = graph.tensor(node.inputs[0]).dims;
      const std::int64_t m = a[a.size() - 2];
      products[{m, a.back(), out.back()}] += element_count(out) / (m * out.back());
    }
  }
  return products;
}

}  // namespace

Result<double> emulation_ms(const Network& network, int threads) {
  std::string name = "/tmp/tessera_products.XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) return Error{ErrorCode::kUnavailable, "cannot make a file " + name};
  std::string lines;
  for (const auto& [product, count] : products_of(*network.state().package.graph)) {
    lines += fmt::format("{} {} {} {}\n", product[0], product[1], product[2], count);
  }
  const bool written = write(file, lines.data(), lines.size()) == std::ssize(lines);
  close(file);
  const std::string command =
      fmt::format("/usr/bin/python3 '{}/bench/emulation.py' {} {} < {} 2>&1", TESSERA_SOURCE_FOLDER,
                  threads, kRounds, name);
  FILE* const pipe = written ? popen(command.c_str(), "r") : nullptr;
  std::string text;
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  const int status = pipe == nullptr ? -1 : pclose(pipe);
  std::remove(name.c_str());
  if (status == 0) return std::strtod(text.c_str(), nullptr);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return Error{ErrorCode::kUnavailable, "/usr/bin/python3 with torch is not here: " +
                                            text.substr(text.find_last_of('\n') + 1)};
}

}  // namespace tessera::bench
