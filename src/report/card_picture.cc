#include "report/card_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tessera::report {
namespace {

// A card, in units of the picture:
//
//   [ memory 0 ]        [ memory 1 ]
//        |  bus              |
//   [ core 0 |||  ] ──► [ core 4 |||  ] ──► ...   ring; the last link goes back below
//   [ core 1 |||  ]     [ core 5 |||  ]           network on the right
constexpr double kMargin = 14, kGroupWidth = 178, kGroupGap = 92, kTitle = 24;
constexpr double kMemoryHeight = 44, kBusHeight = 40, kCoreHeight = 32, kCorePitch = 38;
constexpr double kBackHeight = 34, kNetworkWidth = 168;

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 99.95 ? 0 : 1, kUnits[unit]);
}

class Picture {
 public:
  Picture(const CardUse& use, std::int64_t cycles)
      : use_(use), cycles_(static_cast<double>(std::max<std::int64_t>(1, cycles))) {
    std::size_t most = 1;
    for (const GroupUse& group : use.groups) most = std::max(most, group.cores.size());
    cores_height_ = static_cast<double>(most) * kCorePitch;
    card_height_ = kTitle + kMemoryHeight + kBusHeight + cores_height_ + kMargin +
                   (use.groups_of_card > 1 ? kBackHeight : 0);
    width_ = 2 * kMargin + use.groups_of_card * (kGroupWidth + kGroupGap) - kGroupGap;
    if (use.cards > 1) width_ += kGroupGap / 2 + kNetworkWidth;
  }

  std::string svg() {
    const double height = use_.cards * (card_height_ + kMargin) + kMargin;
    text_ = fmt::format(
        "<svg class='card' viewBox='0 0 {0:.0f} {1:.0f}' width='{0:.0f}' height='{1:.0f}' "
        "role='img' "
        "font-size='11' fill='currentColor'>\n"
        "<title>Cores, memories, ring and network of the run</title>\n",
        width_ + 2 * kMargin, height);
    for (int card = 0; card < use_.cards; ++card) {
      draw_card(card, kMargin + card * (card_height_ + kMargin));
    }
    return text_ + "</svg>\n";
  }

 private:
  double share(std::int64_t busy) const { return static_cast<double>(busy) / cycles_; }
  std::string load_text(const LinkUse& link) const {
    return fmt::format("{}, {:.1f} %", bytes_text(link.bytes), 100 * share(link.busy));
  }
  double thickness(const LinkUse& link) const { return 1 + 9 * std::min(1.0, share(link.busy)); }

  void box(double left, double top, double width, double height) {
    text_ += fmt::format(
        "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' rx='4' fill='none' "
        "stroke='var(--line)'/>\n",
        left, top, width, height);
  }
  void label(double x, double y, const std::string& text, const char* anchor = "start") {
    text_ +=
        fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor, text);
  }
  void wire(const std::string& path, const LinkUse& link, const std::string& name) {
    text_ += fmt::format(
        "<path d='{}' fill='none' stroke='var(--busy)' stroke-width='{:.1f}'><title>{}: {}"
        "</title></path>\n",
        path, thickness(link), name, load_text(link));
  }
  void arrow_head(double x, double y, bool right) {
    const double back = right ? -7 : 7;
    text_ +=
        fmt::format("<path d='M{0:.1f} {1:.1f}l{2:.1f} -4v8z' fill='var(--busy)'/>\n", x, y, back);
  }
  // Parts of a bar of `width`, one behind the other.
  void bar(double left, double top, double width,
           const std::array<std::pair<double, const char*>, 3>& parts) {
    const double height = 7;
    text_ += fmt::format(
        "<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='var(--idle)'/>", left,
        top, width, height);
    for (const auto& [part, colour] : parts) {
      const double wide = width * std::clamp(part, 0.0, 1.0);
      text_ +=
          fmt::format("<rect x='{:.1f}' y='{:.1f}' width='{:.1f}' height='{:.1f}' fill='var({})'/>",
                      left, top, wide, height, colour);
      left += wide;
    }
    text_ += "\n";
  }

  void draw_card(int card, double top) {
    box(kMargin, top, width_, card_height_);
    label(2 * kMargin, top + 16, fmt::format("card {}", card));
    for (int i = 0; i < use_.groups_of_card; ++i) {
      draw_group(use_.groups[static_cast<std::size_t>(card * use_.groups_of_card + i)],
                 2 * kMargin + i * (kGroupWidth + kGroupGap), top + kTitle);
    }
    if (use_.groups_of_card > 1) draw_ring(card, top + kTitle + kMemoryHeight + kBusHeight);
    if (use_.cards > 1) draw_network(card, top + kTitle);
  }

  void draw_group(const GroupUse& group, double left, double top) {
    if (group.cores.empty()) {
      box(left, top, kGroupWidth, kMemoryHeight);
      label(left + 8, top + 17, fmt::format("group {}: no core of the run", group.group));
      return;
    }
    box(left, top, kGroupWidth, kMemoryHeight);
    label(left + 8, top + 17, fmt::format("memory {}", group.group));
    label(left + kGroupWidth - 8, top + 17, load_text(group.memory), "end");
    bar(left + 8, top + 27, kGroupWidth - 16,
        {{{share(group.memory.busy), "--busy"}, {0, "--dep"}, {0, "--mem"}}});
    const double bus = left + 22, bus_top = top + kMemoryHeight;
    wire(fmt::format("M{:.1f} {:.1f}V{:.1f}", bus, bus_top, bus_top + kBusHeight), group.broadcast,
         fmt::format("broadcast bus {}", group.group));
    label(bus + 10, bus_top + 17, "broadcasts");
    label(bus + 10, bus_top + 30, load_text(group.broadcast));
    for (std::size_t i = 0; i < group.cores.size(); ++i) {
      draw_core(group.cores[i], left, bus_top + kBusHeight + static_cast<double>(i) * kCorePitch);
    }
  }

  void draw_core(std::size_t number, double left, double top) {
    const CoreUse& core = use_.cores[number];
    text_ += fmt::format(
        "<g><title>core {}: array {:.1f} %, waits for data {:.1f} %, for memory {:.1f} %, planar "
        "{:.1f} %</title>\n",
        number, 100 * share(core.array), 100 * share(core.waits_for_data),
        100 * share(core.waits_for_memory), 100 * share(core.planar));
    box(left, top, kGroupWidth, kCoreHeight);
    label(left + 8, top + 14, fmt::format("core {}", number));
    label(left + kGroupWidth - 8, top + 14,
          fmt::format("{}, array {:.1f} %", bytes_text(core.bytes_moved), 100 * share(core.array)),
          "end");
    bar(left + 8, top + 20, kGroupWidth - 16,
        {{{share(core.array), "--busy"},
          {share(core.waits_for_data), "--dep"},
          {share(core.waits_for_memory), "--mem"}}});
    text_ += "</g>\n";
  }

  void draw_ring(int card, double top) {
    const double y = top + kCoreHeight / 2;
    const int groups = use_.groups_of_card;
    for (int i = 0; i < groups; ++i) {
      const GroupUse& group = use_.groups[static_cast<std::size_t>(card * groups + i)];
      const double right = 2 * kMargin + i * (kGroupWidth + kGroupGap) + kGroupWidth;
      if (i + 1 < groups) {
        wire(fmt::format("M{:.1f} {:.1f}H{:.1f}", right, y, right + kGroupGap - 6), group.ring,
             fmt::format("ring {} to {}", group.group, group.group + 1));
        arrow_head(right + kGroupGap, y, true);
        label(right + kGroupGap / 2, y - 16, bytes_text(group.ring.bytes), "middle");
        label(right + kGroupGap / 2, y + 18, fmt::format("{:.1f} %", 100 * share(group.ring.busy)),
              "middle");
        continue;
      }
      const double below = top + cores_height_ + 8, first = 2 * kMargin + 12;
      wire(fmt::format("M{:.1f} {:.1f}V{:.1f}H{:.1f}V{:.1f}", right - 12, top + cores_height_ - 6,
                       below, first, top + cores_height_ - 6),
           group.ring, fmt::format("ring {} to {}", group.group, card * groups));
      label((first + right) / 2, below + 16,
            fmt::format("ring {} to {}: {}", group.group, card * groups, load_text(group.ring)),
            "middle");
    }
  }

  void draw_network(int card, double top) {
    const auto at = static_cast<std::size_t>(card);
    const double left = kMargin + width_ - kNetworkWidth - kMargin / 2;
    box(left, top, kNetworkWidth, kMemoryHeight + kBusHeight);
    label(left + 8, top + 17, "network");
    const auto line = [&](double y, const char* what, const LinkUse& link, bool right) {
      wire(fmt::format("M{:.1f} {:.1f}h34", left + 8, y), link,
           fmt::format("network, card {} {}", card, what));
      arrow_head(right ? left + 47 : left + 3, y, right);
      label(left + 54, y + 4, load_text(link));
    };
    line(top + 36, "sends", use_.sent[at], true);
    line(top + 62, "receives", use_.received[at], false);
  }

  const CardUse& use_;
  const double cycles_;
  double width_ = 0, card_height_ = 0, cores_height_ = 0;
  std::string text_;
};

}  // namespace

std::string card_picture(const CardUse& use, std::int64_t cycles) {
  return Picture(use, cycles).svg();
}

}  // namespace tessera::report
