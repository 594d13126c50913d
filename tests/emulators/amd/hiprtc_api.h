/* The part of HIPRTC's C interface that the emulator has, with HIP 6's values. See hip_api.h. */
#ifndef CRUCIBLE_EMULATOR_HIPRTC_API_H
#define CRUCIBLE_EMULATOR_HIPRTC_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hiprtcResult {
  HIPRTC_SUCCESS = 0,
  HIPRTC_ERROR_OUT_OF_MEMORY = 1,
  HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
  HIPRTC_ERROR_INVALID_INPUT = 3,
  HIPRTC_ERROR_INVALID_PROGRAM = 4,
  HIPRTC_ERROR_INVALID_OPTION = 5,
  HIPRTC_ERROR_COMPILATION = 6,
  HIPRTC_ERROR_INTERNAL_ERROR = 11
} hiprtcResult;

typedef struct _hiprtcProgram* hiprtcProgram;

hiprtcResult hiprtcVersion(int* major, int* minor);
const char* hiprtcGetErrorString(hiprtcResult result);
hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* text, const char* name, int header_count,
                                 const char* const* headers, const char* const* header_names);
hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program);
hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int option_count, const char* const* options);
hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* size);
hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* log);
hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* size);
hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code);

/* Not HIPRTC's: for tests that try several environments in one process. */
void crucible_emulator_reload_hiprtc(void);

#ifdef __cplusplus
}
#endif
#endif
