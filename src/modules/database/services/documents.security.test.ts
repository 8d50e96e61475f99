/**
 * Records of modules in the hands of admins: only as far as the module allows (mass assignment,
 * https://cwe.mitre.org/data/definitions/915.html; Payload CVE-2026-39397, a door that overrode the owner's access).
 */
import { expect, test } from 'vitest';
import type { RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { adminOwner } from '../../../kernel/authority.ts';
import { system } from '../../../kernel/caller.ts';
import { createDocuments } from './documents.ts';

const caller = system('test');

/** A schema of a module with a field of its own and one that admins have added. */
function documentsOf(canModify: 'Everything' | 'Nothing' | 'ExtensionOnly', addedBy = adminOwner) {
  const schema = {
    name: 'Thing',
    ownerModule: 'somebody',
    modelOptions: {
      conduit: { permissions: { extendable: true, canCreate: false, canModify, canDelete: false } },
    },
    extensions: [{ ownerModule: addedBy, fields: { added: 'String' } }],
    tree: { fields: new Map(['own', 'added'].map((name) => [name, {}])) },
  };
  const changed: unknown[] = [];
  const records = {
    update: async (_caller: unknown, _schema: string, id: string, input: unknown) => {
      changed.push(input);
      return { id, json: '{}' };
    },
  };
  const registry = { get: () => schema as unknown as CompiledSchema };
  const documents = createDocuments(
    records as unknown as RecordStore,
    registry as unknown as SchemaRegistry,
  );
  return {
    changed,
    change: (input: Record<string, unknown>) => documents.update(caller, 'Thing', 'id', input),
  };
}

const refused = { code: 'DOCUMENTS_READ_ONLY' };

test('a module that allows nothing keeps added fields too', async () => {
  const { change, changed } = documentsOf('Nothing');
  for (const input of [{ added: 'x' }, { own: 'x' }, { own: 'x', added: 'x' }])
    await expect(change(input)).rejects.toMatchObject(refused);
  expect(changed).toEqual([]);
});

test('a module that allows what was added allows that alone', async () => {
  const { change, changed } = documentsOf('ExtensionOnly');
  for (const input of [{ own: 'x' }, { own: 'x', added: 'x' }, { added: 'x', __v: 1 }])
    await expect(change(input)).rejects.toMatchObject(refused);
  await change({ added: 'x' });
  expect(changed).toEqual([{ added: 'x' }]);
});

test('what another module has added is not for admins', async () => {
  const { change } = documentsOf('ExtensionOnly', 'another');
  await expect(change({ added: 'x' })).rejects.toMatchObject(refused);
});
