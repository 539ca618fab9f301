// Which tensors of a device's memory are on a node as well, or only there.
//
//   written by the host   here                     ─ read by a run ─►  goes over
//   written by a run      here, or there too       ─ read by a run ─►  from now on it is kept there
//
// A place in memory whose value a run wrote and a run read is a state: later runs leave its value on the node.
// Its number there is that of the place. For several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>

namespace tessera::cluster {

class ResidentTensors {
 public:
  // The block from which a run reads these bytes; 0: they go over. Nothing: they were on a node that is gone.
  std::optional<std::int64_t> to_read(std::span<const std::byte> bytes, std::uint64_t link);
  // The block into which a run writes them; 0: they come back.
  std::int64_t to_write(std::span<const std::byte> bytes);
  // A run has ended well, and they are in `block` of the node, or here (0).
  void written(std::span<const std::byte> bytes, std::int64_t block, std::uint64_t link);
  void host_wrote(std::span<const std::byte> bytes);

  struct Place {
    std::int64_t block = 0;
    std::uint64_t link = 0;
  };
  // Where they are, if they are on a node only.
  std::optional<Place> away(std::span<const std::byte> bytes) const;
  // They have been brought.
  void brought(std::span<const std::byte> bytes);

 private:
  struct State {
    std::size_t bytes = 0;
    std::int64_t number = 0;
    bool by_run = false;     // its value is a run's
    bool is_state = false;   // and a run has read it
    std::uint64_t away = 0;  // the link to the node that alone has it; 0: it is here
  };
  State& state_of(std::span<const std::byte> bytes);

  mutable std::mutex mutex_;                  // of what follows
  std::map<const std::byte*, State> states_;  // by the first byte
  std::int64_t next_ = 1;
};

}  // namespace tessera::cluster
