/** Events of files and containers, each in the transaction of the change. They carry ids and plain facts, no contents. */
import type { NewEvent } from '../../kernel/events/events.ts';
import type { ContainerRow } from './queries/containers.ts';
import type { FileRow } from './queries/files.ts';

/** `ready`: a content has become the current one. `infected`: the scanner has found something in it. */
export type FileEvent = 'create' | 'update' | 'delete' | 'ready' | 'infected';

/** What events say about a file. */
export type FileFacts = Pick<
  FileRow,
  '_id' | 'name' | 'container' | 'folder' | 'size' | 'mimeType' | 'owner'
>;

export const fileEvent = (what: FileEvent, file: FileFacts) => {
  const { _id, name, container, folder, size, mimeType, owner } = file;
  return {
    topic: `storage:${what}:File`,
    ids: [_id],
    payload: { _id, name, container, folder, size, mimeType, owner },
  } satisfies NewEvent;
};

/** Several files of one deletion, in one event. */
export const filesGone = (files: readonly FileRow[]): NewEvent => ({
  topic: 'storage:delete:File',
  ids: files.map(({ _id }) => _id),
  payload: {
    containers: [...new Set(files.map(({ container }) => container))],
    files: files.length,
    /** Of each, in their order. */
    owners: files.map(({ owner }) => owner),
    bytes: files.reduce((sum, { size }) => sum + size, 0),
  },
});

export const containerEvent = (
  what: 'create' | 'update' | 'delete',
  { _id, name }: Pick<ContainerRow, '_id' | 'name'>,
): NewEvent => ({ topic: `storage:${what}:container`, ids: [_id], payload: { _id, name } });
