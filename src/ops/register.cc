#include "ops/register.h"

namespace millrace {

void RegisterBuiltinOps(OpRegistry& registry) {
  RegisterGraphOps(registry);
}

}  // namespace millrace
