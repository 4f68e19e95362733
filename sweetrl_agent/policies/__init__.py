"""What samples an agent's turns: transformers, continuous batching, vLLM, servers, discrete actions."""
