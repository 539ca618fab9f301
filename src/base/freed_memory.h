// What the allocator keeps of memory that was freed.
#pragma once

namespace tessera {

// Small blocks that were freed lie between others in use, in each of the allocator's arenas (about one a thread that
// allocates while others do): whole pages of them go back to the system. Takes some milliseconds where there are many, in
// which other threads' allocations wait. From any thread.
void give_back_freed_memory();

}  // namespace tessera
