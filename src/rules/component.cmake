# The language of terms and the rules over it are part of the compiler.
set(rules_in_order terms facts scalar algebra folds views families cascades tiles)
list(TRANSFORM rules_in_order PREPEND ${component_dir}/)
list(TRANSFORM rules_in_order APPEND .egg)
luminal_embed(luminal_${component}_objects rule_files ${rules_in_order})
