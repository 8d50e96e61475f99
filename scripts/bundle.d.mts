/**
 * The file to run under `node` (its path): the bundle of the sources as they are now, made first where there is none,
 * or `source` where none can be made, which `say` tells.
 */
export declare function findProgram(
  node: string,
  source: string,
  say: (text: string) => void,
): Promise<string>;
