#include "schedule/event.h"

#include <fmt/format.h>

namespace tessera::schedule {
namespace {

struct Text {
  std::string operator()(const Refuse& a) const {
    return fmt::format("refuse tenant {}: {}", a.tenant, a.message);
  }
  std::string operator()(const Wait& a) const {
    return fmt::format("tenant {} waits: {}", a.tenant, a.message);
  }
  std::string operator()(const Admit& a) const {
    return fmt::format("admit tenant {} on card {}", a.tenant, a.card);
  }
  std::string operator()(const Give& a) const {
    return fmt::format("give core {} to tenant {}", a.core, a.tenant);
  }
  std::string operator()(const Take& a) const {
    return fmt::format("take core {} from tenant {}: order {}", a.core, a.tenant, a.order);
  }
  std::string operator()(const Relink& a) const {
    const int images = a.assignment.images_at_once;
    return fmt::format("relink tenant {} for cores {}, {} image{} at once: order {}", a.tenant,
                       fmt::join(a.assignment.cores, " "), images, images == 1 ? "" : "s", a.order);
  }
  std::string operator()(const Clear& a) const {
    return fmt::format("clear core {}: order {}", a.core, a.order);
  }
};

}  // namespace

std::string to_text(const Action& action) { return std::visit(Text{}, action); }

}  // namespace tessera::schedule
