#!/usr/bin/env bash
# Starts stock SGLang as the encoder: the autoregressive half of GLM-Image, for text, and for the
# edits of split workers, which send it pictures as tokens. One serves any number of workers.
#
# MEM_FRACTION is its share of the card's memory, counted from what is free when it starts.
# MODEL is a directory or a repository id. More options can be given as arguments; worth knowing:
#   --preferred-sampling-params '{"top_p": 0.75}'   samples as the checkpoint asks for
#   --enable-deterministic-inference                makes a seed count, at the price of speed
#   --cuda-graph-bs-decode 1 2 4 8                  keeps it fast for several workers at once
set -euo pipefail

model=${MODEL:-zai-org/GLM-Image}
# A repository id cannot name a sub-folder, so it is turned into the directory of its snapshot.
if [ ! -d "$model" ]; then
  model=$(python3 -c '
import sys
from huggingface_hub import snapshot_download
print(snapshot_download(sys.argv[1], allow_patterns=["vision_language_encoder/*", "processor/*"]))
' "$model")
fi

exec sglang serve \
  --model-path "$model/vision_language_encoder" --tokenizer-path "$model/processor" \
  --enable-multimodal --cuda-graph-bs-decode 1 --image-processor-backend pil \
  --tp-size 1 --host "${HOST:-0.0.0.0}" --port "${PORT:-30001}" \
  --base-gpu-id 0 --mem-fraction-static "${MEM_FRACTION:-0.4}" --enable-metrics "$@"
