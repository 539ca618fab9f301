#include "tools/run/arguments.h"

#include "tools/stream/connection.h"

namespace tessera::tools {

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
