/** Forms in memory, dropped on every node when one changes. */
import type { Kernel } from '../../../host/kernel.ts';
import { isId } from '../../../kernel/ids.ts';
import { type FormRow, formById } from '../queries/forms.ts';

export interface KnownForms {
  /** `undefined`: there is none of this id. */
  find(id: string): Promise<FormRow | undefined>;
  /** Forgets it here and on every other node, before it resolves. */
  forget(id: string): Promise<void>;
}

/** Made once for each process: a cache keeps its name. */
export function createKnownForms({ caches, database }: Pick<Kernel, 'caches' | 'database'>) {
  const cache = caches.create<FormRow>({ name: 'forms', maxEntries: 2_000, ttlMs: 60_000 });
  const known: KnownForms = {
    find: async (id) => (isId(id) ? cache.load(id, () => formById(database, id)) : undefined),
    forget: (id) => cache.invalidate([id]),
  };
  return known;
}
