// Ops without a gradient, and why.

#include "builder/gradient_table.h"

namespace millrace {
namespace {

const std::map<std::string, const char*>& Reasons() {
  static const auto& reasons = *[] {
    auto* all = new std::map<std::string, const char*>();
    const auto add = [&](const char* reason, std::initializer_list<const char*> ops) {
      for (const char* op : ops) all->emplace(op, reason);
    };
    add("its results are integers, bools or strings",
        {"All", "Any", "ApproximateEqual", "AsString", "AudioSummaryV2", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
         "BroadcastArgs", "BroadcastGradientArgs", "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3",
         "NonMaxSuppressionV4", "NonMaxSuppressionV5", "NonMaxSuppressionWithOverlaps", "Bucketize", "ConcatOffset", "Equal", "Fingerprint", "Greater", "GreaterEqual",
         "HistogramSummary", "ImageSummary", "Invert", "InvertPermutation", "IsFinite", "IsInf", "IsNan",
         "IsVariableInitialized", "LeftShift", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "LowerBound",
         "MergeSummary", "Multinomial", "KMC2ChainInitialization", "NonDeterministicInts", "NotEqual", "PopulationCount", "QuantizeV2", "RandomUniformInt", "RightShift", "ScalarSummary",
         "StatelessMultinomial", "StatelessRandomGetAlg", "StatelessRandomGetKeyCounter",
         "StatelessRandomGetKeyCounterAlg", "StatelessRandomUniformFullInt", "StatelessRandomUniformFullIntV2",
         "ReadFile", "RegexFullMatch", "RegexReplace", "ReduceJoin", "StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "StaticRegexFullMatch", "StaticRegexReplace",
         "DecodeBase64", "DecodeCompressed", "DecodeJSONExample", "DecodePaddedRaw", "DecodeRaw", "EncodeBase64", "MatchingFiles", "UnicodeDecode", "UnicodeDecodeWithOffsets", "UnicodeEncode", "UnicodeScript", "UnicodeTranscode", "UnsortedSegmentJoin",
         "DecodeAndCropJpeg", "DecodeBmp", "DecodeGif", "DecodeImage", "DecodeJpeg", "DecodePng", "DecodeWav", "DecodeWebP", "EncodeJpeg", "EncodeJpegVariableQuality", "EncodePng", "EncodeWav", "ExtractJpegShape",
         "SerializeTensor", "ShardedFilename", "ShardedFilespec", "SparseCrossV2", "StringFormat", "StringJoin", "StringLength", "StringLower", "StringNGrams", "StringSplit", "StringSplitV2", "StringStrip", "StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong", "Substr",
         "StringToNumber", "StringUpper", "TensorSummary",
         "TensorSummaryV2", "DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation", "SetSize", "SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", "StatelessSampleDistortedBoundingBox", "UpperBound", "VarIsInitializedOp", "VariableShape", "Where"});
    add("it reads what strings say", {"DecodeCSV", "ParseExample", "ParseExampleV2", "ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleExample",
         "ParseSingleSequenceExample", "ParseTensor"});
    add("its results are whole numbers",
        {"Bincount", "CTCBeamSearchDecoder", "CTCGreedyDecoder", "CountUpTo", "CudnnRNNParamsSize", "DenseCountSparseOutput", "RaggedBincount", "RaggedCross", "RaggedCountSparseOutput", "SparseCountSparseOutput", "ResourceCountUpTo", "SparseBincount", "SparseCross", "SparseCrossHashed", "ComputeAccidentalHits", "DataFormatDimMap", "DataFormatVecPermute", "DenseBincount",
         "HistogramFixedWidth", "SparseReshape", "UnravelIndex"});
    add("TensorFlow has no gradient of it, either",
        {"AdjustHue", "AdjustSaturation", "AudioSpectrogram", "BlockLSTMGrad", "CholeskyGrad", "BlockLSTMGradV2", "CropAndResizeGradBoxes",
         "CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3", "MatrixLogarithm", "Mfcc",
         "Dilation2DBackpropFilter", "Dilation2DBackpropInput", "DrawBoundingBoxes", "DrawBoundingBoxesV2", "FFTND", "GRUBlockCell", "GRUBlockCellGrad", "HSVToRGB", "IFFTND", "IRFFTND",
         "LSTMBlockCell", "LSTMBlockCellGrad", "CombinedNonMaxSuppression", "KmeansPlusPlusInitialization", "MaxPoolGradGradWithArgmax", "NearestNeighbors", "RFFTND", "ResizeArea", "EditDistance", "ExtractGlimpse", "ExtractGlimpseV2", "FractionalAvgPoolGrad", "FractionalMaxPoolGrad", "RaggedFillEmptyRowsGrad", "Dequantize", "QuantizeDownAndShrinkRange", "QuantizedAdd", "QuantizedAvgPool", "QuantizedBiasAdd", "QuantizedConcat", "QuantizedConv2D",
         "QuantizedMatMul", "QuantizedMaxPool", "QuantizedMul", "QuantizedRelu", "QuantizedRelu6", "QuantizedReshape", "RequantizationRange", "Requantize", "RaggedRange", "RandomGammaGrad", "SparseAddGrad", "SparseConcat", "SparseFillEmptyRowsGrad", "SparseReduceMax", "SparseReduceMaxSparse", "SparseReduceSumSparse", "SparseSliceGrad"});
    add("its results are drawn at random, whatever the inputs",
        {"AllCandidateSampler", "FixedUnigramCandidateSampler", "LogUniformCandidateSampler", "ParameterizedTruncatedNormal", "RandomIndexShuffle", "RandomPoissonV2", "StatelessRandomPoisson", "UniformCandidateSampler",
         "RandomShuffle", "StatelessRandomNormal", "StatelessRandomNormalV2", "StatelessRandomUniform",
         "StatelessRandomUniformV2", "StatelessRandomBinomial", "StatelessShuffle", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2"});
    add("it has no inputs to differentiate by",
        {"Const", "Empty", "Placeholder", "SummaryWriter", "Timestamp", "VarHandleOp", "Variable", "VariableV2", "_Feed"});
    add("it has no results", {"Assert", "CloseSummaryWriter", "ControlTrigger", "CreateSummaryFileWriter", "FlushSummaryWriter", "NoOp", "WriteAudioSummary", "WriteFile",
         "WriteGraphSummary", "WriteHistogramSummary", "WriteImageSummary", "WriteRawProtoSummary", "WriteScalarSummary", "WriteSummary", "_Fetch"});
    add("the shapes of its results depend on values",
        {"ListDiff", "RaggedTensorToTensor", "SparseAdd", "SparseSlice", "SparseSparseMaximum", "SparseSparseMinimum", "SparseSplit",
         "SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2", "SparseSegmentSumGradV2", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"});
    add("it is there to make differentiation an error", {"PreventGradient"});
    add("its gradient is not written; TensorFlow's training graphs bring it along", {"BandedTriangularSolve", "CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2", "CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2", "Eig", "IsotonicRegression", "Lu", "MatrixSolveLs", "RaggedGather", "StatelessParameterizedTruncatedNormal", "TridiagonalMatMul", "TridiagonalSolve"});
    add("it is the derivative of Igamma by its first argument, which has no closed form", {"IgammaGradA"});
    add("the passes insert it, after gradients", {"Recv", "Send", "_AccumulatorCount", "_AccumulatorTake", "_AddProducts", "_AsStringToHashBucket", "_FindInTable", "_Fused", "_FusedBatchNormEx", "_FusedBatchNormReluGrad", "_FusedConv2D", "_FusedConv3D", "_FusedMapReduce", "_FusedMatMul", "_FusedReduce", "_PrintFormatted", "_QueueCount", "_QueueDequeue", "_QueueIsClosed", "_QueuePeek", "_SparseAccumulatorTake", "_SparseMatrixProduct", "_SumColumns", "_SumProducts", "_TableExport", "_TableFind", "_TableSize", "_View", "_WriteFileMade"});
    return all;
  }();
  return reasons;
}

}  // namespace

const char* GradientTable::NotDifferentiable(const std::string& op) {
  const auto found = Reasons().find(op);
  if (found != Reasons().end()) return found->second;
  const OpDef* def = OpRegistry::Builtin().Find(op);
  return def != nullptr && def->WritesVariables() ? "it updates a variable" : nullptr;
}

}  // namespace millrace
