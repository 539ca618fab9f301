// What a service manager (systemd with Type=notify) is told of this program.
#pragma once

namespace tessera::tools {

// "READY=1", "STOPPING=1": a datagram to the socket that NOTIFY_SOCKET names; without it nothing. A manager that does
// not hear is no error of ours.
void tell_service_manager(const char* state);

}  // namespace tessera::tools
