"""Backend `vllm`: vLLM's offline engine in this process tree."""
