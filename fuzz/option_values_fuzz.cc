// Values of options: the first byte chooses which of them the rest is.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "arch/architecture_file.h"
#include "arch/chip_config.h"
#include "arch/format_choice.h"
#include "base/check.h"
#include "tools/files/tensor_file.h"
#include "tools/verb.h"

namespace {

using namespace tessera;  // a fuzz target

// `--format`: formats that their own text gives again.
void check_format(const std::string& text) {
  FormatsConfig formats;
  if (!apply_format_choice(text, formats).ok()) return;
  const std::string again = format_choice_text(formats);
  FormatsConfig same;
  const Status status = apply_format_choice(again, same);
  TESSERA_CHECK(status.ok(), "'{}' became '{}': {}", text, again, status.error().message);
  TESSERA_CHECK(format_choice_text(same) == again, "'{}' became '{}'", text, again);
}

// `--arch`: a profile with formats behind a '+'; a path is not tried.
void check_architecture(const std::string& text) {
  if (text.find_first_of("./") != std::string::npos || text.find('\0') != std::string::npos) return;
  (void)load_chip_config(text);
}

// `--input`: what needs no file.
void check_inputs(const std::string& text) {
  const std::vector<TensorDescription> wanted = {{"x", Format::kF32, {2, 3}},
                                                 {"y=z", Format::kI64, {}}};
  if (text.find("random") == std::string::npos || text.find('/') != std::string::npos) return;
  const auto inputs = tools::read_inputs({text}, wanted, {});
  if (!inputs.ok()) return;
  TESSERA_CHECK(inputs->size() == 2 && (*inputs)[0].dims == wanted[0].dims, "other inputs");
}

void check_shape(const std::string& text) {
  const auto shape = tools::parse_shape(text);
  if (!shape.ok()) return;
  TESSERA_CHECK(!shape->first.empty() && !shape->second.empty(), "a shape of nothing");
  for (const std::int64_t extent : shape->second) TESSERA_CHECK(extent >= 0, "{}", extent);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 's':
      check_shape(text);
      break;
    case 'f':
      check_format(text);
      break;
    case 'a':
      check_architecture(text);
      break;
    case 'p':
      (void)tools::parse_preprocessing(text);
      break;
    case 'd':
      (void)device_kind_from_name(text);
      break;
    default:
      check_inputs(text);
  }
  return 0;
}
