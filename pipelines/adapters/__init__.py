"""LoRA adapters of a model: folders as PEFT writes them → the numbers that a step adds to linear layers."""
