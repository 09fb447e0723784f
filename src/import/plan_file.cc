#include "millrace/plan_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "graph/with_message.h"
#include "import/plan_proto.h"
#include "millrace/status.h"
#include "plan/plan_verifier.h"
#include "proto/parse.h"
#include "millrace/proto/plan.pb.h"
#include "xxhash.h"

namespace millrace {
namespace {

// The same message gives the same bytes.
absl::StatusOr<std::string> Serialized(const proto::Plan& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  if (!message.SerializeToCodedStream(&coded)) {
    return absl::ResourceExhaustedError(absl::StrCat("a plan of ", message.ByteSizeLong(), " bytes, expected less than 2 GiB in one file"));
  }
  coded.Trim();
  return bytes;
}

uint64_t DigestOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// Takes the digest out of the message.
absl::Status CheckDigest(proto::Plan& message) {
  const uint64_t written = message.digest();
  message.clear_digest();
  if (written == 0) return absl::InvalidArgumentError("the plan has no digest of what it holds, expected one as --plan_out writes it at the end");
  MR_ASSIGN_OR_RETURN(const std::string contents, Serialized(message));
  if (written == DigestOf(contents)) return absl::OkStatus();
  return absl::InvalidArgumentError("the plan is not as it was written: its digest is of other contents. Plans are made by --plan_out, not edited");
}

}  // namespace

absl::StatusOr<std::string> PlanToBytes(const ExecutionPlan& plan, bool text) {
  proto::Plan message;
  PlanToProto(plan, &message);
  MR_ASSIGN_OR_RETURN(std::string bytes, Serialized(message));
  // What a message of it alone gives may stand at the end: readers take fields in any order.
  if (!text) {
    message.Clear();
    message.set_digest(DigestOf(bytes));
    MR_ASSIGN_OR_RETURN(const std::string digest, Serialized(message));
    return bytes + digest;
  }
  message.set_digest(DigestOf(bytes));
  if (!google::protobuf::TextFormat::PrintToString(message, &bytes)) return absl::ResourceExhaustedError("the plan is too large to be written as text");
  return bytes;
}

absl::StatusOr<ExecutionPlan> PlanFromBytes(const std::string& bytes) {
  proto::Plan message;
  MR_RETURN_IF_ERROR(LooksLikeText(bytes) ? ParseText(bytes, /*skip_unknown_fields=*/false, &message)
                                          : ParseBinary(bytes, &message));
  MR_RETURN_IF_ERROR(CheckDigest(message));
  MR_ASSIGN_OR_RETURN(ExecutionPlan plan, PlanFromProto(message));
  const absl::Status verified = VerifyPlan(plan);
  if (!verified.ok()) return absl::InvalidArgumentError(verified.message());
  return plan;
}

absl::Status SavePlan(const ExecutionPlan& plan, const std::string& path) {
  MR_ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  const absl::StatusOr<std::string> bytes = PlanToBytes(plan, absl::EndsWith(path, ".pbtxt"));
  if (!bytes.ok()) return WithPrefix(bytes.status(), path);
  MR_RETURN_IF_ERROR(file->Append(*bytes));
  return file->Commit();
}

absl::StatusOr<ExecutionPlan> LoadPlan(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  absl::StatusOr<ExecutionPlan> plan = PlanFromBytes(std::string(file->bytes()));
  if (!plan.ok()) return WithPrefix(plan.status(), path);
  return plan;
}

}  // namespace millrace
