// A stage that keeps its packets: it takes those that it can work on now, has several at once, and
// gives each back as soon as that one is done, from whatever thread knows. No thread waits for
// something that happens elsewhere, a run on a device say, so none can be held up by it.
//
//   queue ─► port.take() ─► [ packets of the keeper ] ─► port.done() ─► next stage
//                                ▲ work(), by the stage's threads: something came or happened
#pragma once

#include <cstddef>

#include "pipeline/packet.h"

namespace tessera::pipeline {

// What a keeper has of the pipeline around it. Any thread may call, but where it says otherwise.
class StagePort {
 public:
  virtual ~StagePort() = default;
  enum class End : std::uint8_t {
    kFirst,  // of the highest priority that waits, the one that came first
    kLast,   // of the lowest, the one that came last
  };
  // Null: none waits. One whose task was cancelled or is late comes with its failure noted, and is
  // given to drop(). May be called with locks held.
  virtual PacketPtr take(End end) = 0;
  // The same of those that came through a stage before the first.
  virtual PacketPtr take_handed() = 0;
  // Ends the way of such a packet. What it carries may call anything: without locks held.
  virtual void drop(PacketPtr packet) = 0;
  virtual std::size_t waiting() const = 0;
  // Of those that wait the highest; only if there are some.
  virtual int highest_priority() const = 0;
  // Packets before earlier stages, where this one holds them up; else 0.
  virtual std::size_t held_up() const = 0;
  // The packet goes on; one that failed leaves the pipeline. Never waits: where the next stage has
  // no room the packet is held back until it has. Without locks held.
  virtual void done(PacketPtr packet) = 0;
  // Packets that are held back. While there are some the keeper begins nothing, and is poked when
  // there are none any more.
  virtual std::size_t held_back() const = 0;
  // A thread of the stage calls work() soon. May be called with locks held that work() takes.
  virtual void poke() = 0;
};

class Keeper {
 public:
  virtual ~Keeper() = default;
  // Before anything else; the port outlives the packets.
  virtual void attach(StagePort& port) = 0;
  // All packets are gone, and no thread works; the port goes.
  virtual void detach() {}
  // Does what there is to do now, without waiting. Several threads call it at once. Throws nothing.
  virtual void work() = 0;
  // Whether a packet that came now, with no other in the pipeline, would be done sooner by the thread that
  // brings it than another could take it up.
  virtual bool is_short() { return false; }
  // The same as work(), by a thread that is none of the stage's and has other things to do: true if
  // there may be more, which is left to the stage's own.
  virtual bool work_briefly() {
    work();
    return false;
  }
  // Packets whose jobs were cancelled or are late are returned at once, as failed. The
  // port is poked then.
  virtual void sweep() = 0;
};

}  // namespace tessera::pipeline
