// A program that runs until it is ended, and tells what happens meanwhile.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera::tools {

// One event, which goes out at once: a JSON object or a text.
void tell_event(bool json, const nlohmann::json& document, const std::string& text);
// Before the first of the next: SIGINT, SIGTERM and, unless it is ignored from the start on, SIGHUP end
// wait_until_end().
void end_on_signals();
// Until the time is over (0: never), or a signal; with `input` until standard input ends, too.
void wait_until_end(double seconds, bool input = false);
bool was_interrupted();  // by a signal

}  // namespace tessera::tools
