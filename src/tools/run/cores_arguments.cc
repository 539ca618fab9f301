#include "tools/run/cores_arguments.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "arch/card_config.h"

namespace tessera::tools {

void CoresArguments::add_to(CLI::App& app) {
  app.add_option("--cores", cores,
                 "cores that run the model together, with the bits of one; --arch says how many a "
                 "card has (tessera128x4: 4, cloud16: 16 in four groups)")
      ->check(CLI::Range(1, kCardCoresMax))
      ->capture_default_str();
  app.add_option("--cards", cards, "cards that the cores are on, as evenly as can be")
      ->check(CLI::Range(1, kCardCoresMax))
      ->capture_default_str();
  app.add_option("--split", split,
                 "what each core does of a layer: w, some rows, oc, some output channels, or auto, "
                 "what takes less time of the two")
      ->check(CLI::IsMember({"auto", "w", "oc"}))
      ->capture_default_str();
}

void CoresArguments::add_images_to(CLI::App& app) {
  app.add_option("--cores-per-image", cores_per_image,
                 "teams of so many of the cores, each with an image of its own (0: one image, of "
                 "all cores); it divides --cores")
      ->check(CLI::Range(0, kCardCoresMax));
}

CoreSplit CoresArguments::core_split() const {
  return core_split_from_name(split).value();  // checked when it was parsed
}

void CoresArguments::add_to(nlohmann::json& document) const {
  if (!several()) return;
  document["cores"] = cores;
  document["cards"] = cards;
  document["split"] = split;
  if (cores_per_image > 0) document["cores_per_image"] = cores_per_image;
}

const char* CoresArguments::given() const {
  if (cores != 1) return "--cores";
  if (cards != 1) return "--cards";
  return cores_per_image != 0 ? "--cores-per-image" : nullptr;
}

Status CoresArguments::check() const {
  if (cards > cores) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} cores on {} cards; allowed are 1 to {} cards, a core on each",
                             cores, cards, cores)};
  }
  if (cores_per_image == 0 || cores % cores_per_image == 0) return {};
  std::vector<int> allowed;
  for (int divisor = 1; divisor <= cores; ++divisor) {
    if (cores % divisor == 0) allowed.push_back(divisor);
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} cores an image, of {}; allowed {}", cores_per_image, cores,
                           fmt::join(allowed, ", "))};
}

Status CoresArguments::check_without(const char* option) const {
  if (cores == 1 || option == nullptr) return {};
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("--cores {} with {}: not supported yet; leave one of them out", cores, option)};
}

}  // namespace tessera::tools
