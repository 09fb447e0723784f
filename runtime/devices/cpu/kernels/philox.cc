#include "cpu/kernels/philox.h"

namespace millrace::cpu {

void Philox::Generate(uint32_t* words) const { GenerateLanes<kBatch>(words); }

}  // namespace millrace::cpu
