"""What servers of chat/completions answer to GET /models, by the kind of the server; one model each if not said.

Copied from the servers' own answers or documentation, shortened. The model is ``ANSWERING[kind]``.
"""

LISTS: dict[str, object] = {
    "ollama": {
        "object": "list",
        "data": [{"id": "llama3.2:3b", "object": "model", "created": 1_730_000_000, "owned_by": "library"}],
    },
    "llama.cpp": {
        "models": [{"name": "/models/qwen2.5-7b-q4.gguf", "model": "/models/qwen2.5-7b-q4.gguf", "type": "model"}],
        "object": "list",
        "data": [
            {
                "id": "/models/qwen2.5-7b-q4.gguf",
                "object": "model",
                "created": 1_730_000_000,
                "owned_by": "llamacpp",
                "meta": {"vocab_type": 2, "n_vocab": 152_064, "n_ctx_train": 8192, "n_params": 7_615_616_512},
            }
        ],
    },
    "vllm": {
        "object": "list",
        "data": [
            {
                "id": "meta-llama/Llama-3.1-8B-Instruct",
                "object": "model",
                "created": 1_730_000_000,
                "owned_by": "vllm",
                "root": "meta-llama/Llama-3.1-8B-Instruct",
                "parent": None,
                "max_model_len": 16_384,
                "permission": [],
            }
        ],
    },
    # LM Studio lists the embedding model that it comes with, whatever else is loaded.
    "lm studio": {
        "data": [
            {"id": "qwen2.5-7b-instruct-1m", "object": "model", "owned_by": "organization_owner"},
            {"id": "text-embedding-nomic-embed-text-v1.5", "object": "model", "owned_by": "organization_owner"},
        ],
        "object": "list",
    },
    "bare": [{"id": "acme/chat", "object": "model", "type": "chat", "pricing": {"input": 0.2, "output": 0.6}}],
    "named": {"models": [{"name": "command-r", "endpoints": ["chat"], "context_length": 128_000}]},
    # Two that nothing decides between.
    "two": {
        "object": "list",
        "data": [{"id": "llama3.2:3b", "object": "model"}, {"id": "phi4:14b", "max_model_len": 4096}],
    },
    "empty": {"object": "list", "data": []},
    "null": {"object": "list", "data": None},
}
ANSWERING = {
    "ollama": "llama3.2:3b",
    "llama.cpp": "/models/qwen2.5-7b-q4.gguf",
    "vllm": "meta-llama/Llama-3.1-8B-Instruct",
    "lm studio": "qwen2.5-7b-instruct-1m",
    "bare": "acme/chat",
    "named": "command-r",
}
