// A session that one call at a time may enter: a second one, from another thread or from a callback of the first, is an error instead of a
// race. What calls throw is their error, too.
#ifndef MILLRACE_SRC_SESSION_EXCLUSIVE_SESSION_H_
#define MILLRACE_SRC_SESSION_EXCLUSIVE_SESSION_H_

#include <memory>

#include "millrace/session.h"

namespace millrace {

std::unique_ptr<Session> MakeExclusive(std::unique_ptr<Session> session);

}  // namespace millrace

#endif  // MILLRACE_SRC_SESSION_EXCLUSIVE_SESSION_H_
