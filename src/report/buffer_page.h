// The page of report/buffer_curve.h: what a network costs with less and less state buffer. Names in
// it may hold any bytes; the text is UTF-8.
#pragma once

#include <string>

#include "base/result.h"
#include "report/buffer_curve.h"

namespace tessera::report {

// A self-contained page: the table and a plot of cycles and DRAM bytes over the buffer's size.
Status write_buffer_page(const std::string& path, const std::string& title,
                         const BufferCurve& curve);
// Its text.
std::string buffer_page_text(const std::string& title, const BufferCurve& curve);

}  // namespace tessera::report
