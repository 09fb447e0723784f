#include <limits>

#include <gtest/gtest.h>

#include "millrace/options.h"

namespace millrace {
namespace {

TEST(ParseSizeTest, ReadsBinaryAndDecimalUnitsInAnyCase) {
  EXPECT_EQ(*ParseSize("1000000"), 1000000);
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("0.5KiB"), 512);
  EXPECT_FALSE(ParseSize("0.5").ok());
  EXPECT_EQ(*ParseSize("12GiB"), int64_t{12} << 30);
  EXPECT_EQ(*ParseSize("12gib"), int64_t{12} << 30);
  EXPECT_EQ(*ParseSize("512MB"), 512000000);
  EXPECT_EQ(*ParseSize("1.5 GiB"), int64_t{3} << 29);
  EXPECT_EQ(*ParseSize("2K"), 2048);
  EXPECT_EQ(*ParseSize("0"), 0);
}

TEST(ParseSizeTest, KeepsEveryBitOfPlainByteCounts) {
  EXPECT_EQ(*ParseSize("9007199254740993"), 9007199254740993);
}

TEST(ParseSizeTest, NamesWhatIsWrong) {
  for (const char* text : {"", "GiB", "-1", "-1GiB", "12Gib2", "12 parsecs", "1e3", "1.2.3GB", "nan", "inf", "0x10"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(size.status().message().find(text), std::string::npos) << size.status();
  }
  EXPECT_NE(ParseSize("-5GB").status().message().find("negative"), std::string::npos);
  EXPECT_NE(ParseSize("2000000TiB").status().message().find("2^60"), std::string::npos);
  EXPECT_NE(ParseSize("99999999999999999999").status().message().find("2^60"), std::string::npos);
}

TEST(FormatBytesTest, PrintsThreeToSixDigitsWithAUnit) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes((int64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(FormatBytes(-2048), "-2.00 KiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::min()), "-8192.00 PiB");
}

}  // namespace
}  // namespace millrace
