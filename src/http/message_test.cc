#include "http/message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tessera::http {
namespace {

TEST(Requests, FieldsAreFoundInAnyCase) {
  const Request request = {.fields = {{"Content-TYPE", "a"}, {"content-type", "b"}}};
  EXPECT_EQ(request.field("content-type"), "a");
  EXPECT_FALSE(request.field("Content").has_value());
}

TEST(Requests, ParametersAreDecoded) {
  const Request request = {.query = "from=12&name=a%20b%2Fc+d&empty=&bare&&bad=%zz%4&=x"};
  const Parameters expected = {{"from", "12"}, {"name", "a b/c d"}, {"empty", ""},
                               {"bare", ""},   {"bad", "%zz%4"},    {"", "x"}};
  EXPECT_EQ(request.parameters(), expected);
  EXPECT_TRUE(Request{}.parameters().empty());
}

TEST(Heads, NameLengthTypeAndFields) {
  const std::vector<Field> all = {{"X-All", "1"}};
  EXPECT_EQ(head_text({.status = 404, .type = "text/plain", .body = std::string("none")},
                      {.fields = &all}),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n"
            "Connection: keep-alive\r\nX-All: 1\r\n\r\n");
  EXPECT_EQ(head_text({.body = Pieces{}}, {.keep_alive = false}),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(head_text({.body = Pieces{}}, {.version = 10, .keep_alive = false}),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
}

TEST(Heads, ALineEndInAValueBeginsNoField) {
  EXPECT_EQ(head_text({.fields = {{"A", "b\r\nSet-Cookie: c"}}}, {}),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n"
            "A: b  Set-Cookie: c\r\n\r\n");
}

}  // namespace
}  // namespace tessera::http
