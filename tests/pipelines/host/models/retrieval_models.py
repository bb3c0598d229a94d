"""Small random models in the layouts of others: SparseEncoder's, BGE-M3's, token classification."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from tokenizers.decoders import WordPiece as WordPieceDecoder
from transformers import PreTrainedTokenizerFast

WORDS = [
    "a",
    "the",
    "of",
    "in",
    "to",
    "and",
    "yeast",
    "makes",
    "dough",
    "rise",
    "moon",
    "is",
    "far",
    "away",
    "oslo",
    "ada",
    "lives",
    "works",
    "at",
    "acme",
    "how",
    "why",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]
VOCABULARY = [*SPECIAL, *WORDS, *LETTERS[1:], *(f"##{letter}" for letter in LETTERS), ",", ".", "?", "-", "'"]
LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC"]
SIZES: dict[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "initializer_range": 0.4,
    "max_position_embeddings": 96,
    "attn_implementation": "eager",
}
TEXTS = [
    "Why is the moon far away?",
    "Yeast makes dough rise.",
    "Ada Lovelace-Byron lives in Oslo, and works at Acme",
    "a",
    "in-between the O'Neill of OSLO ...",
    "ada ada ada moon moon far",
]


def tokenizer() -> PreTrainedTokenizerFast:
    """WordPiece with pieces for every small letter, so that words have several tokens."""
    tokenizer_of_letters = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]")
    )
    tokenizer_of_letters.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer_of_letters.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer_of_letters.decoder = WordPieceDecoder()
    tokenizer_of_letters.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(["pad", "unk", "cls", "sep", "mask"], SPECIAL, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of_letters,
        model_max_length=96,
        **{f"{name}_token": token for name, token in names.items()},
    )


class Outputs(torch.nn.Module):
    """A model with one output, as it is exported."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        return self.model(input_ids, attention_mask=attention_mask)[0]


def write_onnx(model: Any, file: Path, output: str) -> None:
    ids = torch.randint(len(SPECIAL), len(VOCABULARY), (3, 7))
    file.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _export(model, ids, file, output)


def _export(model: Any, ids: Any, file: Path, output: str) -> None:
    torch.onnx.export(
        Outputs(model.eval()),
        (ids, torch.ones_like(ids)),
        file,
        input_names=["input_ids", "attention_mask"],
        output_names=[output],
        dynamic_axes={name: {0: "texts", 1: "width"} for name in ("input_ids", "attention_mask", output)},
        dynamo=False,  # many times faster than torch.export
    )


def save(model: Any, folder: Path, output: str) -> Any:
    """The model as transformers and as an exporter write it."""
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    write_onnx(model, folder / "onnx/model.onnx", output)
    return model.eval()


def bert(kind: str, **settings: Any) -> Any:
    torch.manual_seed(3)
    config = hf.BertConfig(**SIZES, type_vocab_size=1, **settings)
    model = getattr(hf, f"Bert{kind}")(config)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def write_sparse_encoder(folder: Path, how: str = "max") -> Any:
    """The model of a SparseEncoder, saved by sentence-transformers itself."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder import models as modules

    save(bert("ForMaskedLM"), folder / "plain", "logits")
    model = SparseEncoder(
        modules=[modules.MLMTransformer(str(folder / "plain")), modules.SpladePooling(how)], device="cpu"
    )
    model.save_pretrained(str(folder))
    (folder / "plain/onnx").rename(folder / "onnx")
    return model


def write_routes(folder: Path) -> Any:
    """An inference-free SparseEncoder, whose queries are weights of token ids."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.models import Router
    from sentence_transformers.sparse_encoder import models as modules

    plain = folder.with_name("plain")
    save(bert("ForMaskedLM"), plain, "logits")
    weights = torch.rand(len(VOCABULARY), generator=torch.Generator().manual_seed(5))
    weights[:5] = 0
    query = modules.SparseStaticEmbedding(tokenizer(), weights)
    router = Router.for_query_document(
        query_modules=[query],
        document_modules=[modules.MLMTransformer(str(plain)), modules.SpladePooling("max")],
    )
    model = SparseEncoder(modules=[router], device="cpu")
    model.save_pretrained(str(folder))
    (document,) = folder.glob("document_*Transformer")
    (plain / "onnx").rename(document / "onnx")
    return model


def write_bge_m3(folder: Path) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """XLM-R with BGE-M3's two layers: the model, and the layers as torch saves them."""
    torch.manual_seed(4)
    config = hf.XLMRobertaConfig(
        **{**SIZES, "max_position_embeddings": 98}, type_vocab_size=1, pad_token_id=1
    )
    model = save(hf.XLMRobertaModel(config, add_pooling_layer=False), folder, "last_hidden_state")
    layers = [{"weight": torch.randn(rows, 32) / 4, "bias": torch.randn(rows) / 4} for rows in (1, 32)]
    for name, layer in zip(("sparse_linear", "colbert_linear"), layers, strict=True):
        torch.save(layer, folder / f"{name}.pt")
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                {"idx": 2, "name": "2", "path": "2_N", "type": "sentence_transformers.models.Normalize"},
            ]
        )
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    return model, layers[0], layers[1]


def write_tagger(folder: Path) -> Any:
    """A token classifier: the model."""
    names = dict(enumerate(LABELS))
    return save(bert("ForTokenClassification", id2label=names, num_labels=len(LABELS)), folder, "logits")
