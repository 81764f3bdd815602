# What exported programs are compiled with is part of the compiler.
luminal_embed(luminal_${room}_objects exported_runtime ${room_dir}/exported/luminal_runtime.h ${room_dir}/exported/luminal_runtime.c)
