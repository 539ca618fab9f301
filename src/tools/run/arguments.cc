#include "tools/run/arguments.h"

namespace tessera::tools {

FileRoles file_roles(const RunArguments& arguments) {
  FileRoles roles = arguments.model.file_roles();
  roles.read_inputs(arguments.inputs);
  const auto network = [](const std::string& name) {
    return name.starts_with("unix:") || name.starts_with("tcp:");
  };
  if (!network(arguments.stream)) roles.read("--stream", arguments.stream);
  if (!network(arguments.stream_out)) roles.write("--out", arguments.stream_out);
  roles.write("--trace", arguments.trace);
  roles.write("--html", arguments.html);
  return roles;
}

}  // namespace tessera::tools
