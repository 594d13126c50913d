// Functions of a real driver that this one does not do, by their exported names alone: libraries of NVIDIA's look for
// them when they start. Nobody gets them through cuGetProcAddress, so nothing takes them for features. They answer that
// they are not supported, but where the real cuDNN is asked without a device (cudnn_deviceless.cpp): it compiles
// kernels for its plans and loads what came out, and there this is taken, with a handle of nothing. cuda.h is not
// included, because it gives some of these names another form.
#include <cstdlib>

namespace {

int answer() {
  constexpr int kNotSupported = 801;  // CUDA_ERROR_NOT_SUPPORTED
  return std::getenv("CRUCIBLE_DEVICELESS") == nullptr ? kNotSupported : 0;
}

}  // namespace

#define ABSENT(name) \
  extern "C" __attribute__((visibility("default"))) int name() { return answer(); }
#define ABSENT_HANDLE(name)                                                         \
  extern "C" __attribute__((visibility("default"))) int name(const void** handle) { \
    static const char nothing = 0;                                                  \
    const int answered = answer();                                                  \
    if (answered == 0) *handle = &nothing;                                          \
    return answered;                                                                \
  }

ABSENT(cuCtxGetLimit)
ABSENT(cuCtxPopCurrent)
ABSENT(cuCtxPushCurrent)
ABSENT(cuKernelGetAttribute)
ABSENT(cuKernelSetAttribute)
ABSENT(cuLaunchCooperativeKernel)
ABSENT_HANDLE(cuLibraryGetKernel)
ABSENT_HANDLE(cuLibraryLoadData)
ABSENT_HANDLE(cuLibraryLoadFromFile)
ABSENT(cuLibraryUnload)
ABSENT(cuLinkAddData)
ABSENT(cuLinkComplete)
ABSENT(cuLinkCreate)
ABSENT(cuLinkDestroy)
ABSENT(cuOccupancyMaxPotentialClusterSize)
ABSENT(cuStreamGetCtx)
