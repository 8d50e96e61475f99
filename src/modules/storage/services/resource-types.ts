/**
 * Files, folders and containers as types of the permission engine. Rights on a container reach all its files, rights on a
 * folder those in it and below, by fields of the file (decision 107). What operators make of these types stays.
 */
import { system } from '../../../kernel/caller.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import type { AuthorizationService } from '../../authorization/index.ts';
import { codeOfError } from './storage-parts.ts';

const caller = system('storage');
const subjects = ['User', 'Team'];
/** The version of `file`; the one that every schema gets has 0. */
const FILE_VERSION = 1;

const given = (types: readonly string[]) => ({ types, shareable: true });
const read = ['reader', 'reader->read', 'editor', 'editor->read', 'owner', 'owner->read'];
const edit = ['editor', 'editor->edit', 'owner', 'owner->edit'];
const remove = ['owner', 'owner->edit'];
const rest = { conditions: {}, actAs: null };

const place = (name: string) => ({
  name,
  relations: { owner: subjects, editor: given(subjects), reader: given(subjects) },
  permissions: { read, edit, delete: [...edit], share: remove },
  ...rest,
});

const file = (owners: readonly string[]) => ({
  name: 'File',
  relations: {
    owner: owners,
    editor: given(owners),
    reader: given(owners),
    container: { from: 'containerId', type: 'Container' },
    folder: { from: 'folderIds', type: 'Folder' },
  },
  permissions: {
    read: [...read, 'folder->read', 'container->read'],
    edit: [...edit, 'folder->edit', 'container->edit'],
    delete: [...remove, 'folder->delete', 'container->delete'],
    share: [...remove, 'folder->share', 'container->share'],
  },
  ...rest,
  version: FILE_VERSION,
});

/** Defines what is not defined yet. */
export async function defineTypes(
  authorization: Pick<AuthorizationService, 'define' | 'all'>,
  log: Logger,
): Promise<void> {
  try {
    const known = new Map((await authorization.all()).map((one) => [one.name, one]));
    for (const name of ['Container', 'Folder'])
      if (!known.has(name)) await authorization.define(caller, place(name));
    const current = known.get('File');
    // Somebody who wrote a definition of their own has raised the version.
    if (current && current.version >= FILE_VERSION) return;
    const owners = current?.relations.owner;
    await authorization.define(caller, file(Array.isArray(owners) ? owners : subjects));
  } catch (error) {
    log.error(
      { err: error, code: codeOfError(error) },
      'The types File, Folder and Container could not be defined: rights on files are not complete',
    );
  }
}
