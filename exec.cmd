@rem For npm on Windows: scripts of package.json say "exec", which shells elsewhere understand.
@%*
