// XlaRngBitGenerator: the bits that XLA makes of a state on CPUs and GPUs, and the state behind them.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "graph/random_algorithm.h"
#include "passes/rewrite/lower_xla.h"

namespace millrace {
namespace {

using Ints = std::vector<int64_t>;

class XlaRandomBits {
 public:
  explicit XlaRandomBits(XlaWriter& writer) : writer_(writer), state_(writer.Input(1)), output_(writer.Output(1)) {}

  absl::Status Run() {
    const Ints algorithm = writer_.Numbers(0);
    const bool philox = algorithm.size() == 1 && IsPhilox(algorithm[0]), threefry = algorithm.size() == 1 && algorithm[0] == kAlgorithmThreeFry;
    if (!philox && !(threefry && state_.dims[0] == 2)) {
      return writer_.Refuse(absl::StrCat("draws by algorithm ", algorithm.empty() ? -1 : algorithm[0], " from a state of ", state_.dims[0],
                                         " numbers, expected Philox (1 or 3), or ThreeFry (2) from 2"));
    }
    philox ? Philox() : ThreeFry();
    return absl::OkStatus();
  }

 private:
  static constexpr DataType kWord = DataType::kUint32, kLong = DataType::kUint64;
  bool wide() const { return output_.dtype == kLong; }

  XlaValue Long(int64_t value) { return writer_.Constant(Tensor::Vector<uint64_t>({static_cast<uint64_t>(value)})); }
  XlaValue Word(uint32_t value) { return writer_.Constant(Tensor::Vector<uint32_t>({value})); }
  XlaValue StateAt(int64_t place) { return writer_.Slice(state_, {place}, {1}); }
  XlaValue Joined(std::vector<XlaValue> values, int64_t axis, const Ints& dims) {
    const auto count = static_cast<int64_t>(values.size());
    const DataType dtype = values[0].dtype;
    values.push_back(writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(axis))));
    return writer_.Add("ConcatV2", values, dtype, dims, {{"N", count}, {"Tidx", DataType::kInt32}, {"T", dtype}});
  }

  // State (key, low counter[, high counter]); without the last one the key is that, too. A step of the counter is four words.
  void Philox() {
    constexpr int64_t kWords = 4;
    const bool has_high = state_.dims[0] == 3;
    const XlaValue key = StateAt(0), low = StateAt(1), high = has_high ? StateAt(2) : key;
    const DataType drawn = wide() ? kLong : kWord;
    const XlaValue shape = writer_.Constant(output_.dims), algorithm = writer_.Constant(Tensor::Scalar<int32_t>(static_cast<int32_t>(kAlgorithmPhilox)));
    const XlaValue bits = writer_.Add("StatelessRandomUniformFullIntV2", {shape, key, Joined({low, high}, 0, {2}), algorithm}, drawn, output_.dims,
                                      {{"dtype", drawn}, {"Tshape", shape.dtype}});
    const int64_t words = output_.num_elements() * (wide() ? 2 : 1);
    const XlaValue next = writer_.Same("AddV2", {low, Long((words + kWords - 1) / kWords)});
    std::vector<XlaValue> state = {key, next};
    if (has_high) {
      const XlaValue carry = writer_.Cast(writer_.Add("Less", {next, low}, DataType::kBool, {1}), kLong);
      state.push_back(writer_.Same("AddV2", {high, carry}));
    }
    writer_.Finish({Joined(state, 0, state_.dims), writer_.Cast(bits, output_.dtype)});
  }

  // State (key, counter). Two words come of a counter: the halves of a long one, or neighbours in two halves of one dimension.
  void ThreeFry() {
    Ints half = output_.dims;
    const auto even = std::find_if(half.begin(), half.end(), [](int64_t dim) { return dim % 2 == 0; });
    const auto split = even != half.end() ? even : std::max_element(half.begin(), half.end());
    const int64_t along = split - half.begin();
    if (!wide() && !half.empty()) *split = (*split + 1) / 2;
    const int64_t count = ProductOf(half, 0, half.size());
    const std::array<XlaValue, 2> made = Words(count);
    XlaValue bits;
    if (wide()) {
      const XlaValue high = writer_.Add("LeftShift", {writer_.Cast(made[1], kLong), Long(kWordBits)}, kLong, {count});
      bits = writer_.Same("BitwiseOr", {writer_.Cast(made[0], kLong), high});
    } else if (half.empty()) {
      bits = made[0];
    } else {
      Ints row = half, pair = half, whole = half;
      row.insert(row.begin() + along + 1, 1);
      pair.insert(pair.begin() + along + 1, 2);
      whole[along] *= 2;
      bits = writer_.Reshape(Joined({writer_.Reshape(made[0], row), writer_.Reshape(made[1], row)}, along + 1, pair), whole);
      bits = writer_.Slice(bits, Ints(whole.size(), 0), output_.dims);
    }
    const XlaValue state = Joined({StateAt(0), writer_.Same("AddV2", {StateAt(1), Long(count)})}, 0, {2});
    writer_.Finish({state, writer_.Cast(writer_.Reshape(bits, output_.dims), output_.dtype)});
  }

  // Of each of `count` counters in turn, by twenty rounds.
  std::array<XlaValue, 2> Words(int64_t count) {
    constexpr uint32_t kParity = 0x1BD11BDA;
    constexpr uint32_t kTurns[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const auto number = [&](int64_t value) { return writer_.Constant(Tensor::Scalar<int64_t>(value)); };
    const XlaValue places = writer_.Add("Range", {number(0), number(count), number(1)}, DataType::kInt64, {count}, {{"Tidx", DataType::kInt64}});
    const XlaValue counters = writer_.Same("AddV2", {writer_.Cast(places, kLong), StateAt(1)});
    const auto low = [&](const XlaValue& value) { return writer_.Cast(value, kWord); };
    const auto high = [&](const XlaValue& value) { return writer_.Cast(writer_.Same("RightShift", {value, Long(kWordBits)}), kWord); };
    const XlaValue first = low(StateAt(0)), second = high(StateAt(0));
    const XlaValue keys[3] = {first, second, writer_.Same("BitwiseXor", {writer_.Same("BitwiseXor", {first, second}), Word(kParity)})};
    XlaValue a = writer_.Same("AddV2", {low(counters), keys[0]}), b = writer_.Same("AddV2", {high(counters), keys[1]});
    for (uint32_t group = 0; group < 5; ++group) {
      for (const uint32_t turn : kTurns[group % 2]) {
        a = writer_.Same("AddV2", {a, b});
        const XlaValue up = writer_.Same("LeftShift", {b, Word(turn)}), down = writer_.Same("RightShift", {b, Word(kWordBits - turn)});
        b = writer_.Same("BitwiseXor", {a, writer_.Same("BitwiseOr", {up, down})});
      }
      a = writer_.Same("AddV2", {a, keys[(group + 1) % 3]});
      b = writer_.Same("AddV2", {b, writer_.Same("AddV2", {keys[(group + 2) % 3], Word(group + 1)})});
    }
    return {a, b};
  }

  static constexpr uint32_t kWordBits = 32;

  XlaWriter& writer_;
  const XlaValue state_, output_;
};

}  // namespace

absl::Status LowerXlaRandom(XlaWriter& writer) { return XlaRandomBits(writer).Run(); }

}  // namespace millrace
