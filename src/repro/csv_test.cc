#include "repro/csv.h"

#include <gtest/gtest.h>

namespace tessera::repro {
namespace {

std::string error_of(std::string_view text) {
  const auto table = CsvTable::parse(text, "figures.csv");
  return table.ok() ? "no error" : table.error().message;
}

TEST(Csv, CellsMayHoldCommasAndQuotes) {
  const auto table = CsvTable::parse("name,shape\r\na,\"[1,2]@[2,3]\"\n\n\"say \"\"b\"\"\",x", "f");
  ASSERT_TRUE(table.ok()) << table.error().message;
  ASSERT_EQ(table->rows().size(), 2u);
  EXPECT_EQ(table->rows()[0].cells[1], "[1,2]@[2,3]");
  EXPECT_EQ(table->rows()[1].cells[0], "say \"b\"");
  EXPECT_EQ(table->rows()[1].line, 4);
  const auto shape = table->column("shape");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(*shape, 1u);
}

TEST(Csv, MessagesNameFileAndLine) {
  EXPECT_EQ(error_of(""), "figures.csv:0: found no row, allowed a header and at least one row");
  EXPECT_EQ(error_of("a,b\n1\n"), "figures.csv:2: found 1 cells, the header has 2");
  EXPECT_EQ(error_of("a,b\n1,\"2\n"), "figures.csv:2: a cell's quotes do not end on their line");
  const auto table = CsvTable::parse("a,b\n1.5,x\n", "figures.csv");
  ASSERT_TRUE(table.ok());
  const CsvRow& row = table->rows()[0];
  EXPECT_EQ(table->column("c").error().message, "figures.csv:1: no column 'c', found a, b");
  EXPECT_EQ(table->integer(row, 0).error().message,
            "figures.csv:2: a: found '1.5', allowed a whole number greater than 0");
  EXPECT_EQ(table->number(row, 1).error().message,
            "figures.csv:2: b: found 'x', allowed a number greater than 0");
  const auto number = table->number(row, 0);
  ASSERT_TRUE(number.ok());
  EXPECT_EQ(*number, 1.5);
}

}  // namespace
}  // namespace tessera::repro
