// What operators read through ONNX Runtime's C interface: tensors and attributes, errors as exceptions.
#pragma once

#include <onnxruntime_c_api.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace braid {

inline const OrtApi* api = nullptr;  // since RegisterCustomOps

struct Failure : std::exception {
    explicit Failure(std::string text) : message(std::move(text)) {}
    const char* what() const noexcept override { return message.c_str(); }
    std::string message;
};

inline void check(OrtStatus* status) {
    if (!status) return;
    const std::string message = api->GetErrorMessage(status);
    api->ReleaseStatus(status);
    throw Failure(message);
}

inline void require(bool holds, const char* what) {
    if (!holds) throw Failure(std::string("not as it has to be: ") + what);
}

// Runs `body`; what it throws becomes a status, as no exception may leave a library with a C interface.
template <class Body>
OrtStatus* guarded(const char* name, const Body& body) {
    try {
        body();
    } catch (const std::exception& error) {
        return api->CreateStatus(ORT_FAIL, (std::string(name) + ": " + error.what()).c_str());
    }
    return nullptr;
}

struct Shaped {
    ONNXTensorElementDataType type;
    std::vector<int64_t> shape;
};

inline Shaped shaped(const OrtValue* value) {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    check(api->GetTensorTypeAndShape(value, &info));
    const std::unique_ptr<OrtTensorTypeAndShapeInfo, void (*)(OrtTensorTypeAndShapeInfo*)> held(
        info, [](OrtTensorTypeAndShapeInfo* one) { api->ReleaseTensorTypeAndShapeInfo(one); });
    Shaped found;
    size_t count = 0;
    check(api->GetTensorElementType(info, &found.type));
    check(api->GetDimensionsCount(info, &count));
    found.shape.resize(count);
    check(api->GetDimensions(info, found.shape.data(), count));
    return found;
}

inline size_t size_of(const Shaped& given) {
    size_t size = 1;
    for (const int64_t length : given.shape) size *= size_t(length);
    return size;
}

inline void* data_of(const OrtValue* value) {
    void* data = nullptr;
    check(api->GetTensorMutableData(const_cast<OrtValue*>(value), &data));
    return data;
}

// An attribute that is a size: above 0 and below 2**31.
inline size_t attribute(const OrtKernelInfo* info, const char* name) {
    int64_t value = 0;
    check(api->KernelInfoGetAttribute_int64(info, name, &value));
    require(value > 0 && value < int64_t(1) << 31, name);
    return size_t(value);
}

}  // namespace braid
