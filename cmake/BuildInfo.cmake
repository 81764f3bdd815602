# Writes OUT, a header that says what this build is, and leaves it alone where nothing changed.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
// build_info.h -- generated: what this build is.
#pragma once
#define LUMINAL_COMMIT "@commit@"
#define LUMINAL_COMPILER "@COMPILER@"
#define LUMINAL_LLVM_VERSION "@LLVM@"
#define LUMINAL_BUILD_TYPE "@BUILD_TYPE@"
]])
