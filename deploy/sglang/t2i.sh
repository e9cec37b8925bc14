#!/usr/bin/env bash
# Starts stock SGLang as a text-to-image server: the diffusion half of GLM-Image.
#
# It looks for the encoder once, when it loads, and does not start without it.
# MODEL is a repository id or a directory; its path must contain "glm-image", or SGLang silently
# takes another implementation. More options can be given as arguments.
set -euo pipefail

model=${MODEL:-zai-org/GLM-Image}
case ${model,,} in
  *glm-image*) ;;
  *)
    echo "t2i.sh: the path $model must contain 'glm-image'" >&2
    exit 2
    ;;
esac

# The empty paths keep prompts' pictures off the disk.
exec sglang serve \
  --model-path "$model" --srt-encoder-url "${ENCODER_URL:-http://127.0.0.1:30001}" \
  --host "${HOST:-0.0.0.0}" --port "${PORT:-30010}" \
  --num-gpus 1 --sp-degree 1 --base-gpu-id 0 --warmup-mode off \
  --output-path "" --input-save-path "" --enable-metrics "$@"
