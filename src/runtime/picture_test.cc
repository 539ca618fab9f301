// Untrusted pictures; the files are the fuzz target's corpus.
#include <gtest/gtest.h>

#include "runtime/picture_bytes.h"
#include "tessera/file.h"

namespace tessera {
namespace {

std::string outcome(const std::string& name, std::int64_t pixels_max = kPicturePixelsMax) {
  const auto bytes = read_file(std::string(TESSERA_PICTURE_CORPUS) + "/" + name);
  EXPECT_TRUE(bytes.ok()) << name;
  const auto picture = parse_picture(*bytes, "p", pixels_max);
  if (!picture.ok()) return picture.error().message;
  return std::to_string(picture->width) + " x " + std::to_string(picture->height);
}

TEST(PictureBytes, EveryKindOfPngAndJpegIsRead) {
  for (const char* name : {"png_rgb", "png_grey", "png_rgba", "png_palette", "png_one_bit",
                           "png_16", "png_interlaced", "png_gamma"}) {
    EXPECT_EQ(outcome(name), "6 x 5") << name;
  }
  for (const char* name :
       {"jpeg_baseline", "jpeg_progressive", "jpeg_grey", "jpeg_full", "jpeg_restart"}) {
    EXPECT_EQ(outcome(name), "19 x 11") << name;
  }
}

TEST(PictureErrors, AHeaderThatClaimsMoreThanTheBytesHold) {
  EXPECT_EQ(outcome("png_claims_too_much"),
            "reading 'p': 69 bytes are too few for 9999 x 9999 pixels");
  EXPECT_EQ(outcome("jpeg_claims_too_much"), "reading 'p': too few bytes for 9999 x 9999 pixels");
}

TEST(PictureErrors, MorePixelsThanAllowed) {
  EXPECT_EQ(outcome("png_rgb", 29), "reading 'p': 6 x 5 pixels, allowed 29 in all");
  EXPECT_EQ(outcome("jpeg_grey", 208), "reading 'p': 19 x 11 are too many pixels");
}

TEST(PictureErrors, AProgressivePictureOfMoreScansThanAnybodyMakes) {
  EXPECT_EQ(outcome("jpeg_many_scans"), "reading 'p': more than 100 scans");
}

TEST(PictureErrors, AJpegThatEndsTooEarly) {
  EXPECT_EQ(outcome("jpeg_cut_off"), "reading 'p': Premature end of JPEG file");
}

}  // namespace
}  // namespace tessera
