"""KServe's protocol over gRPC; needs the extra `grpc`."""
