#include "import/npy.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "import/npz.h"
#include "millrace/import.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using Arrays = std::map<std::string, Tensor>;

std::string DataPath(const std::string& name) { return MILLRACE_SOURCE_DIR "/tests/import/data/" + name; }

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::string TextOf(const absl::StatusOr<Arrays>& arrays) {
  if (!arrays.ok()) return std::string(arrays.status().message());
  std::string text;
  for (const auto& [name, tensor] : *arrays) text += name + " " + AttrValueToText(tensor) + "\n";
  return text;
}

std::string ErrorOfNpy(const std::string& bytes) { return std::string(ArrayFromNpy(bytes).status().message()); }

// An .npy with this header text and data.
std::string Npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
}

// What tests/import/make_npz.py calls ARRAYS.
constexpr const char* kArrays =
    "bfloat16 bfloat16[2]{1.0, -2.0}\n"
    "bool bool[3]{true, false, true}\n"
    "bytes string[3]{\"abc\", \"\", \"\\xff\\x01\"}\n"
    "complex128 complex128[1]{(-0.0, -1.5)}\n"
    "complex64 complex64[1]{(1.0, 2.0)}\n"
    "double double[2]{0.1, 1e+300}\n"
    "empty float[0,3]{}\n"
    "float float[2]{0.1, -inf}\n"
    "half half[2]{0.5, -65504.0}\n"
    "int16 int16[2]{-32768, 32767}\n"
    "int32 int32[2,3]{1, 2, 3, 4, 5, 6}\n"
    "int64 int64[]{-9223372036854775808}\n"
    "int8 int8[2]{-128, 127}\n"
    "layer/kernel float[4]{0.0, 1.0, 2.0, 3.0}\n"
    "uint16 uint16[2]{0, 65535}\n"
    "uint32 uint32[1]{4294967295}\n"
    "uint64 uint64[1]{18446744073709551615}\n"
    "uint8 uint8[2]{0, 255}\n"
    "unicode string[3]{\"h\\xc3\\xa9llo\", \"\\xf0\\x9f\\x98\\x80\", \"\"}\n";

TEST(Npz, ReadsWhatNumPyWrites) {
  EXPECT_EQ(TextOf(LoadArrays(DataPath("numpy_stored.npz"))), kArrays);
  EXPECT_EQ(TextOf(LoadArrays(DataPath("numpy_deflated.npz"))), kArrays);
}

TEST(Npz, FortranOrderByteOrderAndVersionsAreUnderstood) {
  const std::string ramp = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23";
  std::string real_ramp;
  for (int i = 0; i < 24; ++i) real_ramp += (i > 0 ? ", " : "") + std::to_string(i) + ".0";
  EXPECT_EQ(TextOf(LoadArrays(DataPath("odd.npz"))), "big_endian int16[2,3,4]{" + ramp +
                                                         "}\n"
                                                         "big_endian_complex complex64[1]{(1.0, 2.0)}\n"
                                                         "big_endian_text string[1]{\"xyz\"}\n"
                                                         "fortran int32[2,3,4]{" + ramp +
                                                         "}\n"
                                                         "fortran_text string[2,2]{\"a\", \"bc\", \"d\", \"\"}\n"
                                                         "version2 uint8[2,3,4]{" + ramp +
                                                         "}\n"
                                                         "version3 double[2,3,4]{" + real_ramp + "}\n");
}

// data/millrace.npz was checked with NumPy: make_npz.py --check.
TEST(Npz, WritesTheBytesThatNumPyWasSeenToRead) {
  const absl::StatusOr<Arrays> arrays = LoadArrays(DataPath("numpy_stored.npz"));
  ASSERT_TRUE(arrays.ok());
  const std::string path = ::testing::TempDir() + "/millrace_written.npz";
  ASSERT_TRUE(SaveArrays(*arrays, path).ok());
  EXPECT_TRUE(ReadFile(path) == ReadFile(DataPath("millrace.npz"))) << "compare " << path;
  EXPECT_EQ(TextOf(LoadArrays(path)), kArrays);
}

TEST(Npz, WrittenArrayByArrayItAppearsWhenItIsFinished) {
  const std::string path = ::testing::TempDir() + "/millrace_by_array.npz";
  for (const bool finished : {false, true}) {
    auto writer = OpenArrays(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Add("b", Tensor::Scalar<int32_t>(2)).ok());
    ASSERT_TRUE((*writer)->Add("a", Tensor::Scalar<int32_t>(1)).ok());
    EXPECT_FALSE(std::filesystem::exists(path));
    if (!finished) {
      EXPECT_THAT(std::string((*writer)->Add("a", Tensor::Scalar<int32_t>(3)).message()), ::testing::HasSubstr("two arrays are named 'a'"));
      EXPECT_FALSE((*writer)->Finish().ok());
    }
    if (finished) {
      ASSERT_TRUE((*writer)->Finish().ok());
    }
    writer->reset();
    EXPECT_EQ(std::filesystem::exists(path), finished);
  }
  EXPECT_EQ(TextOf(LoadArrays(path)), "a int32[]{1}\nb int32[]{2}\n");
  std::filesystem::remove(path);
}

// NumPy takes an archive for one by its first bytes: those of a file, or the end of an archive that has none.
// NumPy fills strings up with NULs, so those at the end would be lost. Those before it are not.
TEST(Npz, StringsThatEndInNulAreRefused) {
  Tensor strings(DataType::kString, {2});
  strings.mutable_strings() = {std::string("a\0b", 3), std::string("ab\0", 3)};
  EXPECT_EQ(NpyHeader(strings).status().message(),
            "string 1 of a tensor string[2] ends in a NUL, which NumPy's strings cannot: it would be read without it");
  strings.mutable_strings()[1] = "ab";
  EXPECT_TRUE(NpyHeader(strings).ok());
}

TEST(Npz, TypesOfFloat8AreWrittenButNotReadForTheirFilesDoNotTellWhich) {
  const std::string path = ::testing::TempDir() + "/millrace_float8.npz";
  ASSERT_TRUE(SaveArrays({{"x", Tensor(DataType::kFloat8E5M2, {3})}}, path).ok());
  EXPECT_THAT(std::string(LoadArrays(path).status().message()),
              ::testing::HasSubstr("elements of type '|V1', expected bool, an integer, a float, complex or a string type of NumPy: "
                                   "a void of 1 byte does not tell which type of float8 it is"));
  std::filesystem::remove(path);
}

TEST(Npz, AnArchiveOfNothingBeginsAsNumPyExpects) {
  const std::string path = ::testing::TempDir() + "/millrace_empty.npz";
  ASSERT_TRUE(SaveArrays({}, path).ok());
  EXPECT_EQ(ReadFile(path), std::string("PK\x05\x06") + std::string(18, '\0'));
  EXPECT_EQ(TextOf(LoadArrays(path)), "");
  std::filesystem::remove(path);
}

TEST(Npz, ASingleArrayHasTheNameOfItsFile) {
  const std::string path = ::testing::TempDir() + "/millrace_images.npy";
  std::ofstream(path) << Npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}", std::string("\x07\0\0\0", 4));
  EXPECT_EQ(TextOf(LoadArrays(path)), "millrace_images int32[1]{7}\n");
  std::filesystem::remove(path);
}

TEST(Npz, EveryTruncationIsAnErrorOfOneLine) {
  const std::string whole = ReadFile(DataPath("numpy_deflated.npz"));
  for (size_t length = 0; length < whole.size(); ++length) {
    const absl::StatusOr<Arrays> arrays = ArraysFromNpz(whole.substr(0, length));
    ASSERT_FALSE(arrays.ok()) << length;
    ASSERT_EQ(arrays.status().message().find('\n'), std::string::npos);
  }
}

TEST(Npz, AFlippedBitInTheDataIsFoundByTheChecksum) {
  std::string bytes = ReadFile(DataPath("numpy_stored.npz"));
  const size_t data = bytes.find(std::string("\x01\0\0\0\x02\0\0\0\x03\0\0\0", 12));
  ASSERT_NE(data, std::string::npos);
  bytes[data] ^= 4;
  EXPECT_THAT(TextOf(ArraysFromNpz(bytes)), StartsWith("array 'int32': corrupt"));
}

TEST(Npy, LiesAboutTheSizeAreErrors) {
  EXPECT_EQ(ErrorOfNpy(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 1000)}", "abcd")),
            "an array [1000000000000,1000] of 4-byte elements, but 4 bytes of data");
  EXPECT_EQ(ErrorOfNpy(Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "")),
            "an array [4611686018427387904,4] of 4-byte elements, but 0 bytes of data");
  EXPECT_EQ(ErrorOfNpy(Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", "ab")),
            "an array [1] of 1-byte elements, but 2 bytes of data");
  EXPECT_EQ(ErrorOfNpy(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)),
            "a header of 4294967295 bytes, but 2 bytes are left");
}

TEST(Npy, BadHeadersSayWhatWasExpected) {
  EXPECT_EQ(ErrorOfNpy("PK"), "2 bytes, too few for an array's header");
  EXPECT_EQ(ErrorOfNpy("0123456789"), "not a NumPy array (.npy)");
  EXPECT_EQ(ErrorOfNpy(std::string("\x93NUMPY\x09\x00\x00\x00", 10)), "version 9 of the format, expected 1 to 3");
  EXPECT_THAT(ErrorOfNpy(Npy("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "")),
              HasSubstr("elements of type '|O', Python objects, which are pickled and not read; expected strings of type 'S'"));
  EXPECT_THAT(ErrorOfNpy(Npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': ()}", "")),
              HasSubstr("structured array"));
  EXPECT_THAT(ErrorOfNpy(Npy("{'descr': '<f4', 'shape': ()}", "")), HasSubstr("lacks a key"));
  EXPECT_THAT(ErrorOfNpy(Npy("{'descr': '<f4', 'fortran_order': No, 'shape': ()}", "")), HasSubstr("True or False"));
  EXPECT_THAT(ErrorOfNpy(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (-3,)}", "")),
              HasSubstr("dimension '', expected a number"));
  EXPECT_THAT(ErrorOfNpy(Npy("{'descr'", "")), HasSubstr("expected ':'"));
}

TEST(Npz, FileErrorsNameTheFile) {
  EXPECT_THAT(TextOf(LoadArrays("/nowhere/f.npz")), HasSubstr("/nowhere/f.npz"));
  EXPECT_THAT(TextOf(LoadArrays(DataPath("mlp_ref.pb"))),
              AllOf(HasSubstr("mlp_ref.pb: "), HasSubstr("expected arrays of NumPy (.npz or .npy)")));
  EXPECT_THAT(std::string(SaveArrays({}, "/nowhere/f.npz").message()), HasSubstr("/nowhere/f.npz"));
  const std::string path = ::testing::TempDir() + "/millrace_variant.npz";
  EXPECT_THAT(std::string(SaveArrays({{"h", Tensor(DataType::kResource, Shape())}}, path).message()),
              HasSubstr("array 'h': a tensor resource[]"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace millrace
