"""Names of what encoders of images read and give; those of images of any shapes have more inputs than one.

inputs    hidden_states float32[patches, numbers of a patch], token by token, and those of the others that
          a model has
output    last_hidden_state float32[tokens, …]
"""

PATCHES, ROWS = "hidden_states", "last_hidden_state"
ROTATIONS, SEEN = "rotary_pos_emb", "attention_mask"
WINDOWS, ORDER = "window_attention_mask", "window_index"
"""Inputs of Qwen2.5-VL: it reads tokens in this order, window after window; most layers see one window."""
CORNERS, SHARES = "position_corners", "position_shares"
"""Inputs of Qwen3-VL: a patch is between four places of a square table, and has a share of each.  Gemma 4 has
the first alone, int64[2, patches]: each patch has a row of a table for its column and one for its row.
"""
SPREAD = "position_spread"
"""The input of LFM2-VL, float32[patches, rows of the table]: what a patch has of each row of a square table
that is resized to the image's shape.
"""
TOKEN_ROWS = "token_rows"
"""The input of Pixtral, int64[tokens]: which computed row each token has.  Behind the rows of patches lie
that of the tokens that end a row of an image, and that of the token that ends the image.
"""
INPUTS = frozenset({PATCHES, SEEN, WINDOWS, ORDER, ROTATIONS, CORNERS, SHARES, SPREAD, TOKEN_ROWS})
"""All inputs of encoders of images of any shapes."""
PIXELS = "pixel_values"
"""The input of an encoder of images of one size."""
FILE, PIXEL_FILE = "patches.onnx", "pixels.onnx"
"""The file of an encoder of images of any shapes, and of one size."""
