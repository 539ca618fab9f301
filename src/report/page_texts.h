// The files of this folder as texts. Names in them may hold any bytes; the texts are UTF-8.
#pragma once

#include <string>

#include "report/buffer_curve.h"
#include "report/format_study.h"
#include "tessera/session.h"

namespace tessera::report {

std::string timeline_text(const RunResult& run);
std::string html_report_text(const std::string& title, const Network& network,
                             const RunResult& run);
std::string format_page_text(const std::string& title, const FormatStudy& study);
std::string buffer_page_text(const std::string& title, const BufferCurve& curve);

}  // namespace tessera::report
