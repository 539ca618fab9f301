// Connections on one machine: two rings of bytes in memory that both sides have mapped.
//
//   client  ══ ring ══►  server      each side has an event that the other one raises when it waits;
//           ◄═ ring ══               the socket at which they met shows that the other one is gone
//
// The side that listens makes the memory, which cannot be made smaller afterwards.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/loop.h"
#include "transport/stream.h"

namespace tessera::transport {

// A socket that listens at the path, which belongs to its user alone.
Result<Descriptor> listen_at(const std::string& path);
void remove_socket(const std::string& path);
// Those of this user whose names begin so and go on with a number, and that nobody listens at: processes that were
// killed leave them.
void remove_dead_sockets(const std::string& folder, const std::string& beginning);

// The side that listens: sends the memory over a socket that was accepted, and takes that.
Result<std::unique_ptr<ByteStream>> share_memory(Descriptor socket, const std::string& path);

// The other side: meets it at the path.
Result<std::unique_ptr<ByteStream>> join_memory(const std::string& path,
                                                Clock::time_point deadline);

}  // namespace tessera::transport
