"""What the engines on this machine (hf, vllm) share: tokenizer, chat template, weights, embedded
model.
"""
