// How libjpeg's errors become values; its headers are to be had through this one.
#ifndef MILLRACE_SRC_CODECS_JPEG_ERROR_H_
#define MILLRACE_SRC_CODECS_JPEG_ERROR_H_

#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>
#include <jerror.h>

namespace millrace {

// libjpeg reports an error by a call that must not return: it jumps out of what Try runs, which has no destructors.
class JpegErrors : public jpeg_error_mgr {
 public:
  JpegErrors() {
    jpeg_std_error(this);
    error_exit = [](j_common_ptr common) {
      auto* self = static_cast<JpegErrors*>(common->err);
      common->err->format_message(common, self->message_);
      std::longjmp(self->jump_, 1);
    };
    output_message = [](j_common_ptr) {};
  }
  template <typename Fn>
  bool Try(const Fn& fn) {
    if (setjmp(jump_) != 0) return false;
    fn();
    return true;
  }
  const char* message() const { return message_; }

 private:
  std::jmp_buf jump_;
  char message_[JMSG_LENGTH_MAX] = "";
};

}  // namespace millrace

#endif  // MILLRACE_SRC_CODECS_JPEG_ERROR_H_
