#include "millrace/plan_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <cstdint>
#include <string_view>

#include "absl/strings/match.h"
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
std::string Serialized(const proto::Plan& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

uint64_t DigestOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

// Takes the digest out of the message.
absl::Status CheckDigest(proto::Plan& message) {
  const uint64_t written = message.digest();
  message.clear_digest();
  if (written == 0) return absl::InvalidArgumentError("the plan has no digest of what it holds, expected one as --plan_out writes it at the end");
  if (written == DigestOf(Serialized(message))) return absl::OkStatus();
  return absl::InvalidArgumentError("the plan is not as it was written: its digest is of other contents. Plans are made by --plan_out, not edited");
}

}  // namespace

std::string PlanToBytes(const ExecutionPlan& plan, bool text) {
  proto::Plan message;
  PlanToProto(plan, &message);
  std::string bytes = Serialized(message);
  // Its number is the highest, so what a message of it alone gives belongs at the end.
  if (!text) {
    message.Clear();
    message.set_digest(DigestOf(bytes));
    return bytes + Serialized(message);
  }
  message.set_digest(DigestOf(bytes));
  google::protobuf::TextFormat::PrintToString(message, &bytes);
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
  MR_RETURN_IF_ERROR(file->Append(PlanToBytes(plan, absl::EndsWith(path, ".pbtxt"))));
  return file->Commit();
}

absl::StatusOr<ExecutionPlan> LoadPlan(const std::string& path) {
  MR_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  absl::StatusOr<ExecutionPlan> plan = PlanFromBytes(std::string(file->bytes()));
  if (!plan.ok()) return WithPrefix(plan.status(), path);
  return plan;
}

}  // namespace millrace
