#include "passes/prepare.h"

#include "absl/strings/str_cat.h"
#include "millrace/status.h"
#include "passes/add_send_recv.h"
#include "passes/fuse_elementwise.h"
#include "passes/infer_shapes.h"
#include "passes/inline_functions.h"
#include "passes/lower_conditionals.h"
#include "passes/order_variable_accesses.h"
#include "passes/place_devices.h"

namespace millrace {
namespace {

PlaceOptions PlaceOptionsOf(const CompileRequest& request) {
  PlaceOptions options;
  for (int32_t d = 0; d < request.options.num_devices(); ++d) options.devices.push_back(DeviceName(request, d));
  options.supports = [&request](const std::string& op, int32_t device) { return request.oracle.Supports(op, device); };
  return options;
}

}  // namespace

std::string DeviceName(const CompileRequest& request, int32_t device) {
  return request.options.devices.empty() ? absl::StrCat(request.machine.name, ":", device)
                                         : request.options.devices[device];
}

absl::StatusOr<std::vector<std::string>> ExpandCalls(Graph& graph, const OpRegistry& ops) {
  std::vector<std::string> effects;
  // Conditionals with pure branches become calls, and calls may hold conditionals.
  for (bool lowered = true; lowered;) {
    MR_ASSIGN_OR_RETURN(const InlineResult inlined, InlineFunctions(graph, ops));
    effects.insert(effects.end(), inlined.effects.begin(), inlined.effects.end());
    MR_ASSIGN_OR_RETURN(lowered, LowerConditionals(graph, ops));
  }
  return effects;
}

absl::StatusOr<Prepared> Prepare(const CompileRequest& request) {
  Prepared prepared;
  // Prune first: nothing later should look at nodes that do not run.
  MR_ASSIGN_OR_RETURN(prepared.graph, Prune(request.graph, request.signature));
  // Calls before types: shape rules know ops only. Every call left is needed, so its effects are, too.
  MR_ASSIGN_OR_RETURN(const std::vector<std::string> effects, ExpandCalls(prepared.graph, request.ops));
  Signature needed = request.signature;
  needed.targets.insert(needed.targets.end(), effects.begin(), effects.end());
  // Types next: every later pass counts bytes. Shape arithmetic is folded on the way, because rules need its values.
  MR_ASSIGN_OR_RETURN(prepared.inferred, InferShapesAndFold(prepared.graph, request.ops, request.oracle,
                                                            request.variable_types));
  // What only fed the folded nodes is gone now.
  RemoveUnneeded(prepared.graph, needed, prepared.inferred.by_value);
  // Variables before any order: their reads and writes must come out the same under every one.
  MR_RETURN_IF_ERROR(OrderVariableAccesses(prepared.graph, request.ops).status());
  prepared.inferred.by_value.resize(prepared.graph.num_ids(), 0);
  // Fewer and larger nodes before any order: only what is ordered may be taken together.
  if (request.options.fuse) {
    MR_RETURN_IF_ERROR(FuseElementwise(prepared.graph, prepared.inferred.by_value).status());
  }
  // Variables and constants have their home in host memory, the rest runs where it asks to, or where it fits.
  const PlaceOptions place = PlaceOptionsOf(request);
  MR_ASSIGN_OR_RETURN(Placement placement, PlaceDevices(prepared.graph, request.ops, place));
  prepared.placement_notes = std::move(placement.notes);
  // What crosses between devices becomes nodes before there is an order: they take part in it.
  if (place.devices.size() > 1) {
    AddSendRecv(prepared.graph, request.ops, placement, {place.devices, request.options.share_recv},
                prepared.inferred.by_value);
    MR_RETURN_IF_ERROR(VerifySendRecv(prepared.graph, request.ops, placement));
  }
  return prepared;
}

}  // namespace millrace
