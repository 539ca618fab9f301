// The files of this folder as texts. Names in them may hold any bytes; the texts are UTF-8.
#pragma once

#include <string>

#include "tessera/session.h"

namespace tessera::report {

std::string timeline_text(const RunResult& run);
std::string html_report_text(const std::string& title, const Network& network,
                             const RunResult& run);

}  // namespace tessera::report
