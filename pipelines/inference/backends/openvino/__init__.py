"""Models on OpenVINO: opening files, and tensor models; decoders and encoders have folders of their own."""
