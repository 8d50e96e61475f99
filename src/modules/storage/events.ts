/** Events of files and containers, each in the transaction of the change. They carry ids and plain facts, no contents. */
import type { NewEvent } from '../../kernel/events/events.ts';
import type { ContainerRow } from './queries/containers.ts';
import type { FileRow } from './queries/files.ts';

/** `ready`: a content has become the current one. */
export type FileEvent = 'create' | 'update' | 'delete' | 'ready';

export const fileEvent = (what: FileEvent, file: FileRow): NewEvent => {
  const { _id, name, container, folder, size, mimeType, owner } = file;
  return {
    topic: `storage:${what}:File`,
    ids: [_id],
    payload: { _id, name, container, folder, size, mimeType, owner },
  };
};

export const containerEvent = (
  what: 'create' | 'update' | 'delete',
  { _id, name }: Pick<ContainerRow, '_id' | 'name'>,
): NewEvent => ({ topic: `storage:${what}:container`, ids: [_id], payload: { _id, name } });
