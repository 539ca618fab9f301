// The page of report/format_study.h: a model under one number format after the other. Names in it
// may hold any bytes; the text is UTF-8.
#pragma once

#include <string>

#include "base/result.h"
#include "report/format_study.h"

namespace tessera::report {

// A self-contained page: the table and the plot.
Status write_format_page(const std::string& path, const std::string& title,
                         const FormatStudy& study);
// Its text.
std::string format_page_text(const std::string& title, const FormatStudy& study);

}  // namespace tessera::report
