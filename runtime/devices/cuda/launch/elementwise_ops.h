// The elementwise ops by number.
#ifndef MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_OPS_H_
#define MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_OPS_H_

namespace millrace::cuda {

// Up to kSquare for all numeric types, from then on for floating ones.
enum class UnaryOp {
  kCopy, kNeg, kAbs, kSign, kSquare,
  kReciprocal, kSqrt, kRsqrt, kExp, kExpm1, kLog, kLog1p, kSin, kCos, kTan, kTanh, kSigmoid, kErf, kErfc,
  kFloor, kCeil, kRint, kRelu, kRelu6, kElu, kSelu, kSoftplus, kSoftsign, kLeakyRelu,
  kAsin, kAcos, kAtan, kSinh, kCosh, kAsinh, kAcosh, kAtanh
};
// Up to kSquaredDifference for all numeric types. kLower and kRaise: to a bound, which is not one where it is no number.
enum class BinaryOp {
  kAdd, kSub, kMul, kMaximum, kMinimum, kLower, kRaise, kSquaredDifference,
  kDiv, kDivNoNan, kMulNoNan, kPow, kReluGrad, kRelu6Grad, kLeakyReluGrad, kTanhGrad, kSigmoidGrad, kSqrtGrad,
  kRsqrtGrad, kReciprocalGrad, kSoftplusGrad, kSoftsignGrad, kEluGrad, kSeluGrad,
  kAtan2, kXlogy, kXlog1py, kXdivy
};
enum class CompareOp { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual };
enum class LogicalOp { kAnd, kOr, kNot };

}  // namespace millrace::cuda

#endif  // MILLRACE_RUNTIME_DEVICES_CUDA_LAUNCH_ELEMENTWISE_OPS_H_
