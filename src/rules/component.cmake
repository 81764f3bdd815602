# The language of terms and the rules over it are part of the compiler.
luminal_embed(luminal_${component}_objects rule_files ${component_dir}/terms.egg ${component_dir}/scalar.egg)
