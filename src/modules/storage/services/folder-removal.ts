/** Large folders are deleted by a task, which tells how far it is. */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { TaskRow } from '../queries/tasks.ts';
import type { Emptying } from './emptying.ts';
import type { Folders } from './folders.ts';
import type { TaskWork } from './tasks.ts';

export const createFolderRemoval =
  (emptying: Emptying, drop: Folders['drop']): TaskWork =>
  async (task, until, signal) => {
    const folderId = String(task.input.folderId);
    const caller = callerOf(task);
    let deleted = Number(task.progress.deleted ?? 0);
    for (;;) {
      const gone = await emptying.batch(caller, { folderId });
      deleted += gone;
      if (gone === 0) break;
      if (performance.now() > until || signal.aborted)
        return { progress: { deleted }, position: { folderId } };
    }
    await drop(folderId);
    return { progress: { deleted }, position: null };
  };

/** Whoever asked for it: what they may not delete stays. */
function callerOf({ input: { userId } }: TaskRow): Caller {
  if (typeof userId !== 'string') return system('storage.remove-folder');
  return {
    kind: 'user',
    userId,
    sessionId: 'storage.remove-folder',
    authenticatedAt: 0,
    complete: true,
    clientId: '',
  };
}
