// Queues of numbers, in the bytes of a variable (graph/queue_layout.h). What would wait for ever is an error: nothing runs beside a step
// that could end the wait.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cpu/kernels/common.h"
#include "cpu/kernels/rare.h"
#include "cpu/kernels/real_shapes.h"
#include "graph/philox.h"
#include "graph/queue_layout.h"
#include "millrace/status.h"

namespace millrace::cpu {
namespace {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// The queue while a node uses it.
class Queue {
 public:
  Queue(const QueueLayout& layout, const KernelContext& context)
      : layout_(layout),
        element_bytes_(layout.element_bytes()),
        header_(*context.variable<QueueHeader>(0)),
        elements_(context.variable<char>(0) + sizeof(QueueHeader)),
        room_((context.input_type(0).size_bytes() - static_cast<int64_t>(sizeof(QueueHeader))) / element_bytes_),
        closed_(header_.count < 0),
        count_(closed_ ? ~header_.count : header_.count) {}

  // A checkpoint may bring any bytes.
  absl::Status Check() const {
    if (count_ <= room_ && header_.first >= 0 && (!layout_.in_order() || header_.first < std::max<int64_t>(room_, 1))) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("the bytes are those of no queue with room for ", room_, ": it would hold ", count_,
                                            " elements, the first one at ", header_.first));
  }

  int64_t room() const { return room_; }
  int64_t count() const { return count_; }
  bool closed() const { return closed_; }
  void Close() { SetTo(count_, true); }
  // How many may leave.
  int64_t there() const {
    const bool some_stay = layout_.shuffles && !closed_;
    return std::max<int64_t>(count_ - (some_stay ? layout_.stay : 0), 0);
  }

  // Requires room. Added() ends it.
  char* Add() {
    SetTo(count_ + 1, closed_);
    return ElementAt(count_ - 1);
  }
  void Added() {
    if (layout_.by_priority) Rise(count_ - 1);
  }

  // Requires that it is there, in a queue whose elements leave in their order.
  const char* Look(int64_t i) { return ElementAt(i); }
  void Clear() {
    std::memset(elements_, 0, room_ * element_bytes_);
    header_.first = 0;
    SetTo(0, closed_);
  }

  // Which one leaves next; requires one. Leave() ends it.
  const char* Next() {
    leaving_ = layout_.shuffles ? static_cast<int64_t>(Draw() % static_cast<uint64_t>(count_)) : 0;
    return ElementAt(leaving_);
  }
  void Leave() {
    if (layout_.in_order()) {
      std::memset(ElementAt(0), 0, element_bytes_);
      header_.first = (header_.first + 1) % room_;
    } else {
      const int64_t last = count_ - 1, hole = layout_.by_priority ? Sink(last) : leaving_;
      if (hole != last) std::memcpy(ElementAt(hole), ElementAt(last), element_bytes_);
      std::memset(ElementAt(last), 0, element_bytes_);
      if (layout_.by_priority && hole != last) Rise(hole);
    }
    SetTo(count_ - 1, closed_);
  }

 private:
  char* ElementAt(int64_t i) { return elements_ + ((layout_.in_order() ? header_.first : 0) + i) % room_ * element_bytes_; }

  // Whether element i leaves before element k.
  bool IsBefore(int64_t i, int64_t k) {
    int64_t priorities[2];
    std::memcpy(&priorities[0], ElementAt(i), sizeof(int64_t));
    std::memcpy(&priorities[1], ElementAt(k), sizeof(int64_t));
    return priorities[0] < priorities[1];
  }
  // What of equal ones leaves first is as the heaps of libstdc++ have it, which TensorFlow uses: so these two do as they do.
  void Rise(int64_t i) {
    for (int64_t parent = (i - 1) / 2; i > 0 && IsBefore(i, parent); i = parent, parent = (i - 1) / 2) {
      std::swap_ranges(ElementAt(i), ElementAt(i) + element_bytes_, ElementAt(parent));
    }
  }
  // The hole that the first element leaves among the first `count` ones goes down to where there is none below.
  int64_t Sink(int64_t count) {
    int64_t hole = 0;
    for (int64_t below = 2; below <= count; below = 2 * hole + 2) {
      if (below == count || IsBefore(below - 1, below)) --below;
      std::memcpy(ElementAt(hole), ElementAt(below), element_bytes_);
      hole = below;
    }
    return hole;
  }

  void SetTo(int64_t count, bool closed) {
    count_ = count;
    closed_ = closed;
    header_.count = closed ? ~count : count;
  }

  uint32_t Draw() {
    PhiloxStream stream(static_cast<uint64_t>(layout_.seed), 0, static_cast<uint64_t>(layout_.seed2));
    const uint64_t drawn = static_cast<uint64_t>(header_.first++);
    uint32_t words[PhiloxStream::kWords];
    stream.After(drawn / PhiloxStream::kWords).GenerateOne(words);
    return words[drawn % PhiloxStream::kWords];
  }

  const QueueLayout& layout_;
  const int64_t element_bytes_;
  QueueHeader& header_;
  char* const elements_;
  const int64_t room_;
  bool closed_;
  int64_t count_;
  int64_t leaving_ = 0;
};

template <typename Run>
KernelFactory KernelOf(Run run) {
  return [run](const OpInstance& instance) -> KernelOr {
    return MakeKernel([layout = QueueLayout::Of(instance.attrs), run](const KernelContext& context) -> absl::Status {
      Queue queue(layout, context);
      MR_RETURN_IF_ERROR(queue.Check());
      return run(layout, queue, context);
    });
  };
}

absl::Status Enqueue(const QueueLayout& layout, Queue& queue, const KernelContext& context) {
  const bool many = context.instance->attrs.GetOr<bool>("many", false);
  const int64_t rows = many ? context.input_type(1).shape.dim(0) : 1;
  if (queue.closed()) return absl::CancelledError("the queue is closed");
  if (rows > queue.room() - queue.count()) {
    const std::string capacity = layout.capacity > 0 ? absl::StrCat(" (its capacity is ", layout.capacity, ")") : "";
    return absl::FailedPreconditionError(absl::StrCat("would wait for ever: the queue has room for ", queue.room(), capacity, " and holds ",
                                                      queue.count(), ", and nothing takes from it in this step before ", rows, " more come"));
  }
  for (int64_t row = 0; row < rows; ++row) {
    char* to = queue.Add();
    for (size_t i = 0; i < layout.dtypes.size(); ++i) {
      const int64_t bytes = layout.component_bytes(i);
      std::memcpy(to, context.input<char>(static_cast<int>(i) + 1) + row * bytes, bytes);
      to += bytes;
    }
    queue.Added();
  }
  return absl::OkStatus();
}

// How many elements leave of those that are wanted.
absl::StatusOr<int64_t> CountLeaving(Queue& queue, int64_t wanted, bool up_to) {
  const int64_t there = queue.there();
  if (there >= wanted) return wanted;
  if (queue.closed()) {
    if (up_to && there > 0) return there;
    return absl::OutOfRangeError(absl::StrCat("the queue is closed and has insufficient elements (requested ", wanted, ", current size ",
                                              queue.count(), ")"));
  }
  const std::string held = queue.count() == 0 ? std::string("the queue is empty")
                                              : absl::StrCat("of the ", queue.count(), " elements in the queue ", there, " may leave, ", wanted,
                                                             " are wanted");
  return absl::FailedPreconditionError(absl::StrCat("would wait for ever: ", held, ", and nothing comes into it in this step; run what fills it "
                                                    "in the same step, or before, or feed what is taken"));
}

absl::Status Dequeue(const QueueLayout& layout, Queue& queue, const KernelContext& context) {
  const AttrMap& attrs = context.instance->attrs;
  const bool many = attrs.GetOr<bool>("many", false), up_to = attrs.GetOr<bool>("up_to", false);
  const int64_t wanted = many ? context.instance->outputs[0].shape.dim(0) : 1;
  MR_ASSIGN_OR_RETURN(const int64_t rows, CountLeaving(queue, wanted, up_to));
  for (int64_t row = 0; row < rows; ++row) {
    const char* from = queue.Next();
    for (size_t i = 0; i < layout.dtypes.size(); ++i) {
      const int64_t bytes = layout.component_bytes(i);
      std::memcpy(context.output<char>(static_cast<int>(i)) + row * bytes, from, bytes);
      from += bytes;
    }
    queue.Leave();
  }
  for (size_t i = 0; up_to && i < layout.dtypes.size(); ++i) SetRealDim(context, static_cast<int64_t>(i), 0, rows);
  return absl::OkStatus();
}

absl::Status Peek(const QueueLayout& layout, Queue& queue, const KernelContext& context) {
  const int64_t index = *context.input<int32_t>(1);
  if (index < 0 || index >= queue.count()) {
    return absl::FailedPreconditionError(absl::StrCat("would wait for ever: element ", index, " is looked at, of ", queue.count(),
                                                      " that are there, and nothing more comes in this step"));
  }
  const char* from = queue.Look(index);
  for (size_t i = 0; i < layout.dtypes.size(); ++i) {
    const int64_t bytes = layout.component_bytes(i);
    std::memcpy(context.output<char>(static_cast<int>(i)), from, bytes);
    from += bytes;
  }
  return absl::OkStatus();
}

absl::Status ClearAll(const QueueLayout&, Queue& queue, const KernelContext&) {
  queue.Clear();
  return absl::OkStatus();
}

absl::Status Count(const QueueLayout&, Queue& queue, const KernelContext& context) {
  *context.output<int32_t>(0) = static_cast<int32_t>(queue.count());
  return absl::OkStatus();
}

absl::Status Close(const QueueLayout&, Queue& queue, const KernelContext& context) {
  const bool cancels = context.instance->attrs.GetOr<bool>("cancel_pending_enqueues", false);
  if (queue.closed() && !cancels) return absl::CancelledError("the queue is already closed");
  queue.Close();
  return absl::OkStatus();
}

absl::Status IsClosed(const QueueLayout&, Queue& queue, const KernelContext& context) {
  *context.output<bool>(0) = queue.closed();
  return absl::OkStatus();
}

}  // namespace

void RegisterQueueKernels(KernelRegistry& registry) {
  AddKernel(registry, "_QueueEnqueue", KernelOf(Enqueue));
  AddKernel(registry, "_QueueDequeue", KernelOf(Dequeue));
  AddKernel(registry, "_QueuePeek", KernelOf(Peek));
  AddKernel(registry, "_QueueClear", KernelOf(ClearAll));
  AddKernel(registry, "_QueueCount", KernelOf(Count));
  AddKernel(registry, "_QueueClose", KernelOf(Close));
  AddKernel(registry, "_QueueIsClosed", KernelOf(IsClosed));
}

}  // namespace millrace::cpu
