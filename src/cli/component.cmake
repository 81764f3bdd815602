# The built-in model is part of the program.
luminal_embed(luminal_${component}_objects builtin_model
  ${PROJECT_SOURCE_DIR}/models/builtin/luminal-tales.gguf)
