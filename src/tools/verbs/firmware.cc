// tessera asm, disasm: firmware text to a program, and back.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "arch/chip_config.h"
#include "base/output_file.h"
#include "firmware/assembler.h"
#include "firmware/disassembler.h"
#include "isa/verify.h"
#include "network/firmware_file.h"
#include "package/container.h"
#include "package/container_file.h"
#include "tessera/file.h"
#include "tessera/visible_text.h"
#include "tools/terminal/console.h"
#include "tools/verb.h"

namespace tessera::tools {
namespace {

namespace fs = std::filesystem;
using firmware::WeightsPlace;

struct FirmwareArguments {
  std::string file, output, arch, weights;
  bool unverified = false, inline_weights = false, json = false;
};

std::string of_cores(const isa::CardProgram& program) {
  return program.cores.size() == 1 ? "" : fmt::format(" of {} cores", program.cores.size());
}

Status assemble(const FirmwareArguments& arguments) {
  FileRoles roles;
  roles.read("the text", arguments.file);
  roles.read_architecture(arguments.arch);
  roles.write("-o", arguments.output);
  TESSERA_RETURN_IF_ERROR(roles.check());
  std::vector<std::string> files;
  TESSERA_TRY(const isa::CardProgram program,
              network::assemble_card_file(arguments.file, arguments.arch, false, &files));
  const isa::Program& first = program.cores.front();
  for (const std::string& file : files) roles.read("a file of the text", file);
  TESSERA_RETURN_IF_ERROR(roles.check());
  if (!arguments.unverified) {
    TESSERA_TRY(const ChipConfig chip, network::chip_of(first, arguments.arch));
    const Status proved = program.cores.size() == 1 ? isa::verify_program(first, chip)
                                                    : isa::verify_card_program(program, chip);
    if (!proved.ok()) return proved.error().with_context("'" + arguments.file + "'");
  }
  TESSERA_RETURN_IF_ERROR(package::write_program(arguments.output, program));
  if (arguments.json) {
    nlohmann::json document = {{"program", arguments.output},
                               {"chip", first.chip_name},
                               {"tasks", program.task_count()},
                               {"segments", first.segments.size()},
                               {"dependencies", program.dependency_count()},
                               {"weights_bytes", first.weights.size()},
                               {"verified", !arguments.unverified}};
    if (program.cores.size() > 1) {
      document["cores"] = program.cores.size();
      document["remote_dependencies"] = program.remote_dependency_count();
    }
    show_lines(json_text(document) + "\n");
  } else {
    show("wrote {}: {} tasks{} in {} segments for {}, {} dependencies{}{}\n", arguments.output,
         program.task_count(), of_cores(program), first.segments.size(), first.chip_name,
         program.dependency_count(),
         program.cores.size() == 1
             ? ""
             : fmt::format(", {} on other cores", program.remote_dependency_count()),
         arguments.unverified ? "; not verified" : "");
  }
  return {};
}

// How the text names a file beside it.
std::string beside(const std::string& file, const std::string& text) {
  std::error_code error;
  const fs::path folder = fs::absolute(text, error).parent_path();
  const fs::path relative = fs::proximate(fs::absolute(file, error), folder, error);
  return error || relative.empty() ? file : relative.generic_string();
}

// Of a text that does not give the file back.
std::string note_of(const std::string& file, const std::string& elsewhere, bool left_out,
                    bool same_bytes) {
  if (left_out) {
    return fmt::format(
        "note: the weights of '{}' are parts of '{}', so they are left out of the text, and it "
        "does not "
        "assemble; -o writes them beside it, --inline into it\n",
        visible_text(file), visible_text(elsewhere));
  }
  if (same_bytes) return "";
  return fmt::format(
      "note: '{}' {}; the text gives the same program in another file\n", visible_text(file),
      elsewhere.empty() ? "was not written by this version"
                        : "refers to its weights in '" + visible_text(elsewhere) + "'");
}

Status disassemble(const FirmwareArguments& arguments) {
  FileRoles roles;
  roles.read("the program", arguments.file);
  roles.read("--weights", arguments.weights);
  roles.write("-o", arguments.output);
  TESSERA_RETURN_IF_ERROR(roles.check());
  OutputFiles files;
  TESSERA_TRY(const std::vector<std::byte> bytes,
              package::read_container(package::kProgramMagic, arguments.file));
  TESSERA_TRY(isa::CardProgram program, package::parse_card_program_alone(bytes, arguments.file));
  isa::Program& first = program.cores.front();
  TESSERA_TRY(const std::string elsewhere,
              package::find_elsewhere(first, arguments.file,
                                      {arguments.weights, package::folder_of(arguments.file)}));
  roles.read("the program's weights", elsewhere);
  TESSERA_RETURN_IF_ERROR(roles.check());
  firmware::DisassembleOptions options;
  const bool big = first.weights.size() > firmware::kInlineWeightsMax;
  std::string sidecar;
  if (big && !arguments.inline_weights) {
    if (arguments.output.empty() && !first.weights.parts().empty()) {
      options.weights = WeightsPlace::kLeftOut;  // no file has them in one piece
    } else if (arguments.output.empty()) {
      options = {WeightsPlace::kProgram, elsewhere.empty() ? arguments.file : elsewhere};
    } else {
      TESSERA_RETURN_IF_ERROR(check_has_place_beside(arguments.output));
      sidecar = fs::path(arguments.output).replace_extension(".weights").string();
      options = {WeightsPlace::kFile, beside(sidecar, arguments.output)};
      roles.write("the weights' file", sidecar);
      TESSERA_RETURN_IF_ERROR(roles.check());
      TESSERA_RETURN_IF_ERROR(files.add(sidecar, first.weights));
    }
  }
  const std::string text = firmware::disassemble(program, options);
  // Another writer may have laid out the same contents in another way.
  const bool left_out = options.weights == WeightsPlace::kLeftOut;
  const bool same_bytes = elsewhere.empty() && package::serialise(program) == bytes;
  const std::string note = note_of(arguments.file, elsewhere, left_out, same_bytes);
  std::fputs(note.c_str(), stderr);
  if (!arguments.output.empty()) {
    TESSERA_RETURN_IF_ERROR(files.add(arguments.output, text));
    TESSERA_RETURN_IF_ERROR(files.commit());
  }
  if (arguments.json) {
    nlohmann::json document = {
        {"file", arguments.file}, {"tasks", program.task_count()}, {"same_bytes", same_bytes}};
    if (program.cores.size() > 1) document["cores"] = program.cores.size();
    if (left_out) document["weights_left_out"] = true;
    if (arguments.output.empty()) document["listing"] = text;
    if (!arguments.output.empty()) document["text"] = arguments.output;
    if (!sidecar.empty()) document["weights"] = sidecar;
    show_lines(json_text(document) + "\n");
  } else if (arguments.output.empty()) {
    show_lines(text);
  } else {
    show("wrote {}: {} tasks{}\n", arguments.output, program.task_count(), of_cores(program));
    if (!sidecar.empty()) show("wrote {}\n", sidecar);
  }
  return {};
}

}  // namespace

Action asm_verb(CLI::App& app) {
  auto arguments = std::make_shared<FirmwareArguments>();  // shared with the returned action
  app.add_option("text", arguments->file, "firmware text (.tasm)")->required();
  app.add_option("-o,--output", arguments->output, "program to write (.tprog)")->required();
  app.add_option("--arch", arguments->arch, "architecture (default: the text's)");
  app.add_flag("--unverified", arguments->unverified, "write what the text says, right or wrong");
  app.add_flag("--json", arguments->json, "print one JSON object");
  return [arguments] { return assemble(*arguments); };
}

Action disasm_verb(CLI::App& app) {
  auto arguments = std::make_shared<FirmwareArguments>();  // shared with the returned action
  app.add_option("program", arguments->file, "program (.tprog)")->required();
  app.add_option("-o,--output", arguments->output,
                 "text to write (.tasm); weights of more than 4 KiB go into a file beside it");
  app.add_option("--weights", arguments->weights,
                 "of a program that refers to its weights: the package that has them");
  app.add_flag("--inline", arguments->inline_weights, "all weights in the text");
  app.add_flag("--json", arguments->json, "print one JSON object");
  return [arguments] { return disassemble(*arguments); };
}

}  // namespace tessera::tools
