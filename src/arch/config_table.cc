#include "arch/config_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace tessera {
namespace {

template <auto Section, auto Member>
auto& nested(ChipConfig& config) {
  return (config.*Section).*Member;
}
template <auto Member>
auto& top(ChipConfig& config) {
  return config.*Member;
}

template <auto Member>
constexpr auto neural = MemberAccess<std::int32_t>(nested<&ChipConfig::neural, Member>);
template <auto Member>
constexpr auto planar = MemberAccess<std::int32_t>(nested<&ChipConfig::planar, Member>);
template <auto Member>
constexpr auto buffer = MemberAccess<std::int32_t>(nested<&ChipConfig::state_buffer, Member>);
template <auto Member>
constexpr auto dram = MemberAccess<std::int32_t>(nested<&ChipConfig::dram, Member>);
template <auto Member>
constexpr auto custom = MemberAccess<std::int32_t>(nested<&ChipConfig::dram_custom, Member>);
template <auto Member>
constexpr auto custom_wide = MemberAccess<std::int64_t>(nested<&ChipConfig::dram_custom, Member>);
template <auto Member>
constexpr auto dma = MemberAccess<std::int32_t>(nested<&ChipConfig::dma, Member>);
template <auto Member>
constexpr auto manager = MemberAccess<std::int32_t>(nested<&ChipConfig::task_manager, Member>);
template <auto Member>
constexpr auto message = MemberAccess<std::int32_t>(nested<&ChipConfig::message, Member>);
template <auto Member>
constexpr auto host = MemberAccess<std::int32_t>(nested<&ChipConfig::host, Member>);
template <auto Section, auto Member>
auto& of_card(ChipConfig& config) {
  return config.card.*Section.*Member;
}
template <auto Member>
auto& of_cores(ChipConfig& config) {
  return config.card.*Member;
}
template <auto Member>
constexpr auto card = MemberAccess<std::int32_t>(of_cores<Member>);
template <auto Member>
constexpr auto load_save = MemberAccess<std::int32_t>(of_card<&CardConfig::load_save, Member>);
template <auto Member>
constexpr auto feature = MemberAccess<std::int32_t>(of_card<&CardConfig::features, Member>);
template <auto Member>
auto& of_matrix(ChipConfig& config) {
  return config.formats.matrix.*Member;
}
template <auto Member>
constexpr auto matrix = MemberAccess<std::int32_t>(of_matrix<Member>);

constexpr std::int64_t kMebi = std::int64_t{1} << 20;
constexpr std::int64_t kMessagePortsMax = 8;

constexpr std::int64_t kPicosecondsMax = 1'000'000'000;  // of a time of a memory

using Neural = NeuralEngineConfig;
using Planar = PlanarEngineConfig;
using Buffer = StateBufferConfig;
using Manager = TaskManagerConfig;
using Message = MessageConfig;
using LoadSave = LoadSaveConfig;
using Features = CardFeatures;

constexpr std::array kKeys = {
    ConfigKey{"", "name", MemberAccess<std::string>(top<&ChipConfig::name>), 0, 0,
              "what reports call this processor"},
    ConfigKey{"", "clock_hertz", MemberAccess<std::int64_t>(top<&ChipConfig::clock_hertz>),
              1'000'000, 10'000'000'000, "core clock; turns cycles into seconds in reports"},

    ConfigKey{"neural", "count", neural<&Neural::count>, 1, 64, "neural engines in a core"},
    ConfigKey{"neural", "clock_thousandths", neural<&Neural::clock_thousandths>, 1, 1000,
              "clock of the neural engine, in thousandths of the core's"},
    ConfigKey{"neural", "dataflow",
              MemberAccess<Dataflow>(nested<&ChipConfig::neural, &Neural::dataflow>), 0, 0,
              "what stays in the array while the rest flows: weights or sums"},
    ConfigKey{"neural", "folds", MemberAccess<Folds>(nested<&ChipConfig::neural, &Neural::folds>),
              0, 0, "whether a pass begins behind the one before, or after it has left the array"},
    ConfigKey{"neural", "rows", neural<&Neural::rows>, 1, 1024,
              "rows R of the array: input channels per pass"},
    ConfigKey{"neural", "columns", neural<&Neural::columns>, 1, 1024,
              "columns C of the array: output channels per pass"},
    ConfigKey{"neural", "fold_pixels_max", neural<&Neural::fold_pixels_max>, 1, 64,
              "pixels that enter side by side where a product leaves rows and columns free"},
    ConfigKey{"neural", "psum_banks", neural<&Neural::psum_banks>, 1, 64, "PSUM banks"},
    ConfigKey{"neural", "psum_bank_columns", neural<&Neural::psum_bank_columns>, 1, 65536,
              "moving columns (pixels) that a PSUM bank holds"},
    ConfigKey{"neural", "kernel_bytes_per_partition", neural<&Neural::kernel_bytes_per_partition>,
              256, 16 * kMebi, "kernel memory in bytes, for each row of the array"},
    ConfigKey{"neural", "post_processor_latency_cycles",
              neural<&Neural::post_processor_latency_cycles>, 0, 100'000,
              "cycles from PSUM through the post-processor to the state buffer"},
    ConfigKey{"neural", "task_start_cycles", neural<&Neural::task_start_cycles>, 0, 1'000'000,
              "cycles to configure the engine for a task"},
    ConfigKey{"neural", "command_columns", neural<&Neural::command_columns>, 0, 65536,
              "columns of one row that a command of the array takes; 0: a pass is one command"},
    ConfigKey{"neural", "command_cycles_min", neural<&Neural::command_cycles_min>, 0, 1024,
              "cycles that a shorter command takes"},
    ConfigKey{"neural", "command_stall_thousandths", neural<&Neural::command_stall_thousandths>, 0,
              100'000, "thousandths of a cycle lost at a command, on average"},
    ConfigKey{"neural", "tile_stall_thousandths", neural<&Neural::tile_stall_thousandths>, 0,
              100'000, "thousandths of a cycle lost at a tile of weights, on average"},

    ConfigKey{"planar", "count", planar<&Planar::count>, 1, 64, "planar engines in a core"},
    ConfigKey{"planar", "clock_thousandths", planar<&Planar::clock_thousandths>, 1, 1000,
              "clock of the planar engine, in thousandths of the core's"},
    ConfigKey{"planar", "lanes", planar<&Planar::lanes>, 1, 1024,
              "channels (partitions) worked on at once"},
    ConfigKey{"planar", "elements_per_lane", planar<&Planar::elements_per_lane>, 1, 64,
              "elements a lane takes in a cycle"},
    ConfigKey{"planar", "latency_cycles", planar<&Planar::latency_cycles>, 0, 100'000,
              "cycles from a lane's input to its result"},
    ConfigKey{"planar", "task_start_cycles", planar<&Planar::task_start_cycles>, 0, 1'000'000,
              "cycles to configure the engine for a task"},
    ConfigKey{"planar", "window_rows_max", planar<&Planar::window_rows_max>, 1, 1024,
              "rows that the line buffer holds; taller windows come in parts"},
    ConfigKey{"planar", "window_columns_max", planar<&Planar::window_columns_max>, 1, 1024,
              "and columns"},
    ConfigKey{
        "planar", "filter_taps", planar<&Planar::filter_taps>, 1, 64,
        "taps of a pooling's filters, along rows and along columns; longer windows pass again",
        true},

    ConfigKey{"state_buffer", "partitions", buffer<&Buffer::partitions>, 1, 1024,
              "partitions P; channel c lies in partition c mod P"},
    ConfigKey{"state_buffer", "bytes_per_partition", buffer<&Buffer::bytes_per_partition>, 1024,
              64 * kMebi, "size of a partition in bytes"},
    ConfigKey{"state_buffer", "port_elements", buffer<&Buffer::port_elements>, 1, 64,
              "elements that a partition delivers to the neural engine in a cycle"},
    ConfigKey{"state_buffer", "banks", buffer<&Buffer::banks>, 0, 64,
              "equal parts of a partition with ports of their own; 0: accesses never meet", true},
    ConfigKey{"state_buffer", "read_ports", buffer<&Buffer::read_ports>, 1, 4,
              "read ports of a bank", true},
    ConfigKey{
        "state_buffer", "write_ports", buffer<&Buffer::write_ports>, 1, 4,
        "write ports of a bank; as many elements of neighbouring channels pass a partition in a "
        "cycle of a load or store",
        true},
    ConfigKey{"state_buffer", "port_bytes", buffer<&Buffer::port_bytes>, 1, 256,
              "bytes that a bank's port moves in a cycle", true},

    ConfigKey{"dram", "bytes",
              MemberAccess<std::int64_t>(nested<&ChipConfig::dram, &DramConfig::bytes>), kMebi,
              kMebi << 20, "size of the memory in bytes; on a card, of each group's memory"},
    ConfigKey{
        "dram", "device", MemberAccess<DramKind>(nested<&ChipConfig::dram, &DramConfig::device>), 0,
        0,
        "what the memory is: a pipe without banks, by the keys flat_*; a device; or a device by "
        "the keys of [dram_custom]"},
    ConfigKey{"dram", "channels", dram<&DramConfig::channels>, 1, 64,
              "channels; on a card, of each group", true},
    ConfigKey{"dram", "gang", dram<&DramConfig::gang>, 1, 16,
              "devices of a channel, side by side in lockstep: burst, row and peak as many times",
              true},
    ConfigKey{"dram", "interleave_bytes", dram<&DramConfig::interleave_bytes>, 64, 65536,
              "consecutive bytes of a channel, then the next channel", true},
    ConfigKey{"dram", "mapping",
              MemberAccess<DramInterleave>(nested<&ChipConfig::dram, &DramConfig::mapping>), 0, 0,
              "what changes first in a channel: the column of a row, the bank every 256 bytes, or "
              "the bank group every 64",
              true},
    ConfigKey{"dram", "bank_hash", dram<&DramConfig::bank_hash>, 0, 1,
              "1: row bits are mixed into bank and group, so that pitches of powers of two do not "
              "stay in one bank",
              true},
    ConfigKey{"dram", "queue_requests", dram<&DramConfig::queue_requests>, 1, 256,
              "of a channel's queues, reads and writes each, in requests of 64 bytes (or a burst)",
              true},
    ConfigKey{"dram", "write_high_percent", dram<&DramConfig::write_high_percent>, 1, 100,
              "of its queue: from here on writes go first", true},
    ConfigKey{"dram", "write_low_percent", dram<&DramConfig::write_low_percent>, 0, 99,
              "of its queue: below it reads go first again", true},
    ConfigKey{
        "dram", "write_wait_bursts", dram<&DramConfig::write_wait_bursts>, 0, 1'000'000,
        "so many bursts are read while a write waits, then what waits is written; 0: as many as "
        "there are",
        true},
    ConfigKey{"dram", "controller_nanoseconds", dram<&DramConfig::controller_nanoseconds>, 0,
              10'000, "from a DMA engine to the channel and back, without the channel's own time",
              true},
    ConfigKey{"dram", "refresh", dram<&DramConfig::refresh>, 0, 1, "1: devices are refreshed",
              true},
    ConfigKey{"dram", "flat_megabytes_per_second", dram<&DramConfig::flat_megabytes_per_second>, 0,
              100'000'000, "peak of the pipe, in millions of bytes per second", true},
    ConfigKey{"dram", "flat_nanoseconds", dram<&DramConfig::flat_nanoseconds>, 0, 100'000,
              "from a request to its first data out of the pipe", true},
    ConfigKey{"dram", "flat_burst_bytes", dram<&DramConfig::flat_burst_bytes>, 1, 4096,
              "the smallest transfer of the pipe in bytes", true},
    ConfigKey{"dram", "arbitration",
              MemberAccess<Arbitration>(nested<&ChipConfig::dram, &DramConfig::arbitration>), 0, 0,
              "whose request is next: every port's in turn, or the kernel DMA's after the others'"},
    ConfigKey{"dram", "edge_block_rows", dram<&DramConfig::edge_block_rows>, 0, 4096,
              "rows of the blocks in which inputs and outputs with two axes or more lie; 0: dense",
              true},
    ConfigKey{"dram", "edge_block_columns", dram<&DramConfig::edge_block_columns>, 0, 4096,
              "and columns", true},

    ConfigKey{"dram_custom", "pseudo_channels", custom<&DramDevice::pseudo_channels>, 1, 2,
              "halves of a channel with data buses of their own and common command buses", true},
    ConfigKey{"dram_custom", "bank_groups", custom<&DramDevice::bank_groups>, 1, 8,
              "bank groups of a pseudo-channel", true},
    ConfigKey{"dram_custom", "banks_per_group", custom<&DramDevice::banks_per_group>, 1, 16,
              "banks of a group", true},
    ConfigKey{"dram_custom", "burst_bytes", custom<&DramDevice::burst_bytes>, 4, 256,
              "bytes of a burst, of one device", true},
    ConfigKey{"dram_custom", "row_bytes", custom<&DramDevice::row_bytes>, 256, 65536,
              "bytes of a row of a bank", true},
    ConfigKey{"dram_custom", "bytes", custom_wide<&DramDevice::bytes>, kMebi, kMebi << 20,
              "bytes of a channel of one device", true},
    ConfigKey{"dram_custom", "clock_ps", custom_wide<&DramDevice::clock_ps>, 100, 100000,
              "a cycle of its command clock, in picoseconds", true},
    ConfigKey{"dram_custom", "rcd_read_ps", custom_wide<&DramDevice::rcd_read_ps>, 0,
              kPicosecondsMax,
              "tRCD of reads: activation to read, in picoseconds like all that follow", true},
    ConfigKey{"dram_custom", "rcd_write_ps", custom_wide<&DramDevice::rcd_write_ps>, 0,
              kPicosecondsMax, "tRCD of writes", true},
    ConfigKey{"dram_custom", "rp_ps", custom_wide<&DramDevice::rp_ps>, 0, kPicosecondsMax,
              "tRP: precharge to activation, one bank", true},
    ConfigKey{"dram_custom", "rp_all_ps", custom_wide<&DramDevice::rp_all_ps>, 0, kPicosecondsMax,
              "precharge to refresh, all banks", true},
    ConfigKey{"dram_custom", "cl_ps", custom_wide<&DramDevice::cl_ps>, 0, kPicosecondsMax,
              "CL: read to its first data", true},
    ConfigKey{"dram_custom", "cwl_ps", custom_wide<&DramDevice::cwl_ps>, 0, kPicosecondsMax,
              "CWL: write to its first data", true},
    ConfigKey{"dram_custom", "burst_ps", custom_wide<&DramDevice::burst_ps>, 1, kPicosecondsMax,
              "data of one burst", true},
    ConfigKey{"dram_custom", "ras_ps", custom_wide<&DramDevice::ras_ps>, 0, kPicosecondsMax,
              "tRAS: activation to precharge", true},
    ConfigKey{"dram_custom", "rc_ps", custom_wide<&DramDevice::rc_ps>, 0, kPicosecondsMax,
              "tRC: activation to activation, one bank", true},
    ConfigKey{"dram_custom", "faw_ps", custom_wide<&DramDevice::faw_ps>, 0, kPicosecondsMax,
              "tFAW: window of four activations", true},
    ConfigKey{"dram_custom", "rrd_short_ps", custom_wide<&DramDevice::rrd_short_ps>, 0,
              kPicosecondsMax, "tRRD_S: activation to activation, other bank group", true},
    ConfigKey{"dram_custom", "rrd_long_ps", custom_wide<&DramDevice::rrd_long_ps>, 0,
              kPicosecondsMax, "tRRD_L: the same, one bank group", true},
    ConfigKey{"dram_custom", "ccd_short_ps", custom_wide<&DramDevice::ccd_short_ps>, 1,
              kPicosecondsMax, "tCCD_S: column command to column command, other bank group", true},
    ConfigKey{"dram_custom", "ccd_long_ps", custom_wide<&DramDevice::ccd_long_ps>, 1,
              kPicosecondsMax, "tCCD_L: the same, one bank group", true},
    ConfigKey{"dram_custom", "wr_ps", custom_wide<&DramDevice::wr_ps>, 0, kPicosecondsMax,
              "tWR: end of write data to precharge", true},
    ConfigKey{"dram_custom", "wtr_short_ps", custom_wide<&DramDevice::wtr_short_ps>, 0,
              kPicosecondsMax, "tWTR_S: end of write data to read, other bank group", true},
    ConfigKey{"dram_custom", "wtr_long_ps", custom_wide<&DramDevice::wtr_long_ps>, 0,
              kPicosecondsMax, "tWTR_L: the same, one bank group", true},
    ConfigKey{"dram_custom", "rtp_ps", custom_wide<&DramDevice::rtp_ps>, 0, kPicosecondsMax,
              "tRTP: read to precharge", true},
    ConfigKey{"dram_custom", "read_to_write_ps", custom_wide<&DramDevice::read_to_write_ps>, 0,
              kPicosecondsMax, "read command to write command", true},
    ConfigKey{"dram_custom", "refresh_interval_ps", custom_wide<&DramDevice::refresh_interval_ps>,
              0, kPicosecondsMax, "tREFI: between refreshes of all banks", true},
    ConfigKey{"dram_custom", "refresh_ps", custom_wide<&DramDevice::refresh_ps>, 0, kPicosecondsMax,
              "tRFC: what a refresh takes", true},
    ConfigKey{"dram_custom", "activate_slots", custom<&DramDevice::activate_slots>, 1, 4,
              "cycles of the command bus that an activation takes", true},
    ConfigKey{"dram_custom", "split_command_bus", custom<&DramDevice::split_command_bus>, 0, 1,
              "1: one command bus for rows and one for columns", true},
    ConfigKey{"dram_custom", "activate_in_two", custom<&DramDevice::activate_in_two>, 0, 1,
              "1: an activation is two commands, and times count from the first", true},
    ConfigKey{"dram_custom", "clock_on_demand", custom<&DramDevice::clock_on_demand>, 0, 1,
              "1: the data clock stops where it is not used, and a command more starts it", true},

    ConfigKey{
        "dma", "request_bytes", dma<&DmaConfigLimits::request_bytes>, 64, kMebi,
        "a request's bytes in each channel of the memory, the unit of arbitration; pieces of a "
        "long run have dram.channels times as many and end at multiples of that"},
    ConfigKey{"dma", "outstanding_requests", dma<&DmaConfigLimits::outstanding_requests>, 1, 1024,
              "requests in flight for each DMA engine"},
    ConfigKey{"dma", "port_bytes", dma<&DmaConfigLimits::port_bytes>, 1, 4096,
              "bytes that a DMA engine moves into or out of the buffer in a cycle", true},
    ConfigKey{"dma", "scatter_elements", dma<&DmaConfigLimits::scatter_elements>, 1, 4096,
              "elements that it moves in a cycle where neighbours in DRAM lie apart in a partition",
              true},
    ConfigKey{"dma", "task_start_cycles", dma<&DmaConfigLimits::task_start_cycles>, 0, 1'000'000,
              "cycles to configure a DMA engine for a task"},
    ConfigKey{"dma", "queues", dma<&DmaConfigLimits::queues>, 0, 64,
              "queues that loads and stores share; 0: the memory channel alone sets the pace"},
    ConfigKey{"dma", "queue_megabytes_per_second",
              dma<&DmaConfigLimits::queue_megabytes_per_second>, 1, 1'000'000,
              "what a queue moves, in millions of bytes per second"},
    ConfigKey{"dma", "descriptor_bytes", dma<&DmaConfigLimits::descriptor_bytes>, 64, kMebi,
              "bytes of one contiguous run that a descriptor of a queue moves at most"},
    ConfigKey{"dma", "descriptor_nanoseconds", dma<&DmaConfigLimits::descriptor_nanoseconds>, 0,
              100'000, "time of a queue for a descriptor, besides the transfer"},

    ConfigKey{"task_manager", "queues", manager<&Manager::queues>, 1, 64,
              "task queues, one per priority"},
    ConfigKey{"task_manager", "task_buffer_entries", manager<&Manager::task_buffer_entries>, 1,
              1024, "tasks in flight"},
    ConfigKey{"task_manager", "configuration_words_per_cycle",
              manager<&Manager::configuration_words_per_cycle>, 1, 64,
              "words of a task descriptor written to components in a cycle"},
    ConfigKey{"task_manager", "fetch_bytes", manager<&Manager::fetch_bytes>, 0, kMebi,
              "bytes of a request for task descriptors, two of which are on their way; 0: "
              "`dma.request_bytes`, or 4096",
              true},
    ConfigKey{"task_manager", "dispatch_cycles", manager<&Manager::dispatch_cycles>, 0, 10'000,
              "cycles from the arbiter's choice to the first configuration word"},
    ConfigKey{"task_manager", "configuration_sets", manager<&Manager::configuration_sets>, 1, 2,
              "register sets of the neural and the planar engine: with 2 a task is configured, and "
              "its first weights loaded, while the one before it runs"},
    ConfigKey{"task_manager", "guaranteed_entries", manager<&Manager::guaranteed_entries>, 0, 1024,
              "entries of the task buffer that each of several networks on the core can always "
              "get, however many tasks the others have; fewer where there are not enough",
              true},

    ConfigKey{"message", "ports", message<&Message::ports>, 0, kMessagePortsMax,
              "message processors of each direction, which bring vectors and matrices in from the "
              "network edge and take results out; 0: none, they go through the memory",
              true},
    ConfigKey{"message", "megabytes_per_second", message<&Message::megabytes_per_second>, 1,
              1'000'000, "what a port moves, in millions of bytes per second", true},
    ConfigKey{"message", "nanoseconds", message<&Message::nanoseconds>, 0, 1'000'000,
              "from the last byte of a message at the port to its place on the chip, or from there "
              "to the port",
              true},
    ConfigKey{"message", "header_cycles", message<&Message::header_cycles>, 0, 10'000,
              "cycles of a port for the header of a message", true},
    ConfigKey{"message", "buffer_bytes", message<&Message::buffer_bytes>, 0, kMebi,
              "bytes of messages that come in before a task asks for them", true},

    ConfigKey{"host", "link_megabytes_per_second", host<&HostConfig::link_megabytes_per_second>, 1,
              1'000'000,
              "what the link between host and processor moves in each direction, in millions of "
              "bytes per second"},
    ConfigKey{"host", "link_nanoseconds", host<&HostConfig::link_nanoseconds>, 0, 1'000'000,
              "time of a transfer over the link, besides its bytes"},
    ConfigKey{"host", "step_nanoseconds", host<&HostConfig::step_nanoseconds>, 0, 1'000'000'000,
              "time of a step that the host takes, besides its bytes"},
    ConfigKey{"host", "megabytes_per_second", host<&HostConfig::megabytes_per_second>, 1, 1'000'000,
              "what a step of the host touches, inputs and outputs, in millions of bytes per "
              "second"},

    ConfigKey{"formats", "vector",
              MemberAccess<Format>(nested<&ChipConfig::formats, &FormatsConfig::vector>), 0, 0,
              "format of float values between operations"},
    ConfigKey{"formats", "matrix", MemberAccess<MatrixKind>(of_matrix<&MatrixFormat::kind>), 0, 0,
              "what float inputs of the array become: block floating point, Microscaling, or left "
              "alone"},
    ConfigKey{"formats", "native_dimension", matrix<&MatrixFormat::native_dimension>, 1, 65536,
              "native dimension N: values that share an exponent"},
    ConfigKey{"formats", "mantissa_bits_moving", matrix<&MatrixFormat::mantissa_bits_moving>, 2, 15,
              "mantissa bits of activations in block floating point"},
    ConfigKey{"formats", "mantissa_bits_stationary",
              matrix<&MatrixFormat::mantissa_bits_stationary>, 2, 15,
              "mantissa bits of weights in block floating point"},
    ConfigKey{"formats", "long", MemberAccess<LongFormat>(of_matrix<&MatrixFormat::long_format>), 0,
              0,
              "what products of block floating point are summed in: the unit of the smallest "
              "product, or 2^-40"},
    ConfigKey{"formats", "element_moving",
              MemberAccess<MicroElement>(of_matrix<&MatrixFormat::element_moving>), 0, 0,
              "elements of activations in Microscaling"},
    ConfigKey{"formats", "element_stationary",
              MemberAccess<MicroElement>(of_matrix<&MatrixFormat::element_stationary>), 0, 0,
              "elements of weights in Microscaling"},
    ConfigKey{"formats", "micro_scale",
              MemberAccess<MicroScale>(of_matrix<&MatrixFormat::micro_scale>), 0, 0,
              "how a block's largest magnitude becomes its scale in Microscaling"},
    ConfigKey{
        "formats", "vector_inputs",
        MemberAccess<VectorInputs>(nested<&ChipConfig::formats, &FormatsConfig::vector_inputs>), 0,
        0,
        "operands of element-wise work: as they are, or quantised like those of products on "
        "the way"},
    ConfigKey{
        "formats", "quantised_bytes",
        MemberAccess<std::int32_t>(nested<&ChipConfig::formats, &FormatsConfig::quantised_bytes>),
        1, 2,
        "bytes of the integers that products of quantised models take: 2 has operands of 16 "
        "bits go through the array in halves, whose sums the post-processor merges; with 1 "
        "such models compute in floats",
        true},
    ConfigKey{
        "formats", "fixed_weight_bits",
        MemberAccess<std::int32_t>(nested<&ChipConfig::formats, &FormatsConfig::fixed_weight_bits>),
        0, arith::kFixedRangeBitsMax,
        "bits of weights that are integers with one power of two as the scale of an output "
        "channel, 3 or more; 0: weights are as the matrix format has them",
        true},
    ConfigKey{"formats", "logarithmic_weight_bits",
              MemberAccess<std::int32_t>(
                  nested<&ChipConfig::formats, &FormatsConfig::logarithmic_weight_bits>),
              0, arith::kLogarithmicBitsMax,
              "bits of weights that are 0 or a power of two with a sign, 2 or more; 0: weights are "
              "as the matrix format has them",
              true},

    ConfigKey{"card", "groups", card<&CardConfig::groups>, 1, 16,
              "groups of cores on the card, each with a memory as [dram] says"},
    ConfigKey{"card", "cores_per_group", card<&CardConfig::cores_per_group>, 1, kCardCoresMax,
              "cores of a group"},
    ConfigKey{"card", "sync_cycles", card<&CardConfig::sync_cycles>, 0, 100'000,
              "cycles that news of a progress counter takes to another core of the group"},

    ConfigKey{"load_save", "frame_bytes", load_save<&LoadSave::frame_bytes>, 64, 65536,
              "bytes of data in a frame"},
    ConfigKey{"load_save", "header_bytes", load_save<&LoadSave::header_bytes>, 8, 256,
              "bytes of a frame's header, in front of its data"},
    ConfigKey{"load_save", "unpack_cycles", load_save<&LoadSave::unpack_cycles>, 0, 1000,
              "cycles from a frame's arrival to its command"},
    ConfigKey{"load_save", "pack_cycles", load_save<&LoadSave::pack_cycles>, 0, 1000,
              "cycles from data to their frame"},
    ConfigKey{"load_save", "port_bytes", load_save<&LoadSave::port_bytes>, 1, 4096,
              "bytes that the port of a core moves in a cycle"},
    ConfigKey{"load_save", "broadcast_bytes", load_save<&LoadSave::broadcast_bytes>, 1, 4096,
              "bytes that the bus to all cores of a group moves in a cycle"},

    ConfigKey{
        "bandwidth", "slice_cycles",
        MemberAccess<std::int32_t>(of_card<&CardConfig::bandwidth, &BandwidthConfig::slice_cycles>),
        1, 65536, "cycles of a time slice, in which one port has the group's memory channels"},

    ConfigKey{"ring", "bytes_per_cycle",
              MemberAccess<std::int32_t>(of_card<&CardConfig::ring, &RingConfig::bytes_per_cycle>),
              1, 4096, "bytes that go from a group to the next in a cycle, headers among them"},
    ConfigKey{"ring", "hop_cycles",
              MemberAccess<std::int32_t>(of_card<&CardConfig::ring, &RingConfig::hop_cycles>), 1,
              1000, "cycles from a group to the next"},

    ConfigKey{"network", "gigabits_per_second",
              MemberAccess<std::int32_t>(
                  of_card<&CardConfig::network, &NetworkConfig::gigabits_per_second>),
              1, 1600,
              "what the card's link to other cards moves in each direction, in billions of bits "
              "per second"},
    ConfigKey{"network", "latency_nanoseconds",
              MemberAccess<std::int32_t>(
                  of_card<&CardConfig::network, &NetworkConfig::latency_nanoseconds>),
              0, 10'000'000, "time of a message to another card, besides its bytes"},

    ConfigKey{"card_features", "merge", feature<&Features::merge>, 0, 1,
              "1: reads of the same bytes by cores of a group cost one read of the memory"},
    ConfigKey{"card_features", "broadcast", feature<&Features::broadcast>, 0, 1,
              "1: merged reads reach all who want them at once"},
    ConfigKey{"card_features", "forward", feature<&Features::forward>, 0, 1,
              "1: a read of one group's memory goes on around the ring to all that want it"},
    ConfigKey{"card_features", "dynamic_bandwidth", feature<&Features::dynamic_bandwidth>, 0, 1,
              "1: time slices go to ports that ask; 0: to every core in turn, asking or not"},
    ConfigKey{"card_features", "needed_bytes_only", feature<&Features::needed_bytes_only>, 0, 1,
              "1: between cards goes what is needed; 0: whole feature maps"},
    ConfigKey{"card_features", "instruction_sync", feature<&Features::instruction_sync>, 0, 1,
              "1: cores wait for rows of each other's; 0: for the end of each layer"},
    ConfigKey{"card_features", "loads_beside_arithmetic",
              feature<&Features::loads_beside_arithmetic>, 0, 1,
              "1: loads go on beside arithmetic; 0: a layer's arithmetic waits for its loads"},
    ConfigKey{
        "card_features", "hand_over", feature<&Features::hand_over>, 0, 1,
        "1: what a core reads of its own results stays in its state buffer, if it has room; 0: "
        "everything goes through memory"},
    ConfigKey{"card_features", "split",
              MemberAccess<CardSplit>(of_card<&CardConfig::features, &Features::split>), 0, 0,
              "how layers are shared out among cores: as the linker chooses for each, or all by "
              "columns (w) or by output channels (oc)"},
};

constexpr std::array<std::string_view, 3> kVectorWords = {"f16", "bf16", "f32"};
constexpr std::array<Format, 3> kVectorFormats = {Format::kF16, Format::kBf16, Format::kF32};
constexpr std::array<std::string_view, 3> kMatrixWords = {"bfp", "float", "mx"};
constexpr std::array<MatrixKind, 3> kMatrixKinds = {MatrixKind::kBlockFloat, MatrixKind::kFloat,
                                                    MatrixKind::kMicroscaling};
constexpr std::array<std::string_view, 2> kLongWords = {"exact", "q34.40"};
constexpr std::array<LongFormat, 2> kLongFormats = {LongFormat::kExact, LongFormat::kQ34_40};
constexpr std::array<std::string_view, 6> kElementWords = {"mxint8",    "mxfp8e4m3", "mxfp8e5m2",
                                                           "mxfp6e3m2", "mxfp6e2m3", "mxfp4e2m1"};
constexpr std::array<MicroElement, 6> kElements = {MicroElement::kInt8, MicroElement::kE4M3,
                                                   MicroElement::kE5M2, MicroElement::kE3M2,
                                                   MicroElement::kE2M3, MicroElement::kE2M1};
constexpr std::array<std::string_view, 3> kMicroScaleWords = {"floor", "ceil", "even"};
constexpr std::array<MicroScale, 3> kMicroScales = {MicroScale::kFloor, MicroScale::kCeil,
                                                    MicroScale::kEven};
constexpr std::array<std::string_view, 2> kVectorInputWords = {"plain", "quantised"};
constexpr std::array<VectorInputs, 2> kVectorInputs = {VectorInputs::kPlain,
                                                       VectorInputs::kQuantised};
constexpr std::array<std::string_view, 2> kDataflowWords = {"weight_stationary",
                                                            "output_stationary"};
constexpr std::array<Dataflow, 2> kDataflows = {Dataflow::kWeightStationary,
                                                Dataflow::kOutputStationary};
constexpr std::array<std::string_view, 2> kFoldWords = {"overlapped", "serial"};
constexpr std::array<Folds, 2> kFolds = {Folds::kOverlapped, Folds::kSerial};
constexpr std::array<std::string_view, 2> kArbitrationWords = {"in_turn", "kernels_last"};
constexpr std::array<Arbitration, 2> kArbitrations = {Arbitration::kInTurn,
                                                      Arbitration::kKernelsLast};
constexpr std::array<std::string_view, 6> kDramKindWords = {"flat",      "ddr4-2400",   "ddr4-3200",
                                                            "hbm2-2000", "lpddr5-6400", "custom"};
constexpr std::array<DramKind, 6> kDramKinds = {DramKind::kFlat,        DramKind::kDdr4_2400,
                                                DramKind::kDdr4_3200,   DramKind::kHbm2_2000,
                                                DramKind::kLpddr5_6400, DramKind::kCustom};
constexpr std::array<DramInterleave, 3> kDramInterleaves = {
    DramInterleave::kRow, DramInterleave::kBank, DramInterleave::kGroup};
constexpr std::array<std::string_view, 3> kSplitWords = {"auto", "w", "oc"};
constexpr std::array<CardSplit, 3> kSplits = {CardSplit::kAuto, CardSplit::kWidth,
                                              CardSplit::kChannels};

template <typename T, std::size_t n>
std::string quoted_word(const T& value, const std::array<T, n>& values,
                        const std::array<std::string_view, n>& words) {
  for (std::size_t i = 0; i < n; ++i) {
    if (values[i] == value) return fmt::format("\"{}\"", words[i]);
  }
  TESSERA_CHECK(false, "value {} has no word in an architecture file", static_cast<int>(value));
  return "";
}

template <typename T, std::size_t n>
bool set_word(T& value, std::string_view word, const std::array<T, n>& values,
              const std::array<std::string_view, n>& words) {
  for (std::size_t i = 0; i < n; ++i) {
    if (words[i] != word) continue;
    value = values[i];
    return true;
  }
  return false;
}

// Names stand in reports, file names and JSON without quoting.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '+' || c == ':';
  });
}

struct ValueText {
  ChipConfig config;
  std::string operator()(MemberAccess<std::int32_t> access) {
    return std::to_string(access(config));
  }
  std::string operator()(MemberAccess<std::int64_t> access) {
    return std::to_string(access(config));
  }
  std::string operator()(MemberAccess<std::string> access) {
    return fmt::format("\"{}\"", access(config));
  }
  std::string operator()(MemberAccess<Format> access) {
    return quoted_word(access(config), kVectorFormats, kVectorWords);
  }
  std::string operator()(MemberAccess<MatrixKind> access) {
    return quoted_word(access(config), kMatrixKinds, kMatrixWords);
  }
  std::string operator()(MemberAccess<LongFormat> access) {
    return quoted_word(access(config), kLongFormats, kLongWords);
  }
  std::string operator()(MemberAccess<MicroElement> access) {
    return quoted_word(access(config), kElements, kElementWords);
  }
  std::string operator()(MemberAccess<MicroScale> access) {
    return quoted_word(access(config), kMicroScales, kMicroScaleWords);
  }
  std::string operator()(MemberAccess<VectorInputs> access) {
    return quoted_word(access(config), kVectorInputs, kVectorInputWords);
  }
  std::string operator()(MemberAccess<Dataflow> access) {
    return quoted_word(access(config), kDataflows, kDataflowWords);
  }
  std::string operator()(MemberAccess<Folds> access) {
    return quoted_word(access(config), kFolds, kFoldWords);
  }
  std::string operator()(MemberAccess<Arbitration> access) {
    return quoted_word(access(config), kArbitrations, kArbitrationWords);
  }
  std::string operator()(MemberAccess<DramKind> access) {
    return quoted_word(access(config), kDramKinds, kDramKindWords);
  }
  std::string operator()(MemberAccess<DramInterleave> access) {
    return quoted_word(access(config), kDramInterleaves, kDramInterleaveNames);
  }
  std::string operator()(MemberAccess<CardSplit> access) {
    return quoted_word(access(config), kSplits, kSplitWords);
  }
};

constexpr std::string_view kInFlatMemory = " with dram.device = \"flat\", or a device's name there";
constexpr std::string_view kOfDevices = "a device's name in dram.device, or [dram_custom]";
constexpr std::array kReplacedKeys = {
    ReplacedConfigKey{"dram", "latency_cycles", "dram.flat_nanoseconds", kInFlatMemory},
    ReplacedConfigKey{"dram", "bytes_per_cycle", "dram.flat_megabytes_per_second", kInFlatMemory},
    ReplacedConfigKey{"dram", "burst_bytes", "dram.flat_burst_bytes", kInFlatMemory},
    ReplacedConfigKey{"dram", "banks", "", kOfDevices},
    ReplacedConfigKey{"dram", "row_bytes", "", kOfDevices},
    ReplacedConfigKey{"dram", "row_miss_cycles", "", kOfDevices},
};

}  // namespace

std::string ReplacedConfigKey::message() const {
  return fmt::format(
      "not a key any more, since times of the memory are no core cycles; allowed {}{} "
      "(docs/formats/architecture_file.md)",
      instead, how);
}

std::span<const ReplacedConfigKey> replaced_config_keys() { return kReplacedKeys; }

std::string ConfigKey::path() const {
  return section.empty() ? std::string(key) : fmt::format("{}.{}", section, key);
}

bool ConfigKey::of_card() const {
  constexpr std::array<std::string_view, 6> kSections = {"card", "load_save", "bandwidth",
                                                         "ring", "network",   "card_features"};
  return std::find(kSections.begin(), kSections.end(), section) != kSections.end();
}

std::span<const ConfigKey> config_keys() { return kKeys; }

std::string config_value_text(const ConfigKey& key, const ChipConfig& config) {
  return std::visit(ValueText{config}, key.member);
}

std::span<const std::string_view> config_words(const ConfigKey& key) {
  if (std::holds_alternative<MemberAccess<Format>>(key.member)) return kVectorWords;
  if (std::holds_alternative<MemberAccess<MatrixKind>>(key.member)) return kMatrixWords;
  if (std::holds_alternative<MemberAccess<LongFormat>>(key.member)) return kLongWords;
  if (std::holds_alternative<MemberAccess<MicroElement>>(key.member)) return kElementWords;
  if (std::holds_alternative<MemberAccess<MicroScale>>(key.member)) return kMicroScaleWords;
  if (std::holds_alternative<MemberAccess<VectorInputs>>(key.member)) return kVectorInputWords;
  if (std::holds_alternative<MemberAccess<Dataflow>>(key.member)) return kDataflowWords;
  if (std::holds_alternative<MemberAccess<Folds>>(key.member)) return kFoldWords;
  if (std::holds_alternative<MemberAccess<Arbitration>>(key.member)) return kArbitrationWords;
  if (std::holds_alternative<MemberAccess<DramKind>>(key.member)) return kDramKindWords;
  if (std::holds_alternative<MemberAccess<DramInterleave>>(key.member)) return kDramInterleaveNames;
  if (std::holds_alternative<MemberAccess<CardSplit>>(key.member)) return kSplitWords;
  return {};
}

std::string config_allowed_text(const ConfigKey& key) {
  if (std::holds_alternative<MemberAccess<std::string>>(key.member))
    return "1 to 64 letters, digits, '-', '_', '.', '+' and ':' in quotes";
  const auto words = config_words(key);
  if (words.empty()) return fmt::format("{}..{}", key.minimum, key.maximum);
  std::string text;
  for (const std::string_view word : words) {
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", word);
  }
  return text;
}

bool set_config_word(const ConfigKey& key, std::string_view word, ChipConfig& config) {
  if (const auto* access = std::get_if<MemberAccess<std::string>>(&key.member)) {
    if (!is_plain_name(word)) return false;
    (*access)(config) = word;
    return true;
  }
  if (const auto* access = std::get_if<MemberAccess<Format>>(&key.member)) {
    return set_word((*access)(config), word, kVectorFormats, kVectorWords);
  }
  if (const auto* access = std::get_if<MemberAccess<LongFormat>>(&key.member)) {
    return set_word((*access)(config), word, kLongFormats, kLongWords);
  }
  if (const auto* access = std::get_if<MemberAccess<MicroElement>>(&key.member)) {
    return set_word((*access)(config), word, kElements, kElementWords);
  }
  if (const auto* access = std::get_if<MemberAccess<MicroScale>>(&key.member)) {
    return set_word((*access)(config), word, kMicroScales, kMicroScaleWords);
  }
  if (const auto* access = std::get_if<MemberAccess<VectorInputs>>(&key.member)) {
    return set_word((*access)(config), word, kVectorInputs, kVectorInputWords);
  }
  if (const auto* access = std::get_if<MemberAccess<Dataflow>>(&key.member)) {
    return set_word((*access)(config), word, kDataflows, kDataflowWords);
  }
  if (const auto* access = std::get_if<MemberAccess<Folds>>(&key.member)) {
    return set_word((*access)(config), word, kFolds, kFoldWords);
  }
  if (const auto* access = std::get_if<MemberAccess<Arbitration>>(&key.member)) {
    return set_word((*access)(config), word, kArbitrations, kArbitrationWords);
  }
  if (const auto* access = std::get_if<MemberAccess<DramKind>>(&key.member)) {
    return set_word((*access)(config), word, kDramKinds, kDramKindWords);
  }
  if (const auto* access = std::get_if<MemberAccess<DramInterleave>>(&key.member)) {
    return set_word((*access)(config), word, kDramInterleaves, kDramInterleaveNames);
  }
  if (const auto* access = std::get_if<MemberAccess<CardSplit>>(&key.member)) {
    return set_word((*access)(config), word, kSplits, kSplitWords);
  }
  const auto* access = std::get_if<MemberAccess<MatrixKind>>(&key.member);
  TESSERA_CHECK(access != nullptr, "{} is not a word", key.path());
  return set_word((*access)(config), word, kMatrixKinds, kMatrixWords);
}

}  // namespace tessera
