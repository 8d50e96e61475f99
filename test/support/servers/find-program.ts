import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** Something that a suite needs: where it is, or why there is none. */
export type Availability = { readonly path: string } | { readonly missing: string };

/** Looks along PATH. */
export async function findOnPath(program: string): Promise<string | undefined> {
  for (const folder of (process.env.PATH ?? '').split(delimiter).filter(Boolean)) {
    const candidate = join(folder, program);
    const usable = await access(candidate, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (usable) return candidate;
  }
  return undefined;
}
