#include "tools/run/arguments.h"

#include "tools/stream/connection.h"

namespace tessera::tools {

Result<std::uint8_t> traps_of(const RunArguments& arguments) {
  if (arguments.traps.empty()) return std::uint8_t{0};
  if (arguments.timing_only) {
    return Error{ErrorCode::kInvalidArgument,
                 "--trap: --timing-only computes no values that could be trapped; leave one of "
                 "them out"};
  }
  return traps_from_names(arguments.traps);
}

FileRoles file_roles(const RunArguments& arguments) {
  FileRoles roles = arguments.model.file_roles();
  roles.read_inputs(arguments.inputs);
  if (!is_socket_name(arguments.stream)) roles.read("--stream", arguments.stream);
  if (!is_socket_name(arguments.stream_out)) roles.write("--out", arguments.stream_out);
  roles.write("--trace", arguments.trace);
  roles.write("--html", arguments.html);
  return roles;
}

}  // namespace tessera::tools
