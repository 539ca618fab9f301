#include "cluster/run_details.h"

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>

namespace tessera::cluster {
namespace {

// One description of the fields serves both ways: Out appends, In takes.
class Out {
 public:
  template <typename Number>
    requires std::is_integral_v<Number>
  void operator()(const Number& number) {
    static_assert(std::endian::native == std::endian::little);
    const auto* const at = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), at, at + sizeof number);
  }
  void operator()(const std::string& text) {
    count(text.size());
    const auto* const at = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), at, at + text.size());
  }
  void count(std::size_t number) { (*this)(static_cast<std::uint32_t>(number)); }

  std::vector<std::byte> bytes;
};

class In {
 public:
  explicit In(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename Number>
    requires std::is_integral_v<Number>
  void operator()(Number& number) {
    const auto from = take(sizeof number);
    if (!from.empty()) std::memcpy(&number, from.data(), sizeof number);
  }
  void operator()(std::string& text) {
    std::uint32_t size = 0;
    (*this)(size);
    const auto from = take(size);
    text.assign(reinterpret_cast<const char*>(from.data()), from.size());
  }
  // Of things that have a byte each at least.
  std::uint32_t count() {
    std::uint32_t number = 0;
    (*this)(number);
    if (number <= rest_.size()) return number;
    ok = false;
    return 0;
  }
  bool at_end() const { return rest_.empty(); }

  bool ok = true;

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) {
      ok = false;
      rest_ = {};
      return {};
    }
    const auto taken = rest_.first(size);
    rest_ = rest_.subspan(size);
    return taken;
  }
  std::span<const std::byte> rest_;
};

template <typename Item>
void each(Out& out, const std::vector<Item>& items, const auto& visit) {
  out.count(items.size());
  for (const Item& item : items) visit(item);
}
template <typename Item>
void each(In& in, std::vector<Item>& items, const auto& visit) {
  const std::uint32_t count = in.count();
  for (std::uint32_t i = 0; i < count && in.ok; ++i) visit(items.emplace_back());
}

void engine(auto& way, auto& use) {
  way(use.name), way(use.busy), way(use.blocked_dependency), way(use.blocked_memory);
  way(use.idle), way(use.tasks), way(use.steps), way(use.macs);
  way(use.dram_bytes_read), way(use.dram_bytes_written), way(use.kind), way(use.index);
  way(use.blocked_ports), way(use.blocked_message), way(use.message_bytes), way(use.core);
  way(use.share_cycles), way(use.wire_bytes);
}

void split(auto& way, auto& of) {
  way(of.way), way(of.cores), way(of.reason);
  each(way, of.before, [&](auto& text) { way(text); });
  way(of.movement), way(of.weights), way(of.dram_bytes_read), way(of.dram_bytes_written);
  way(of.merged_bytes), way(of.ring_bytes), way(of.network_bytes);
}

void layer(auto& way, auto& use) {
  way(use.name), way(use.kind);
  each(way, use.output_dims, [&](auto& dim) { way(dim); });
  way(use.macs), way(use.begin), way(use.end), way(use.neural), way(use.planar), way(use.dma);
  way(use.blocked_dependency), way(use.blocked_memory), way(use.blocked_ports);
  split(way, use.split);
}

void event(auto& way, auto& bar) {
  way(bar.engine), way(bar.layer), way(bar.task), way(bar.step), way(bar.begin), way(bar.end);
  way(bar.blocked_ports), way(bar.blocked_message);
}

void details(auto& way, auto& run) {
  way(run.cycles), way(run.host_cycles), way(run.transfer_cycles), way(run.clock_hertz);
  way(run.images), way(run.card_begin), way(run.card_end), way(run.status_flags);
  each(way, run.engines, [&](auto& use) { engine(way, use); });
  each(way, run.layers, [&](auto& use) { layer(way, use); });
  each(way, run.timeline, [&](auto& bar) { event(way, bar); });
  each(way, run.cores, [&](auto& place) { way(place.card), way(place.group), way(place.number); });
}

}  // namespace

std::vector<std::byte> encode_details(const RunResult& result) {
  Out out;
  details(out, result);
  return std::move(out.bytes);
}

Result<RunResult> parse_details(std::span<const std::byte> bytes) {
  In in(bytes);
  RunResult result;
  details(in, result);
  if (in.ok && in.at_end()) return result;
  return Error{ErrorCode::kInvalidModel, in.ok ? "a run's result: there are bytes behind its end"
                                               : "a run's result: its bytes end before it does"};
}

}  // namespace tessera::cluster
