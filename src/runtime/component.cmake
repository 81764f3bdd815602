# What exported programs are compiled with is part of the compiler.
luminal_embed(luminal_${component}_objects exported_runtime ${component_dir}/exported/luminal_runtime.h
  ${component_dir}/exported/luminal_runtime.c)
